"""`test_rating.py` holds it against the library; here is what only the table itself can tell."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.rules.rating.closed_form import RatingTable, moments_draw, moments_win
from storage.records import Outcome

WIN, DRAW, LOSS, _ = Outcome
BETA, MARGIN = 25 / 6, 0.74


def table(*, fixed=(False, False, False), watch=False):
    return RatingTable(
        mu=[25.0, 31.0, 20.0],
        variance=[64.0, 9.0, 25.0],
        games=[0, 0, 0],
        fixed=list(fixed),
        drift=[0.01, 0.0, 0.02],
        placement=[3, 3, 10**9],
        watch=watch,
    )


def test_a_team_of_one_is_rated_as_one():
    pairs, teams = table(), table()
    games = [(0, 1, WIN), (2, 0, DRAW), (1, 2, LOSS), (0, 1, DRAW), (0, 2, LOSS)]
    home, away, outcome = (list(map(int, column)) for column in zip(*games, strict=True))
    pairs.rate_pairs(home, away, outcome, beta=BETA, margin=MARGIN)
    seated = [[h, a] for h, a in zip(home, away, strict=True)]
    teams.rate_two_teams(seated, [1, -1], [1 - result for result in outcome], beta=BETA, margin=MARGIN)
    assert pairs.mu == pytest.approx(teams.mu, rel=1e-13)
    assert pairs.variance == pytest.approx(teams.variance, rel=1e-13)
    assert (pairs.games, pairs.fixed) == (teams.games, teams.fixed) == ([4, 3, 3], [True, True, False])


def test_games_are_reported_only_when_watched_and_only_where_something_moves():
    pairs = ([0, 1], [1, 2], [WIN, LOSS])
    assert table().rate_pairs(*pairs, beta=BETA, margin=MARGIN) == []
    watched = table(fixed=(True, True, False), watch=True)
    ((gap, c, result),) = watched.rate_pairs(*pairs, beta=BETA, margin=MARGIN)
    assert c == pytest.approx((2 * BETA**2 + 9.0 + 25.02) ** 0.5)
    assert gap == pytest.approx(11.0 / c)
    assert result == LOSS
    assert watched.games == [1, 2, 1]


def test_a_report_of_teams_counts_who_sits_twice_as_one_skill():
    ((gap, c, result),) = table(watch=True).rate_two_teams(
        [[0, 0, 1, 2]], [1, 1, -1, -1], [0], beta=BETA, margin=MARGIN
    )
    assert c == pytest.approx((4 * BETA**2 + 4 * 64.01 + 9.0 + 25.02) ** 0.5)
    assert gap == pytest.approx((50.0 - 51.0) / c)
    assert result == DRAW


@settings(deadline=None)
@given(st.floats(-200.0, 8.0))
def test_moments_of_a_win_are_exact_far_into_the_tail(x):
    with mpmath.workdps(60):
        v = mpmath.npdf(x) / mpmath.ncdf(x)
        w = v * (v + x)
        assert moments_win(x) == pytest.approx((float(v), float(w)), rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(st.floats(-200.0, 200.0), st.floats(0.005, 1.0))
def test_moments_of_a_draw_are_exact_far_into_the_tail(gap, margin):
    with mpmath.workdps(60):
        a, b = margin - mpmath.mpf(abs(gap)), -margin - mpmath.mpf(abs(gap))
        inside = mpmath.ncdf(a) - mpmath.ncdf(b)
        v = (mpmath.npdf(b) - mpmath.npdf(a)) / inside
        w = v**2 + (a * mpmath.npdf(a) - b * mpmath.npdf(b)) / inside
    found_v, found_w = moments_draw(gap, margin)
    assert found_v == pytest.approx(math.copysign(1.0, gap) * float(v), rel=1e-9, abs=1e-9)
    assert found_w == pytest.approx(float(w), abs=1e-6 if abs(gap) > 20 else 1e-8)
