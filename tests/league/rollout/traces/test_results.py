"""Matches begin so that few policies have a decision at each step."""

import itertools

import numpy as np
import pytest

from league.rollout.traces.results import OrderOfPlay, placed
from storage.records import Outcome
from tests import made_up

HOME, SLOTS = 0, 32
W, D, L, F = Outcome.WIN, Outcome.DRAW, Outcome.LOSS, Outcome.FORFEIT


def matches(seat):
    return made_up.matches(
        [f"c{i}" for i in range(int(seat.max(initial=0)) + 1)], seat, learning=seat == HOME
    )


def against(num_opponents, each, num_seats=2):
    """Home in every seat equally often, the others drawn; in no order."""
    rng = np.random.default_rng(0)
    n = num_opponents * each
    seat = rng.permutation(np.repeat(1 + np.arange(num_opponents), each))[:, None].repeat(num_seats, axis=1)
    seat[np.arange(n), rng.permutation(np.arange(n) % num_seats)] = HOME
    return seat


def play(seat, slots=SLOTS):
    """Who is due at each step of a game in which seats take turns; matches last 5 to 12 steps.

    Yields [n] the competitors who have a decision, [n] the matches.
    """
    order, (n, num_seats) = OrderOfPlay(matches(seat)), seat.shape
    length, age = np.random.default_rng(1).integers(5, 13, n), np.full(n, -1)
    while (age < length).any():
        active = (age >= 0) & (age < length)
        fresh = order.begin(slots - active.sum(), idle=not active.any())
        assert (age[fresh] == -1).all()
        age[fresh] = 0
        playing = np.flatnonzero((age >= 0) & (age < length))
        assert 0 < len(playing) <= slots
        yield seat[playing, age[playing] % num_seats], playing
        age[playing] += 1
    assert not len(order.begin(slots, idle=True))


@pytest.mark.parametrize("slots", [1, 7, 32, 1000])
@pytest.mark.parametrize("num_seats", [1, 2, 4])
def test_every_match_begins_once_and_the_table_is_never_empty_before(slots, num_seats):
    begun = np.concatenate([playing for _, playing in play(against(5, 12, num_seats), slots)])
    assert set(begun) == set(range(60))


def test_who_can_play_only_so_many_matches_holds_up_no_others():
    seat = np.random.default_rng(0).permutation(np.repeat([[0, 1], [1, 2], [2, 3], [3, 0]], 25, axis=0))
    most, begun, active = {0: 4, 1: 2}, [], np.zeros(0, np.int64)
    order = OrderOfPlay(matches(seat), most=most)
    for step in range(200):
        counts = {who: int((seat[active] == who).any(axis=1).sum()) for who in most}
        fresh = order.begin(SLOTS - len(active), idle=not len(active), under_way=counts)
        begun += fresh.tolist()
        active = np.concatenate([active, fresh])
        assert all((seat[active] == who).any(axis=1).sum() <= n for who, n in most.items())
        if step == 9:
            assert len(active) >= 25 + 4  # all of [2, 3], and as many others as may be
        active = active[2:] if step > 9 else active
    assert sorted(begun) == list(range(100))


@pytest.mark.parametrize("num_seats", [2, 4])
def test_the_home_player_has_its_turn_in_all_matches_at_once(num_seats):
    for step, (due, _) in enumerate(play(against(8, 24, num_seats))):
        assert (due == HOME).all() if step % num_seats == 0 else (due != HOME).all()


def test_few_of_those_seated_are_at_the_table_at_once():
    at_the_table = [len(set(seat)) for seat, _ in play(against(32, 16))]
    assert len(at_the_table) > 64
    assert np.mean(at_the_table) < 4  # instead of the about 14 of 32 that are due in a drawn order


def test_self_play_and_no_matches_at_all_are_played_too():
    assert len({m for _, playing in play(np.zeros((50, 2), int)) for m in playing}) == 50
    assert not len(OrderOfPlay(matches(np.zeros((0, 2), int))).begin(8, idle=True))


