"""Whole trees of games, and what best responses find in them, beside OpenSpiel's own."""

import functools

import numpy as np
import pyspiel
import pytest

from analysis.exploitability import best_responses, strategy
from league.envs import registry
from league.envs.openspiel_policy import as_openspiel_policy
from league.envs.trees import Inexact, TooLarge
from league.envs.trees.openspiel import estimated_histories
from league.envs.trees.trees import tree_of
from storage.errors import Mistake
from tests.league.envs.trees.answers import answers_by_row, network_table, random_table, uniform

TWIN = "turn_based_simultaneous_game(game={})"
GOOFSPIEL = "goofspiel(num_cards=4,imp_info=True,points_order={})"
TURN_BASED = [
    "kuhn_poker",
    "kuhn_poker(players=3)",
    "leduc_poker",
    "liars_dice(dice_sides=4)",
    TWIN.format(GOOFSPIEL.format("descending")),
]


class Table:
    """An actor for `as_openspiel_policy`."""

    memory_size = 0
    wants_reward = False

    def __init__(self, policy):
        self.evaluate = lambda observations, masks: (policy(observations, masks), np.zeros(len(masks)))


def openspiels_table(name, policy):
    """The policy as pyspiel.TabularPolicy, state by state."""
    theirs = as_openspiel_policy(name, Table(policy))
    states, table = [theirs.game.new_initial_state()], {}
    while states:
        state = states.pop()
        if state.current_player() >= 0:
            known = state.information_state_string()
            if known not in table:
                table[known] = list(theirs.action_probabilities(state).items())
        states += [state.child(action) for action in state.legal_actions()]
    return theirs.game, pyspiel.TabularPolicy(table)


@pytest.mark.slow
@pytest.mark.parametrize("name", TURN_BASED)
def test_nash_conv_is_openspiels_for_random_tables_and_networks(name):
    env_id = f"openspiel:{name}"
    tree = tree_of(env_id)
    for table in (random_table(tree, 0), random_table(tree, 1), network_table(tree, env_id, 2)):
        policy = answers_by_row(tree, table)
        game, theirs = openspiels_table(name, policy)
        expected = pyspiel.nash_conv(game, theirs)
        found = best_responses(tree, strategy(tree, policy))
        assert found.nash_conv == pytest.approx(expected, abs=1e-9)
        assert found.nash_conv > 0.1
        if len(tree.seats) == 2:
            assert found.exploitability == pytest.approx(pyspiel.exploitability(game, theirs), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["descending", "random"])
def test_seats_that_act_at_once_are_as_if_they_did_not_see_each_others_turn(order):
    at_once = GOOFSPIEL.format(order)
    tree = tree_of(f"openspiel:{at_once}")
    policy = answers_by_row(tree, random_table(tree, 4))
    added = registry.make(f"openspiel:{TWIN.format(at_once)}", 1).observation_specs[0].size
    added -= tree.questions.observations.shape[1]  # the twin says first whose turn it is

    def in_turns(observations, masks):
        return policy(observations[:, added:], masks)

    game, theirs = openspiels_table(TWIN.format(at_once), in_turns)
    found = best_responses(tree, strategy(tree, policy))
    assert found.nash_conv == pytest.approx(pyspiel.nash_conv(game, theirs), abs=1e-9)


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [("kuhn_poker", 11 / 12), ("leduc_poker", 4.747222222222222), ("rock_paper_scissors", 0.0)],
)
def test_a_uniform_player_has_its_known_nash_conv(env_id, expected):
    tree = tree_of(env_id)
    assert best_responses(tree, strategy(tree, uniform)).nash_conv == pytest.approx(expected, abs=1e-12)


