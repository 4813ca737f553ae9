"""Aggregates over seeds: against figures by hand, scipy, and how often their intervals hold."""

import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.seeds import aggregate, difference, interquartile_mean


def test_the_figures_of_four_seeds_are_those_by_hand():
    found = aggregate(np.array([10.0, 2.0, 4.0, 6.0]))
    assert found.median == 5.0
    assert found.iqm.value == 5.0  # of 4 and 6: one is cut off at each end
    assert found.mean.value == 5.5
    # the deviation is sqrt(35 / 3), Student's t with 3 degrees of freedom is 3.1824463
    half = 3.1824463 * math.sqrt(35 / 3) / 2
    assert [found.mean.low, found.mean.high] == pytest.approx([5.5 - half, 5.5 + half])
    assert 2.0 <= found.iqm.low <= found.iqm.value <= found.iqm.high <= 10.0


def test_the_interquartile_mean_is_the_trimmed_mean_of_scipy():
    scores = np.random.default_rng(0).normal(size=(7, 3))
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores.ravel(), 0.25))


def test_differences_are_welchs():
    rng = np.random.default_rng(1)
    a, b = rng.normal(1.0, 1.0, 5), rng.normal(0.0, 3.0, 8)
    found = difference(a, b)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert [found.low, found.high] == pytest.approx([expected.low, expected.high])


def test_the_bootstrap_draws_seeds_within_each_task():
    """A task whose seeds agree adds nothing to the width, however far away it is."""
    scores = np.array([0.0, 1.0, 2.0, 3.0])
    alone, beside = aggregate(scores), aggregate(np.stack([scores, np.full(4, 1.5)], axis=1))
    assert beside.iqm.high - beside.iqm.low < alone.iqm.high - alone.iqm.low
    assert aggregate(np.stack([np.full(4, 0.0), np.full(4, 100.0)], axis=1)).iqm.low == 50.0


def test_one_seed_has_no_interval():
    found = aggregate(np.array([3.0]))
    assert (found.mean.value, found.mean.low, found.iqm.high) == (3.0, -math.inf, math.inf)
    assert difference(np.array([3.0]), np.array([1.0, 2.0])).high == math.inf


def test_intervals_of_three_seeds_hold_as_often_as_they_say():
    rng = np.random.default_rng(2)
    drawn = rng.normal(size=(2000, 2, 3))
    held = np.mean([(f := difference(a, b)).low <= 0.0 <= f.high for a, b in drawn])
    assert held > 0.94
