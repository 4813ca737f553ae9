"""Estimates after sequential tests: published ones, and what must hold whatever the counts are."""

import math

import numpy as np
import pytest

from analysis.statistics.elo import elo_from_counts
from analysis.statistics.sprt import Sprt, sequential_elo
from tests.bench.until import chances, stopped_tests

TEST = Sprt(0.0, 20.0)


def figures(found):
    return found.elo, found.low, found.high, found.los


def test_the_estimate_is_that_of_fishtest():
    """https://github.com/official-stockfish/fishtest/issues/1737, printed by its SPRT_elo."""
    found = sequential_elo(Sprt(-1.75, 0.25, model="normalized"), (93, 18711, 58877, 18739, 100))
    published = (-0.06778116713881258, -0.8466362878788467, 0.6601080796952428, 0.4287935384362421)
    assert figures(found) == pytest.approx(published, rel=1e-4)


def test_an_end_far_past_a_bound_is_taken_back_in_time_as_in_fishtest():
    """https://github.com/official-stockfish/fishtest/issues/612, three times as far as the bound."""
    found = sequential_elo(Sprt(0.0, 5.0), (608, 12530, 648))
    assert figures(found)[:3] == pytest.approx((1.78, -1.65, 5.55), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("elo", [10.0, 200.0])
def test_the_interval_of_a_stopped_test_holds_and_its_estimate_is_not_biased(elo):
    counts, true = stopped_tests(TEST, chances(elo, 0.4), tests=150, seed=1)
    found = [sequential_elo(TEST, each) for each in counts]
    assert np.mean([one.low <= true <= one.high for one in found]) > 0.91
    assert np.median([one.elo for one in found]) == pytest.approx(true, abs=5.0)


CASES = [
    (Sprt(elo0, elo0 + width, alpha, beta, model), counts)
    for rng in [np.random.default_rng(0)]
    for model in ("logistic", "normalized")
    for elo0, width, alpha, beta, size in zip(
        rng.uniform(-200.0, 100.0, 20),
        10 ** rng.uniform(-1.0, 2.4, 20),
        rng.uniform(0.001, 0.49, 20),
        rng.uniform(0.001, 0.49, 20),
        np.rint(10 ** rng.uniform(0.0, 6.0, 20)).astype(int),
        strict=True,
    )
    for counts in [rng.multinomial(size, rng.dirichlet(np.full(rng.choice([3, 5]), 0.5)))]
]


@pytest.mark.parametrize(("sprt", "counts"), CASES)
def test_an_estimate_is_in_its_interval_agrees_with_los_and_is_near_that_of_a_match(sprt, counts):
    found, plain = sequential_elo(sprt, counts), elo_from_counts(counts).single()
    assert found.low <= found.elo <= found.high
    assert found.los >= 0.5 or found.elo < 1e-3
    assert found.los <= 0.5 or found.elo > -1e-3
    if math.isfinite(plain.error):
        error = plain.error / 1.96
        assert plain.elo - 3.0 * error < found.elo < plain.elo + 3.0 * error
    else:
        assert found.elo == plain.elo


def test_far_past_a_bound_the_estimate_is_that_of_a_match():
    for counts in ([20, 0, 1000], [13, 37, 2000, 1900, 1500], [900, 50, 200]):
        found, plain = sequential_elo(Sprt(0.0, 5.0), counts), elo_from_counts(counts).single()
        assert found.elo == pytest.approx(plain.elo, rel=0.01)
        assert found.low < plain.low < plain.high < found.high


def test_more_points_never_lower_the_estimate():
    for sprt in (TEST, Sprt(-5.0, 5.0, 0.02, 0.1, "normalized")):
        found = [figures(sequential_elo(sprt, [100 - won, 60, 40 + won])) for won in range(0, 100, 20)]
        assert (np.diff(found, axis=0) >= -1e-9).all()


def test_a_test_that_goes_on_has_an_estimate_too():
    for counts in ([40, 60, 50], [1, 0, 1], [0, 1, 0], [3, 1, 2]):
        found, plain = sequential_elo(TEST, counts), elo_from_counts(counts).single()
        assert figures(found) == pytest.approx(figures(plain), rel=0.01, abs=1e-3)


def test_an_end_that_came_long_after_the_bounds_is_between_the_hypotheses():
    found = sequential_elo(TEST, [4_856_000, 10_000_000, 5_144_000])
    assert 0.0 < found.elo < 20.0
    assert found.high - found.low < 60.0
