"""Trees of public histories, beside trees of single histories of the same games."""

import functools
import sys

import numpy as np
import pytest

from analysis.exploitability import (
    GameTree,
    PublicTree,
    best_responses,
    public_best_responses,
    public_mixture,
    public_strategy,
    strategy,
)
from league.envs import registry
from league.envs.games.kuhn_poker import KuhnPoker
from league.envs.games.leduc_poker import LeducPoker
from league.envs.games.liars_dice import LiarsDice
from league.envs.trees import Inexact, TooLarge
from league.envs.trees.public import walk_public
from league.envs.trees.trees import smallest_tree_of, tree_of
from tests.league.envs.trees.answers import answers_by_row, network_table, random_table, uniform

GAMES = [
    ("kuhn_poker", {}),
    ("leduc_poker", {}),
    ("liars_dice", {"faces": 3}),
    ("liars_dice", {"dice": 2, "faces": 2}),
    pytest.param("liars_dice", {}, marks=pytest.mark.slow),
]


@functools.cache
def both(env_id, *options, step_limit=None):
    """The tree of single histories, and that of public ones."""
    options = dict(options)
    game = registry.make(env_id, 1, step_limit=step_limit, **options)
    return tree_of(env_id, options, step_limit=step_limit), walk_public(env_id, game)


def expect_same(single, public, policy):
    expected = best_responses(single, strategy(single, policy))
    found = public_best_responses(public, public_strategy(public, policy))
    assert found.values == pytest.approx(expected.values, abs=1e-9)
    assert found.best == pytest.approx(expected.best, abs=1e-9)
    return found


@pytest.mark.parametrize(("env_id", "options"), GAMES)
def test_public_histories_have_the_values_of_single_ones(env_id, options):
    single, public = both(env_id, *options.items())
    for answers in (
        random_table(single, 0),
        random_table(single, 1),
        network_table(single, env_id, 5, options),
    ):
        found = expect_same(single, public, answers_by_row(single, answers))
        assert found.nash_conv > 0.1
    expect_same(single, public, uniform)
    assert (public.histories, public.num_information_sets) == (single.histories, single.num_information_sets)


@pytest.mark.parametrize("env_id", ["kuhn_poker", "leduc_poker", "liars_dice"])
@pytest.mark.parametrize("step_limit", [1, 2, 4])
def test_a_step_limit_cuts_both_trees_alike(env_id, step_limit):
    single, public = both(env_id, step_limit=step_limit)
    assert (public.histories, public.num_information_sets) == (single.histories, single.num_information_sets)
    expect_same(single, public, answers_by_row(single, random_table(single, 3)))


