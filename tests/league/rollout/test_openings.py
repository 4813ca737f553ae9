"""Openings come from a match's seed, or from a book, whoever sits where."""

import dataclasses

import numpy as np
import pytest

from league.envs import registry
from league.envs.base import is_legal
from league.envs.spaces import ActionSpec
from league.rollout.env_runner import EnvRunner
from league.rollout.openings import OpeningMoves, Openings, random_legal
from league.rollout.requests import PlaySetup
from league.rollout.settings import RolloutSettings
from league.watching.replay import Recorded, play_again
from storage.errors import Mistake
from storage.records import EndReason, Outcome
from tests.league.rollout.conftest import Mixed, unlearned


@pytest.fixture
def play_pairs(make_request):
    """Results of pairs: two snapshots that swap seats, with all actions recorded."""

    def play(env, num_pairs, openings, *, slots=16, order=None, seed=0, options=None):
        request, weights = make_request(env, 2 * num_pairs, options=options)
        order = np.arange(2 * num_pairs) if order is None else order
        seat = np.tile([[1, 2], [2, 1]], (num_pairs, 1))[order]
        request = unlearned(request, seat, openings=openings, seed=seed)
        request.matches.seed[:] = np.repeat(request.matches.seed[:num_pairs], 2)[order]
        runner = EnvRunner(PlaySetup(env, options or {}, RolloutSettings(slots=slots, record=1.0)))
        return runner.play(request, weights)[0]

    return play


def actions_of(results):
    recorded = results.recordings
    return [
        recorded.action[a:b].tolist() for a, b in zip(recorded.offset[:-1], recorded.offset[1:], strict=True)
    ]


@pytest.mark.parametrize(
    ("env", "options", "plies"),
    [("connect_four", {}, 5), ("rock_paper_scissors", {"rounds": 6}, 5), ("leduc_poker", {}, 1)],
)
def test_both_games_of_a_pair_begin_alike_and_different_pairs_do_not(play_pairs, env, options, plies):
    actions = actions_of(play_pairs(env, 60, Openings(plies), options=options))
    openings = [tuple(own[:plies]) for own in actions]
    assert openings[0::2] == openings[1::2]
    assert len(set(openings)) > 1 + (plies > 1) * 30
    assert any(a[plies:] != b[plies:] for a, b in zip(actions[0::2], actions[1::2], strict=True))


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "continuous"])
def test_openings_are_the_same_in_any_slot_batch_and_order_whatever_comes_behind(play_pairs, signals, kind):
    """The seats that act, one or both, are chance here: a ply is one decision of one seat all the same."""
    plies, width = 3, 1 if kind == "discrete" else 2
    play = lambda **how: play_pairs(signals, 20, Openings(plies), options={"actions": kind}, **how)  # noqa: E731
    order = np.random.default_rng(5).permutation(40)
    first, other = play(slots=3), play(slots=64, order=order, seed=9)
    led = [own[: plies * width] for own in actions_of(first)]
    assert [own[: plies * width] for own in actions_of(other)] == [led[i] for i in order]
    assert led[0::2] == led[1::2]
    assert actions_of(other) != [actions_of(first)[i] for i in order]
    assert (first.reason == EndReason.FINISHED).all()


def test_a_match_with_an_opening_is_played_again_from_its_recording(play_pairs):
    results = play_pairs("connect_four", 20, Openings(6))
    game = registry.make("connect_four", 8)
    again = play_again(game, Recorded({}, results, results.recordings))
    np.testing.assert_array_equal(again.score, results.score)
    np.testing.assert_array_equal(again.env_steps, results.env_steps)


class Watching:
    """A bot that notes in a file, from its own process, how many decisions it is asked for."""

    note = ""

    def __init__(self, env_id):
        self.env_id = env_id

    def act(self, observation, mask, rng, greedy):
        with open(Watching.note, "a") as note:
            note.write("x" * len(observation))
        return mask.argmax(axis=1), np.zeros(len(mask), np.float32)


def test_players_are_asked_in_the_opening_too_so_that_they_remember_it(make_request, own_module, tmp_path):
    Watching.note = str(tmp_path / "asked")
    own_module("watching_bot", Watching=Watching)
    request, weights = make_request("connect_four", 20, snapshots=0, bots=("watching_bot:Watching",))
    request = unlearned(request, np.ones((20, 2)), openings=Openings(6))
    results, _, _ = EnvRunner(PlaySetup("connect_four", {}, RolloutSettings())).play(request, weights)
    assert (tmp_path / "asked").stat().st_size == results.env_steps.sum() > 120