def place(*scores, forfeited=None, teams=None, margin=0.0):
    score = np.array(scores)
    lost = np.zeros(score.shape, np.bool_) if forfeited is None else np.array(forfeited, dtype=np.bool_)
    outcome, rank = placed(score, lost, None if teams is None else np.array(teams), margin)
    return outcome.tolist(), rank.tolist()


@pytest.mark.parametrize(
    ("scores", "changes", "outcome", "rank"),
    [
        (
            [[3, 1, 2], [1, 1, 0], [5, 5, 5], [-2, -1, -2]],
            {},
            [[W, L, L], [D, D, L], [D, D, D], [L, W, L]],
            [[0, 2, 1], [0, 0, 2], [0, 0, 0], [1, 0, 1]],
        ),
        ([[-3]], {}, [[W]], [[0]]),
        (
            [[-1, 1], [0, 0]],
            {"forfeited": [[True, False], [True, True]]},
            [[F, W], [F, F]],
            [[1, 0], [0, 0]],
        ),
        (
            [[3, 0, 1, 1], [1, 2, 2, 1], [0, 0, 0, 9]],
            {"teams": [0, 0, 1, 1]},
            [[W, W, L, L], [D, D, D, D], [L, L, W, W]],
            [[0, 0, 2, 2], [0, 0, 0, 0], [2, 2, 0, 0]],
        ),
        (
            [[1, 1, 1, 2, 0], [1, 1, 1, 0.5, 1]],
            {"teams": [0, 0, 0, 1, 2]},
            [[L, L, L, W, L], [D, D, D, L, D]],
            [[1, 1, 1, 0, 4], [0, 0, 0, 4, 0]],
        ),
    ],
    ids=[
        "the best wins",
        "one seat alone",
        "who forfeits loses",
        "partners share a rank",
        "by the mean of a team",
    ],
)
def test_seats_are_placed_by_their_scores_or_those_of_their_teams(scores, changes, outcome, rank):
    assert place(*scores, **changes) == (outcome, rank)


def test_teams_with_the_same_scores_draw_in_whatever_order_their_seats_have_them():
    """In float32, 0.1 + 0.2 + 0.4 and 0.4 + 0.2 + 0.1 are not the same number."""
    tenths = np.float32([0.1, 0.2, 0.4])
    assert len({np.float32(a + b) + c for a, b, c in itertools.permutations(tenths)}) > 1
    rows = [[*one, *other] for one, other in itertools.product(itertools.permutations(tenths), repeat=2)]
    for batch in (rows, rows[:1], rows[1:4]):
        outcome, rank = place(*batch, teams=[0, 0, 0, 1, 1, 1])
        assert outcome == [[D] * 6] * len(batch)
        assert rank == [[0] * 6] * len(batch)


def test_rewards_that_add_up_to_the_same_are_a_draw_in_any_order():
    tenth = np.float32(0.1)
    up, down = [tenth, tenth, -tenth, tenth, -tenth, -tenth], [-tenth, tenth, -tenth, tenth, tenth, -tenth]
    assert place([float(sum(map(float, up))), float(sum(map(float, down)))])[0] == [[D, D]]
    third = float(np.float32(0.1)) + float(np.float32(0.2))
    assert place([third, float(np.float32(0.3))])[0] == [[D, D]]


def test_scores_are_compared_relative_to_their_size():
    assert place([1e9, 1e9 + 64])[0] == [[D, D]]
    assert place([1e9, 1e9 + 1e5])[0] == [[L, W]]
    assert place([0.0, 1e-4])[0] == [[L, W]]


def test_scores_within_the_draw_margin_share_a_rank():
    outcome, rank = place([3.0, 3.4, 1.0], [3.0, 3.6, 1.0], margin=0.5)
    assert (outcome, rank) == ([[D, D, L], [L, W, L]], [[0, 0, 2], [1, 0, 2]])
