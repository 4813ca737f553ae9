"""The normal distribution that rounds of a tournament go by is near the posterior, and holds what it says."""

import dataclasses

import numpy as np
import pytest

from analysis.statistics.hierarchy import prior
from analysis.statistics.hierarchy.normal import normal_of
from analysis.statistics.hierarchy.posterior import posterior
from tests.analysis.simulated_games import free_for_all, games_from, names, transitive

Z_95 = 1.959964


def held(found, truth):
    """The share of the differences [N (N - 1) / 2] whose 95 % interval holds the truth [N]."""
    a, b = np.triu_indices(len(truth), 1)
    variance = found.covariance.diagonal()
    deviation = np.sqrt(variance[a] + variance[b] - 2 * found.covariance[a, b])
    off = np.abs(found.elo[a] - found.elo[b] - truth[a] + truth[b])
    return (off <= Z_95 * deviation).mean()


def coverage(simulate, tournaments, competitors=8, spread=150.0):
    rng, shares = np.random.default_rng(7), []
    for _ in range(tournaments):
        elo = rng.normal(size=competitors) * spread
        shares.append(held(normal_of(simulate(elo, rng)), elo))
    return np.mean(shares)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "pairs"),
    [({}, 2), ({"advantage": 200.0}, 10), ({"same_winner": 0.6}, 2), ({"same_place": 0.6}, 10)],
    ids=["plain", "first-mover", "deal-decides-for-one", "deal-decides-for-a-place"],
)
def test_95_of_100_intervals_hold_the_true_differences(kind, pairs):
    """Of 250 tournaments: the shares of 28 differences vary by 7 %, so that 2 % is four standard errors.

    Of two pairs the deviations are a little too small; they choose who meets, and no verdict shows them.
    """
    assert (
        (0.9 if pairs == 2 else 0.93)
        < coverage(lambda elo, rng: transitive(elo, pairs, rng, **kind), 250)
        < 0.97
    )


@pytest.mark.slow
def test_intervals_hold_where_three_sit_at_a_table_and_in_wide_fields():
    assert 0.92 < coverage(lambda elo, rng: free_for_all(elo, 1, rng), 200, competitors=6) < 0.98
    assert 0.92 < coverage(lambda elo, rng: transitive(elo, 2, rng), 200, spread=400.0) < 0.98


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 60.0, 200.0])
@pytest.mark.parametrize(("pairs", "far", "wide"), [(1, 0.7, 0.25), (4, 0.45, 0.1)])
def test_mean_and_deviation_are_near_those_of_the_posterior_of_one_group(
    spread, pairs, far, wide, monkeypatch
):
    monkeypatch.setattr(prior, "GROUPS", 1)
    rng = np.random.default_rng(3)
    games = transitive(rng.normal(size=12) * spread, pairs, rng, advantage=80.0, same_winner=0.3)
    found, whole = normal_of(games), posterior(games)
    deviation = np.sqrt(found.covariance.diagonal())
    assert found.elo == pytest.approx(whole.elo, abs=far * whole.deviation.max())  # the skew of few games
    assert deviation == pytest.approx(whole.deviation, rel=wide)
    assert found.dispersion == pytest.approx(whole.dispersion, rel=0.1)
    assert found.elo.sum() == pytest.approx(0.0, abs=1e-6)


def test_the_place_that_wins_is_no_strength():
    games = games_from(2, [0, 1] * 50, [1, 0] * 50, [1, 1] * 50, np.repeat(range(50), 2))
    assert normal_of(games).elo == pytest.approx([0.0, 0.0], abs=1e-6)


def test_one_without_games_is_average_and_unsure_and_no_games_are_no_failure():
    games = transitive(np.array([0.0, 80.0, -80.0]), 20, np.random.default_rng(3))
    newcomer = normal_of(dataclasses.replace(games, competitors=names(4)))
    deviation = np.sqrt(newcomer.covariance.diagonal())
    assert abs(newcomer.elo[3] - newcomer.elo[:3].mean()) < 5.0
    assert deviation[3] > 2 * deviation[:3].max()
    nothing = normal_of(games_from(3, [], [], []))
    assert nothing.elo.tolist() == [0.0] * 3
    assert (nothing.covariance.diagonal() > 100.0**2).all()


def test_all_won_is_far_ahead_unsure_and_finite():
    few, many = (
        normal_of(games_from(2, [0, 1] * n, [1, 0] * n, [1, 0] * n, np.repeat(range(n), 2))) for n in (5, 99)
    )
    assert 100.0 < np.ptp(few.elo) < np.ptp(many.elo) < 3000.0
