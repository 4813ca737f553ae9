import dataclasses

import numpy as np
import pytest

from analysis.statistics.cyclic import circle_of, cyclic_share
from tests.analysis.simulated_games import games_from, played, transitive

BEATS = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])  # rock, scissors, paper


def by_log_odds(odds, pairs, rng):
    """A round robin without draws of log-odds [N, N]."""
    return played(len(odds), lambda home, away: (1 / (1 + np.exp(-odds[home, away])), 0.0), pairs, rng)


@pytest.fixture
def rng():
    return np.random.default_rng(12)


def test_rock_paper_scissors_is_all_cyclic(rng):
    found = cyclic_share(by_log_odds(100.0 * BEATS, 10, rng), rng)
    assert found.share == found.high == 1.0
    assert found.low > 0.9
    assert found.p_value < 0.01
    assert found.cycle is not None
    assert found.cycle.competitors == ("c0", "c1", "c2")  # in the order in which each beats the next
    assert found.cycle.scores == (1.0, 1.0, 1.0)
    assert found.cycle.deviations > 3


def test_a_cycle_of_drawn_and_won_games_is_cyclic_too(rng):
    home, away = np.array([0, 1, 2] * 20 + [1, 2, 0] * 20), np.array([1, 2, 0] * 20 + [0, 1, 2] * 20)
    points = np.repeat([1.0, 0.5], 60)
    found = cyclic_share(games_from(3, home, away, points, np.tile(np.arange(60), 2)), rng)
    assert found.share == 1.0
    assert found.low > 0.5


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [{}, {"nu": 1.0}, {"advantage": 200.0}, {"same_winner": 0.6}, {"same_place": 0.6}],
    ids=["plain", "draws", "first-mover", "deal-decides-for-one", "deal-decides-for-a-place"],
)
def test_a_transitive_field_with_two_pairs_each_is_not_called_cyclic(kind, rng):
    """Its games look 30 to 50 % cyclic. The lower bound may be above 0 in 25 of 1,000: of 40 fields one, in
    100 repetitions once five."""
    shares = [cyclic_share(transitive(rng.normal(size=20) * 150, 2, rng, **kind), rng) for _ in range(40)]
    assert sum(found.low > 0.0 for found in shares) <= 4
    assert np.mean([found.share for found in shares]) < 0.15
    looks, by_chance = (np.mean([getattr(f, name) for f in shares]) for name in ("raw", "expected_by_chance"))
    assert looks > 0.25
    assert looks == pytest.approx(by_chance, abs=0.02)


@pytest.mark.slow
def test_equals_are_not_called_cyclic(rng):
    shares = [cyclic_share(transitive(np.zeros(12), 3, rng), rng) for _ in range(40)]
    assert sum(found.low > 0.0 for found in shares) <= 4
    assert sum(found.p_value < 0.05 for found in shares) <= 7


@pytest.mark.long
@pytest.mark.parametrize("strength", [0.25, 0.5])
def test_near_even_scores_the_share_is_that_of_the_log_odds(strength, rng):
    """The Hodge decomposition of the log-odds themselves, whose cyclic part is three kinds in a circle."""
    ratings = rng.normal(size=12) * 0.4
    gaps = ratings[:, None] - ratings
    circle = strength * np.tile(BEATS, (4, 4))
    true = (circle**2).sum() / (circle**2 + gaps**2).sum()
    found = cyclic_share(by_log_odds(gaps + circle, 1500, rng), rng)
    assert found.share == pytest.approx(true, abs=0.03)
    assert found.high - found.low < 0.05
    few = [cyclic_share(by_log_odds(gaps + circle, 6, rng), rng) for _ in range(30)]
    assert np.mean([one.share for one in few]) == pytest.approx(true, abs=0.08)
    assert sum(one.low <= found.share <= one.high for one in few) >= 24  # 28.5 of 30 expected


def test_pairings_that_never_met_have_no_energy(rng):
    games = by_log_odds(100.0 * BEATS, 10, rng)
    with_others = dataclasses.replace(games, competitors=(*games.competitors, "idle", "idler"))
    assert cyclic_share(with_others, rng).share == pytest.approx(1.0, abs=0.01)


def test_who_beats_all_hides_no_cycle_below(rng):
    odds = np.zeros((4, 4))
    odds[:3, :3] = 100.0 * BEATS
    odds[3, :3], odds[:3, 3] = 100.0, -100.0
    found = cyclic_share(by_log_odds(odds, 10, rng), rng)
    assert 0.3 < found.low < found.share < found.high < 0.7
    assert found.cycle is not None
    assert "c3" not in found.cycle.competitors


def test_a_ladder_has_no_cycle(rng):
    found = cyclic_share(transitive(1000.0 * np.arange(5), 5, rng), rng)
    assert found.cycle is None
    assert found.low == 0.0
    assert found.share < 0.05


def test_the_same_seed_finds_the_same_share():
    games = transitive(np.arange(6) * 50.0, 4, np.random.default_rng(1))
    first, second = (cyclic_share(games, np.random.default_rng(2)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("field", [10, 20, 55])
def test_a_chain_in_which_only_neighbours_met_has_no_cycle(field, rng):
    """Its pairings close no loop: 30 to 100 % of it were called cyclic, for the misfit of a prior."""
    home = np.repeat([np.arange(field - 1), np.arange(1, field)], 10, axis=1).ravel()
    away = np.repeat([np.arange(1, field), np.arange(field - 1)], 10, axis=1).ravel()
    points = (rng.random(len(home)) < np.where(home < away, 0.4, 0.6)).astype(float)
    found = cyclic_share(games_from(field, home, away, points), rng)
    assert (found.share, found.high, found.p_value, found.cycle) == (0.0, 0.0, 1.0, None)


def test_a_circle_is_found_among_who_beats_whom():
    assert circle_of([("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]) == ("a", "b", "c")
    assert circle_of([("a", "b"), ("b", "c"), ("a", "c")]) is None
    assert circle_of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]) == ("a", "b", "c", "d")