def test_a_match_may_end_inside_its_opening(play_pairs):
    results = play_pairs("tic_tac_toe", 50, Openings(9))
    assert (results.reason == EndReason.FINISHED).all()
    np.testing.assert_array_equal(results.score[0::2], results.score[1::2])  # nobody had a say
    assert len(np.unique(results.env_steps)) > 3


def test_a_line_of_the_book_comes_first_and_random_plies_behind_it(play_pairs):
    book = ((3.0, 3.0, 3.0), (0.0,))
    line = np.repeat(np.arange(20) % 2, 2)
    actions = actions_of(play_pairs("connect_four", 20, Openings(2, book, line)))
    for own, which in zip(actions, line, strict=True):
        assert tuple(own[: len(book[which])]) == book[which]
    ends = [len(book[which]) + 2 for which in line[::2]]
    pairs = list(zip(actions[0::2], actions[1::2], ends, strict=True))
    assert all(a[:end] == b[:end] for a, b, end in pairs)
    assert len({tuple(a[end - 2 : end]) for a, _, end in pairs}) > 5
    assert any(a[end] != b[end] for a, b, end in pairs)


def test_a_line_serves_seats_that_act_at_once_in_different_ways():
    """Real numbers and a choice in turn; the line ends between two seats that act together."""
    game = Mixed(3)
    book = ((0.25, -0.5, 4.0, 0.75, 1.0), (-1.0, 0.0))
    moves = OpeningMoves(game, Openings(0, book, np.array([1, 0])), np.array([7, 7]))
    slots = np.array([2, 0])
    game.reset(slots, np.array([7, 7]))
    moves.begin(slots, np.array([0, 1]))
    told = []
    while game.active.any():
        actions = []
        for block in game.due():
            spec = game.action_specs[int(block.seat[0])]
            action = np.full((len(block), *spec.shape), 0.125 if spec.kind == "continuous" else 2, spec.dtype)
            made, own = moves.make(block)
            action[made] = own
            actions.append(action)
            told.append((action.tolist(), [row in made for row in range(len(block))]))
        game.step(actions)
    own = [[0.125, 0.125]] * 2
    assert told[:4] == [
        ([[0.25, -0.5], [-1.0, 0.0]], [True, True]),
        ([4, 2], [True, False]),
        ([[0.75, 1.0], own[0]], [True, False]),
        ([2, 2], [False, False]),
    ]
    assert told[4:] == [(own, [False, False]), ([2, 2], [False, False])]


def test_every_legal_choice_is_drawn_equally_often_and_no_other():
    """Of 6,000 draws 1/3 each: five standard deviations are 0.03."""
    seeds = np.arange(6000) * 7919
    mask = np.tile([False, True, False, True, True], (6000, 1))
    drawn = random_legal(ActionSpec("discrete", (5,)), mask, seeds, np.full(6000, 3))
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / 6000, [0, 1 / 3, 0, 1 / 3, 1 / 3], atol=0.03)
    several = random_legal(
        ActionSpec("multi_discrete", (2, 3)),
        np.tile([1, 1, 0, 1, 1], (6000, 1)).astype(bool),
        seeds,
        seeds % 9,
    )
    combined = np.bincount(several[:, 0] * 3 + several[:, 1], minlength=6) / 6000
    np.testing.assert_allclose(combined, [0, 0.25, 0.25, 0, 0.25, 0.25], atol=0.03)


def test_real_numbers_are_drawn_evenly_between_their_bounds():
    """Means and variances of 6,000 uniform draws, within five standard deviations of each."""
    spec = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 3.0))
    none = np.zeros((6000, 0), np.bool_)
    drawn = random_legal(spec, none, np.arange(6000), np.zeros(6000, np.int64))
    assert drawn.dtype == np.float32
    assert is_legal(spec, none, drawn).all()
    np.testing.assert_allclose(drawn.mean(axis=0), [0.0, 1.5], atol=0.06)
    np.testing.assert_allclose(drawn.var(axis=0), [4 / 12, 9 / 12], atol=0.05)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.07


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            (3.0, 7.0),
            "opening 2, move 2: found 7, which is not legal there, expected one of 0, 1, 2, 3, 4, 5, 6",
        ),
        (
            (0.0,) * 7,
            "opening 2, move 7: found 0, which is not legal there, expected one of 1, 2, 3, 4, 5, 6",
        ),
        ((1.5,), "opening 2, move 1: found 1.5"),
        ((-1.0,), "opening 2, move 1: found -1"),
        ((np.nan,), "opening 2, move 1: found nan"),
        ((np.inf,), "opening 2, move 1: found inf"),
        ((1e300,), "opening 2, move 1: found 1e\\+300"),
        ((0.0, 1.0) * 3 + (0.0, 1.0), "opening 2: the match is over after move 7, and the line goes on"),
        ((0.0, 1.0) * 3 + (0.0,), "opening 2: the match is over with its last move"),
    ],
)
def test_a_book_that_does_not_fit_the_game_is_a_mistake_that_names_line_and_move(line, message):
    game = registry.make("connect_four", 1)
    with pytest.raises(Mistake, match=message):
        Openings(0, ((3.0, 3.0), line)).check(game)