def test_threads_ask_for_the_same_strategy():
    single, public = both("liars_dice", ("dice", 2), ("faces", 2))
    policy = answers_by_row(single, random_table(single, 2))
    alone, together = public_strategy(public, policy), public_strategy(public, policy, threads=2)
    assert all((one == other).all() for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize("env_id", ["leduc_poker", "kuhn_poker"])
def test_a_mixture_earns_what_its_parts_earn_on_average(env_id):
    single, tree = both(env_id)
    one, other, against = (
        public_strategy(tree, answers_by_row(single, random_table(single, n))) for n in range(3)
    )
    mixture = public_mixture(tree, [(3.0, one), (1.0, other)])
    for seat in (0, 1):

        def earned(own, seat=seat):
            """What `own` in this seat earns from `against` in the other one."""
            table = [
                np.where(level.actor[level.history, None] == seat, mine, theirs)
                for level, mine, theirs in zip(tree.levels, own, against, strict=True)
            ]
            return public_best_responses(tree, tuple(table)).values[seat]

        assert earned(one) != pytest.approx(earned(other), abs=0.01)
        assert earned(mixture) == pytest.approx(0.75 * earned(one) + 0.25 * earned(other), abs=1e-12)
    assert all(
        np.add.reduceat(found, level.first_move[:-1], axis=0) == pytest.approx(1.0)
        for level, found in zip(tree.levels, mixture, strict=True)
    )


class TwoDecks(KuhnPoker):
    """Its seats have different numbers of hands: the first one cannot tell jack from queen."""

    def hands(self):
        seen = super().hands().copy()
        seen[:, 0] = seen[:, 0] == 2
        return seen

    def observe(self, slot, seat):
        seen = super().observe(slot, seat)
        low = (seat == 0) & (self._card[slot, seat] < 2)
        seen[low, 2:4] = 1
        return seen


class OpenFromTheStart(LeducPoker):
    """The public card is seen before the first bet, so each of them begins a tree of its own."""

    def events_shown(self, slot):
        return np.ones(len(slot), dtype=np.int64)

    def observe(self, slot, seat):
        seen = super().observe(slot, seat)
        seen[:, 5:8] = np.eye(3, dtype=np.int8)[self._rank[slot, 2]]
        return seen


class UnlikeEndings(LiarsDice):
    """Says of no two endings that they pay alike."""

    def ending(self, slot):
        return None


@pytest.mark.parametrize(
    ("game", "options"), [("TwoDecks", {}), ("OpenFromTheStart", {}), ("UnlikeEndings", {"faces": 3})]
)
def test_other_shapes_of_games_have_the_values_of_single_histories(game, options, own_module):
    single, public = both(f"{own_module}:{game}", *options.items())
    assert (public.histories, public.num_information_sets) == (single.histories, single.num_information_sets)
    expect_same(single, public, answers_by_row(single, random_table(single, 4)))


@pytest.fixture
def own_module(monkeypatch):
    """The name by which a config would import the games above."""
    monkeypatch.setitem(sys.modules, "own_dealt_games", sys.modules[__name__])
    return "own_dealt_games"


@pytest.mark.slow
def test_uniform_liars_dice_has_its_published_nash_conv():
    tree = tree_of("liars_dice")
    assert tree.histories == 294_877
    assert best_responses(tree, strategy(tree, uniform)).nash_conv == pytest.approx(1.5615, abs=1e-4)


@pytest.mark.parametrize(
    "options", [{"dice": 2, "faces": 2}, {"faces": 3}, pytest.param({}, marks=pytest.mark.long)]
)
def test_liars_dice_has_the_information_sets_and_nash_conv_of_openspiel(options):
    name = f"openspiel:liars_dice(numdice={options.get('dice', 1)},dice_sides={options.get('faces', 6)})"
    theirs, (_, ours) = tree_of(name), both("liars_dice", *options.items())
    assert ours.num_information_sets == theirs.num_information_sets
    expected = best_responses(theirs, strategy(theirs, uniform))
    found = public_best_responses(ours, public_strategy(ours, uniform))
    assert found.values == pytest.approx(expected.values, abs=1e-12)
    assert found.best == pytest.approx(expected.best, abs=1e-12)


@pytest.mark.long
def test_two_dice_of_five_faces_are_solved_as_published():
    """Uniform play has exploitability 0.8906."""
    tree = smallest_tree_of("liars_dice", {"dice": 2, "faces": 5})
    assert isinstance(tree, PublicTree)
    assert tree.num_information_sets == 15_728_640
    assert tree.histories - 1 == 225 * (2 * 2**20 - 1)
    found = public_best_responses(tree, public_strategy(tree, uniform, threads=2))
    assert found.exploitability == pytest.approx(0.8906, abs=5e-5)


def test_the_smallest_tree_is_that_of_single_histories_where_it_fits():
    assert isinstance(smallest_tree_of("liars_dice", {"faces": 3}), GameTree)
    assert smallest_tree_of("kuhn_poker") is tree_of("kuhn_poker")
    assert isinstance(smallest_tree_of("liars_dice", {"faces": 3}, most_histories=1143), PublicTree)
    assert isinstance(smallest_tree_of("rock_paper_scissors"), GameTree)


def test_a_tree_with_too_many_public_histories_is_refused():
    game = registry.make("liars_dice", 1, dice=2, faces=4)
    with pytest.raises(TooLarge, match=r"more than 1,000 numbers .* expected at most 1,000; train .*--train"):
        walk_public("liars_dice", game, 1000)
    with pytest.raises(Inexact, match=r"does not say how its matches may start.*--train"):
        smallest_tree_of("liars_dice", {"dice": 10})  # its deals are too many to be listed


class RaisesKings(KuhnPoker):
    def legal(self, slot, seat):
        mask = super().legal(slot, seat)
        mask[:, 1] = self._card[slot, seat] != 2
        return mask


class EndsForKings(KuhnPoker):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._over[slot[self._card[slot, 0] == 2]] = False


class PaysEarly(KuhnPoker):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards[slot] += 1


class AtOnce(KuhnPoker):
    def _turn(self):
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile([0, 1], len(slot))


@pytest.mark.parametrize(
    ("game", "found"),
    [
        (RaisesKings, "legal for some hands only"),
        (EndsForKings, "ends for some hands only"),
        (PaysEarly, "a reward before the end"),
        (AtOnce, "seats that act at once"),
    ],
)
def test_a_game_that_breaks_the_contract_is_refused_by_name(game, found):
    with pytest.raises(Inexact, match=rf"env 'mine': found .*{found}.*league/envs/dealt.py.*--train"):
        walk_public("mine", game(1))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda o, m: np.ones((len(o), 1)), "expected"),
        (lambda o, m: m * 1.0, "no probabilities"),
        (lambda o, m: np.where(m, [2.0, -1.0], 0.0), "no probabilities"),
    ],
)
def test_answers_that_are_no_probabilities_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        public_strategy(both("kuhn_poker")[1], answers)
