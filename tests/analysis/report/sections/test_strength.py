import numpy as np
import pandas as pd
import pytest

from analysis.report.sections.strength import best_of, trend_of

BETA = 25.0 / 6.0


def board(*rows: tuple[str, float, float]) -> pd.DataFrame:
    """Names, mu, sigma, ordered as a leaderboard is."""
    frame = pd.DataFrame(rows, columns=["competitor", "mu", "sigma"]).assign(games=10)
    return frame.assign(skill=frame.mu - 3 * frame.sigma).sort_values("skill", ascending=False)


def history(*rows: tuple[str, int, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["competitor", "league_env_steps", "mu", "sigma"])


def test_who_is_far_ahead_is_best_for_sure():
    best = best_of(board(("a", 40.0, 1.0), ("b", 30.0, 1.0), ("c", 20.0, 1.0)), BETA)
    assert best is not None
    assert (best.competitor, best.likeliest, best.level) == ("a", "a", 0)
    assert best.chance > 0.99


def test_equals_are_as_likely_to_be_best():
    best = best_of(board(*((name, 30.0, 1.0) for name in "abcd")), BETA)
    assert best is not None
    assert best.chance == pytest.approx(0.25, abs=0.02)
    assert best.level == 3


def test_of_two_the_chance_is_that_of_the_difference_of_normals():
    best = best_of(board(("a", 30.0, 0.6), ("b", 29.0, 0.8)), BETA)
    assert best is not None
    assert best.chance == pytest.approx(0.8413, abs=0.01)  # Phi(1), as sigma of the difference is 1


def test_a_leader_need_not_be_the_likeliest_to_be_best():
    best = best_of(board(("a", 30.0, 0.5), ("b", 34.0, 3.0)), BETA)
    assert best is not None
    assert (best.competitor, best.likeliest) == ("a", "b")
    assert best.chance + best.likeliest_chance == pytest.approx(1.0)


def test_nobody_is_best_of_those_who_have_not_played():
    assert best_of(board(("a", 25.0, 8.3)).assign(games=0), BETA) is None


def test_a_thousand_contenders_are_looked_at_by_those_who_may_be_best():
    rows = [(f"{i}", float(mu), 1.0) for i, mu in enumerate(np.linspace(0.0, 40.0, 1000))]
    best = best_of(board(*rows, ("star", 60.0, 1.0)), BETA)
    assert best is not None
    assert best.competitor == best.likeliest == "star"
    assert best.chance > 0.99


@pytest.mark.parametrize(("last", "says"), [(33.0, "improving"), (27.0, "declining"), (30.5, "unclear")])
def test_a_trend_is_told_where_both_ratings_allow_it(last, says):
    rows = [("a", 0, 20.0, 1.0), ("a", 70, 30.0, 0.5), ("b", 80, 50.0, 0.5), ("a", 100, last, 0.5)]
    trend = trend_of(history(*rows), "a")
    assert trend is not None
    assert trend.says == says
    assert trend.change == pytest.approx(last - 30.0)
    assert trend.high - trend.change == pytest.approx(1.96 * np.hypot(0.5, 0.5), rel=1e-3)


@pytest.mark.parametrize(("rise", "says"), [(0.0, "unclear"), (0.4, "improving")])
def test_a_rating_that_wanders_has_no_trend_though_its_ends_differ(rise, says):
    mu = [25.0, 27.0, 23.0, 26.5, 24.0, 27.0, 22.5, 26.0, 25.5, 24.5, 22.0]
    rows = [("a", 75 + 2.5 * i, mu[i] + 2.5 * i * rise, 0.5) for i in range(11)]
    trend = trend_of(history(*rows), "a")
    assert trend is not None
    assert trend.says == says


def test_who_was_not_rated_before_and_after_has_no_trend():
    assert trend_of(history(("a", 0, 25.0, 1.0), ("b", 100, 25.0, 1.0)), "a") is None
    assert trend_of(history(("a", 90, 25.0, 1.0), ("a", 100, 26.0, 1.0)), "a") is None
    assert trend_of(history(), "a") is None