def test_a_seat_is_told_what_it_got_since_its_last_decision_and_no_more():
    (own,) = tree_of("openspiel:cliff_walking(horizon=4)").seats  # each step costs 1
    assert set(own.reward[own.stages[1] :]) == {-1.0}
    for own in tree_of("rock_paper_scissors", {"rounds": 3}).seats:  # of which each pays a third
        assert set(own.reward[own.stages[2] :].round(6)) == {-0.333333, 0.0, 0.333333}


def test_a_game_that_shows_more_than_a_seat_is_said_to_know_has_no_exact_answer():
    """Of imperfect recall: its tensor separates what its information states do not."""
    with pytest.raises(Inexact, match="has various observations"):
        tree_of("openspiel:dark_hex_ir(board_size=2)")


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_a_native_game_has_the_tree_of_its_openspiel_twin(name):
    """One policy in both: it goes by what is seen, as the native game shows it."""
    native, theirs = tree_of(name), tree_of(f"openspiel:{name}")
    assert {"kuhn_poker": 12, "leduc_poker": 288}[name] == native.num_information_sets
    # OpenSpiel's leduc shows suits: of what they tell apart, ours is the ranks
    own = {key(name, row): n for n, row in enumerate(native.questions.observations)}
    table = random_table(native, 5)
    rows = [own[twin_key(name, row)] for row in theirs.questions.observations]
    assert set(rows) == set(own.values())
    found = best_responses(native, strategy(native, answers_by_row(native, table)))
    expected = best_responses(theirs, strategy(theirs, answers_by_row(theirs, table[rows])))
    assert found.values == pytest.approx(expected.values, abs=1e-12)
    assert found.best == pytest.approx(expected.best, abs=1e-12)


def key(name, row):
    return tuple(row.astype(int).tolist())


def twin_key(name, row):
    """What OpenSpiel shows, as the native game shows it."""
    row = row.astype(int)
    if name == "kuhn_poker":
        return tuple(row.tolist())
    seat, private, public, actions = np.split(row, [2, 8, 14])
    ranks = [cards.reshape(3, 2).sum(axis=1) for cards in (private, public)]
    return tuple(np.concatenate([seat, *ranks, actions]).tolist())


@pytest.mark.slow
def test_tic_tac_toe_has_as_many_games_as_are_known():
    tree = tree_of("tic_tac_toe")
    assert (tree.histories, len(tree.endings.worth)) == (549_946, 255_168)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["kuhn_poker", "leduc_poker", "rock_paper_scissors", "tic_tac_toe"])
def test_all_starts_are_those_that_seeds_bring_as_often_as_they_are_likely(env_id):
    n = 20_000
    game, probability = registry.make(env_id, n), registry.make(env_id, 1).starts()
    assert probability.sum() == pytest.approx(1.0)
    game.reset(np.arange(n), np.arange(n))
    started = registry.make(env_id, len(probability))
    started.start_at(np.arange(len(probability)), np.arange(len(probability)))
    first = game.match_arrays[0]
    begun = [tuple(row) for row in getattr(started, first).tolist()]
    assert len(set(begun)) == len(begun)
    counted = np.bincount([begun.index(tuple(row)) for row in getattr(game, first).tolist()])
    assert counted / n == pytest.approx(probability, abs=5 * np.sqrt(probability.max() / n))


@pytest.mark.parametrize("env_id", ["kuhn_poker", "leduc_poker", "rock_paper_scissors", "tic_tac_toe"])
def test_a_copied_match_goes_on_like_its_original_and_leaves_it_alone(env_id):
    rng = np.random.default_rng(0)
    game = registry.make(env_id, 8, **({"rounds": 3} if env_id == "rock_paper_scissors" else {}))
    game.reset(np.arange(8), np.arange(8))
    while game.active.all():
        copied = game.copies(np.array([5, 2, 5]))
        (due,), (again,) = game.due(), copied.due()
        seats = len(due) // 8
        rows = (np.array([5, 2, 5])[:, None] * seats + np.arange(seats)).ravel()
        assert (again.observation == due.observation[rows]).all()
        actions = (rng.random(due.mask.shape) * due.mask).argmax(axis=1)
        other = (rng.random(again.mask.shape) * again.mask).argmax(axis=1)
        copied.copies(np.arange(3))
        after = copied.copies(np.arange(3))
        after.due()
        after.step([other])  # something else, which no other seat may notice
        rewards = copied.step([actions[rows]]).rewards.copy()
        assert (rewards == game.step([actions]).rewards[[5, 2, 5]]).all()
        assert (copied.active == game.active[[5, 2, 5]]).all()