def test_a_line_that_ends_within_an_action_is_a_mistake():
    with pytest.raises(
        Mistake, match="opening 1, move 3: found 0\\.5, which is not legal there, expected 2 numbers"
    ):
        Openings(0, ((0.25, 1.0, 4.0, 0.5),)).check(Mixed(1))


@pytest.mark.parametrize("book", [((3.0, 3.0), (0.0,) * 6), ()])
def test_a_book_that_fits_passes(book):
    game = registry.make("connect_four", 1)
    Openings(4, book).check(game)
    assert Openings(4, book).line is None


@pytest.mark.parametrize(("env", "plies"), [("tic_tac_toe", 9), ("tic_tac_toe", 10**30), ("kuhn_poker", 3)])
def test_an_opening_that_leaves_nothing_to_play_is_a_mistake(env, plies):
    game = registry.make(env, 1)
    with pytest.raises(Mistake, match=f"opening.plies: found {plies}, but of 8 matches .* over after [0-9],"):
        Openings(plies).check(game)
    Openings(1).check(game)


def test_of_seats_that_act_at_once_some_may_be_left_to_choose():
    game = registry.make("rock_paper_scissors", 1, rounds=1)
    Openings(1).check(game)
    with pytest.raises(Mistake, match=r"opening\.plies: found 2"):
        Openings(2).check(game)


def test_a_move_that_is_not_legal_after_this_deal_is_a_mistake_when_it_comes_up(play_pairs):
    openings = Openings(0, ((0.0,) * 7,), np.zeros(4, np.int64))
    with pytest.raises(Mistake, match="opening 1, move 7: found 0"):
        play_pairs("connect_four", 2, openings)


def test_a_book_without_lines_for_the_matches_is_refused(play_pairs):
    with pytest.raises(ValueError, match="expected the index of a line of the book for each of 4 matches"):
        play_pairs("connect_four", 2, Openings(0, ((0.0,),)))


def test_a_share_of_matches_begins_with_one_to_so_many_random_moves(play_pairs):
    results = play_pairs("connect_four", 200, Openings(6, share=0.5))
    seeds, actions = results.matches.seed, actions_of(results)
    plies = Openings(6, share=0.5).random_plies(seeds)
    assert np.array_equal(plies[::2], plies[1::2])  # both games of a pair, of one seed
    assert 0.4 < np.mean(plies > 0) < 0.6
    assert set(plies) == set(range(7))
    for first, second, n in zip(actions[::2], actions[1::2], plies[::2], strict=True):
        assert first[:n] == second[:n]


def test_moves_of_an_opening_are_not_learned_from(make_request):
    request, weights = make_request("connect_four", 60, self_play=60)
    learned = dataclasses.replace(request.matches, learning=np.ones((60, 2), np.bool_))
    request = dataclasses.replace(request, matches=learned)
    runner = EnvRunner(PlaySetup("connect_four", {}, RolloutSettings(slots=16)))
    for openings, plies in ((None, 0), (Openings(4), 4)):
        results, _, episodes = runner.play(dataclasses.replace(request, openings=openings), weights)
        own = episodes["main-0"]
        assert own.num_steps == results.env_steps.sum() - 60 * plies
        stones = own.observation.reshape(own.num_steps, -1).sum(axis=1)
        assert stones.min() == plies
        first = stones[own.offset[:-1]]
        assert set(first - plies) == {0, 1}  # each seat's first own decision
        assert np.abs(own.reward).sum() == 2 * np.count_nonzero(results.outcome[:, 0] != Outcome.DRAW)
