"""Who won is a matter of scores, of teams, and of who forfeited."""

import itertools

import numpy as np

from league.rollout.traces.outcomes import placed
from storage.records import Outcome

W, D, L, F = Outcome.WIN, Outcome.DRAW, Outcome.LOSS, Outcome.FORFEIT


def place(*scores, forfeited=None, teams=None):
    score = np.array(scores, dtype=np.float32)
    lost = np.zeros(score.shape, np.bool_) if forfeited is None else np.array(forfeited, dtype=np.bool_)
    outcome, rank = placed(score, lost, None if teams is None else np.array(teams))
    return outcome.tolist(), rank.tolist()


def test_the_best_score_wins_and_those_who_share_it_draw():
    outcome, rank = place([3, 1, 2], [1, 1, 0], [5, 5, 5], [-2, -1, -2])
    assert outcome == [[W, L, L], [D, D, L], [D, D, D], [L, W, L]]
    assert rank == [[0, 2, 1], [0, 0, 2], [0, 0, 0], [1, 0, 1]]


def test_who_forfeited_has_lost_whatever_its_score():
    outcome, rank = place([-1, 1], [0, 0], forfeited=[[True, False], [True, True]])
    assert outcome == [[F, W], [F, F]]
    assert rank == [[1, 0], [0, 0]]


def test_one_seat_alone_wins():
    assert place([-3]) == ([[W]], [[0]])


def test_partners_win_and_draw_together():
    outcome, rank = place([3, 0, 1, 1], [1, 2, 2, 1], [0, 0, 0, 9], teams=[0, 0, 1, 1])
    assert outcome == [[W, W, L, L], [D, D, D, D], [L, L, W, W]]
    assert rank == [[0, 0, 2, 2], [0, 0, 0, 0], [2, 2, 0, 0]]


def test_a_team_is_placed_by_its_mean_however_large_it_is():
    outcome, _ = place([1, 1, 1, 2, 0], [1, 1, 1, 0.5, 1], teams=[0, 0, 0, 1, 2])
    assert outcome == [[L, L, L, W, L], [D, D, D, L, D]]


def test_teams_with_the_same_scores_draw_in_whatever_order_their_seats_have_them():
    """In float32, 0.1 + 0.2 + 0.4 and 0.4 + 0.2 + 0.1 are not the same number."""
    tenths = np.float32([0.1, 0.2, 0.4])
    assert len({np.float32(a + b) + c for a, b, c in itertools.permutations(tenths)}) > 1
    rows = [[*one, *other] for one, other in itertools.product(itertools.permutations(tenths), repeat=2)]
    for batch in (rows, rows[:1], rows[1:4]):
        outcome, rank = place(*batch, teams=[0, 0, 0, 1, 1, 1])
        assert outcome == [[D] * 6] * len(batch)
        assert rank == [[0] * 6] * len(batch)
