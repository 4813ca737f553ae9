"""Do 95 % intervals hold the truth 95 times of 100? Tournaments of known strengths say so.

What holds is counted in each of 1,000 tournaments and averaged. Of 8 competitors the shares of the 7
anchored ratings and 28 differences that hold vary between tournaments by 12 and 7 % (the ratings have the
anchor's luck in common), so the averages have standard errors of 0.4 and 0.2 %, and 93-97 % is five of
them away. LEAGUE_LONG=1 plays ten times as many.
"""

import os

import numpy as np
import pytest

from analysis.statistics.davidson import cells_of, fit, recounted
from analysis.statistics.ratings import bootstrap, bradley_terry
from tests.analysis.simulated_games import (
    ELO,
    davidson,
    free_for_all,
    games_from,
    played,
    rao_kupper,
    transitive,
)

TOURNAMENTS = 10_000 if os.environ.get("LEAGUE_LONG") else 1_000
Z_95 = 1.959964


def held(ratings, truth):
    """Shares of the intervals that hold the truth [N]: relative to the anchor, the first; of differences."""
    low, high = ratings.interval()
    truth = truth - truth[0]
    anchored = ((low <= truth) & (truth <= high))[1:].mean()
    a, b = np.triu_indices(len(truth), 1)
    variance = ratings.covariance.diagonal()
    deviation = np.sqrt(variance[a] + variance[b] - 2 * ratings.covariance[a, b])
    off = np.abs(ratings.elo[a] - ratings.elo[b] - truth[a] + truth[b])
    return anchored, (off <= Z_95 * deviation).mean()


def coverage(simulate, tournaments=TOURNAMENTS, competitors=8, spread=150.0):
    """The mean of `held` over tournaments `simulate(elo, rng) -> Games` between strengths drawn at random."""
    rng, shares = np.random.default_rng(7), []
    for _ in range(tournaments):
        elo = rng.normal(size=competitors) * spread
        shares.append(held(bradley_terry(simulate(elo, rng), anchor="c0"), elo))
    return np.mean(shares, axis=0)


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"nu": 1.5},
        {"advantage": 200.0},
        {"same_winner": 0.6},
        {"same_place": 0.6},
        {"same_winner": 0.3, "same_place": 0.3, "nu": 0.7, "advantage": 100.0},
    ],
    ids=["plain", "draws", "first-mover", "deal-decides-for-one", "deal-decides-for-a-place", "all-at-once"],
)
def test_95_of_100_intervals_hold_the_true_ratings_and_differences(kind):
    anchored, differences = coverage(lambda elo, rng: transitive(elo, 10, rng, **kind))
    assert 0.93 < anchored < 0.97
    assert 0.93 < differences < 0.97


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("competitors", "pairs", "kind"),
    [
        (2, 500, {"same_winner": 0.6}),
        (2, 500, {"same_place": 0.6, "nu": 0.7}),
        (20, 2, {"same_winner": 0.6}),
        (20, 2, {"same_place": 0.6}),
    ],
)
def test_intervals_hold_with_many_pairs_of_two_and_two_pairs_of_many(competitors, pairs, kind):
    """1,000 tournaments of two are 1,000 intervals: a standard error of 0.7 %."""
    _, differences = coverage(
        lambda elo, rng: transitive(elo, pairs, rng, **kind), TOURNAMENTS, competitors=competitors
    )
    assert 0.93 < differences < 0.97


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("pairs", [2, 10])
def test_intervals_hold_in_a_field_so_wide_that_many_pairings_are_never_in_doubt(pairs):
    anchored, differences = coverage(lambda elo, rng: transitive(elo, pairs, rng), spread=400.0)
    assert 0.93 < anchored < 0.97
    assert 0.93 < differences < 0.97


@pytest.mark.slow
def test_intervals_hold_where_three_sit_at_a_table():
    """The comparisons of one match are not independent: taken so, they would hold 92 of 100."""
    anchored, differences = coverage(
        lambda elo, rng: free_for_all(elo, 1, rng), TOURNAMENTS // 5, competitors=6
    )
    assert 0.92 < anchored < 0.98  # 200 tournaments: a standard error of 1 %
    assert 0.92 < differences < 0.98


@pytest.mark.long
def test_where_draws_follow_another_model_intervals_hold_what_the_model_can_say():
    """Draws by Rao and Kupper, ratings by Davidson: their unit of strength is another. Elo is then not the
    strength that was drawn, but what endless games would be rated, and that is what intervals hold."""
    rng, shares, scales = np.random.default_rng(7), [], []
    for _ in range(TOURNAMENTS):
        elo = rng.normal(size=8) * 150.0

        def chances(home, away, elo=elo):
            return rao_kupper((elo[home] - elo[away]) / ELO, 0.8)

        home, away = np.nonzero(~np.eye(8, dtype=bool))
        win, draw = chances(home, away)
        endless = games_from(8, np.tile(home, 3), np.tile(away, 3), np.repeat([1.0, 0.5, 0.0], len(home)))
        cells = recounted(
            cells_of(endless, 2, drawn=True), endless, 20 * np.concatenate([win, draw, 1 - win - draw])
        )
        truth = ELO * fit(cells, prior_games=1e-3).parameters[:8]
        scales.append(np.polyfit(elo, truth, 1)[0])
        shares.append(held(bradley_terry(played(8, chances, 10, rng), anchor="c0"), truth))
    anchored, differences = np.mean(shares, axis=0)
    assert 0.93 < anchored < 0.97
    assert 0.93 < differences < 0.97
    assert 1.1 < np.mean(scales) < 1.5


@pytest.mark.long
def test_equals_are_told_apart_as_often_as_the_likelihood_of_superiority_admits():
    """5 of 100 likelihoods of either side are above 95 %; of 1,000 these are 50, give or take 7."""
    rng = np.random.default_rng(3)
    los = np.array(
        [
            bradley_terry(transitive(np.zeros(2), 30, rng, same_winner=0.5)).difference(0, 1).los
            for _ in range(1_000)
        ]
    )
    assert 0.03 < np.mean(los > 0.95) < 0.07
    assert 0.03 < np.mean(los < 0.05) < 0.07


@pytest.mark.slow
def test_the_bootstrap_and_the_covariance_agree_where_pairs_abound():
    rng = np.random.default_rng(5)
    games = transitive(rng.normal(size=6) * 100.0, 40, rng, same_winner=0.5, nu=0.5)
    ratings = bradley_terry(games, anchor="c0")
    resampled = bootstrap(games, 400, rng, anchor="c0")
    assert resampled.mean(axis=0) == pytest.approx(ratings.elo, abs=6.0)
    # A standard deviation from 400 samples is right to 3.5 %; 15 % is four times that.
    assert resampled.std(axis=0)[1:] == pytest.approx(ratings.deviation[1:], rel=0.15)


def test_the_deal_that_decides_pairs_makes_errors_larger_and_the_place_that_does_smaller():
    rng, elo = np.random.default_rng(2), np.linspace(-200, 200, 8)
    one, plain, place = (
        bradley_terry(transitive(elo, 10, rng, **kind)).deviation.mean()
        for kind in ({"same_winner": 0.8}, {}, {"same_place": 0.8})
    )
    assert one > 1.2 * plain > 1.4 * place
    assert np.allclose(davidson(0.0, 2.0), (0.25, 0.5))