def test_a_match_that_is_more_than_arrays_cannot_be_copied():
    with pytest.raises(ValueError, match="its matches cannot be copied"):
        registry.make("openspiel:kuhn_poker", 1).copies(np.zeros(1, dtype=np.int64))


@functools.cache
def cut(env_id, limit):
    tree = tree_of(env_id, step_limit=limit)
    return best_responses(tree, strategy(tree, uniform))


def test_a_step_limit_cuts_the_tree_as_it_cuts_matches():
    assert tree_of("kuhn_poker", step_limit=2).histories < tree_of("kuhn_poker").histories
    for limit in (1, 2):
        native, theirs = cut("kuhn_poker", limit), cut("openspiel:kuhn_poker", limit)
        assert native.values == pytest.approx(theirs.values, abs=1e-12)
        assert native.best == pytest.approx(theirs.best, abs=1e-12)
    assert cut("kuhn_poker", 1).best == (0.0, 0.0)  # no seat has won anything yet
    assert cut("kuhn_poker", 3) == cut("kuhn_poker", None)


def test_a_tree_is_built_once_in_a_process():
    assert tree_of("kuhn_poker", {}) is tree_of("kuhn_poker")
    assert tree_of("rock_paper_scissors", {"rounds": 2}) is not tree_of("rock_paper_scissors", {"rounds": 1})


@pytest.mark.parametrize("env_id", ["leduc_poker", "openspiel:leduc_poker"])
def test_a_tree_with_too_many_histories_is_refused(env_id):
    with pytest.raises(TooLarge, match=r"more than 1,000 histories, expected at most 1,000 .* --train"):
        tree_of(env_id, most_histories=1000)


@pytest.mark.slow
def test_a_tree_that_is_far_too_large_is_not_walked_at_all():
    with pytest.raises(TooLarge, match=r"about \de\+\d\d histories"):
        tree_of("openspiel:connect_four")
    with pytest.raises(TooLarge, match=r"more than \de\+\d\d histories"):
        tree_of("openspiel:goofspiel")  # seats act at once


@pytest.mark.slow
def test_the_estimate_of_a_trees_size_is_right_on_average():
    for name in ("leduc_poker", "goofspiel(num_cards=3,imp_info=True)"):
        state = pyspiel.load_game(name).new_initial_state()
        found = estimated_histories(state, np.random.default_rng(0), 3000)
        assert found == pytest.approx(tree_of(f"openspiel:{name}").histories, rel=0.1)


@pytest.mark.parametrize(
    ("env_id", "found"),
    [
        ("gymnasium:CartPole-v1", "does not say how its matches may start"),
        ("connect_four", "does not say how its matches may start"),
        ("gymnasium:Pendulum-v1", "continuous actions"),
    ],
)
def test_a_game_that_cannot_be_walked_is_refused_with_another_way(env_id, found):
    with pytest.raises(Inexact, match=rf"{found}.*--train") as refused:
        tree_of(env_id)
    assert isinstance(refused.value, Mistake)


def test_a_game_that_fails_on_the_way_is_refused_in_one_sentence():
    broken = TWIN.format("goofspiel(num_cards=3,imp_info=True,num_turns=2)")  # a fault of the transform
    with pytest.raises(Inexact, match=r"OpenSpiel fails on the way through its tree: .*current_player_"):
        tree_of(f"openspiel:{broken}")
