"""The likelihood of a mean is that of the likeliest distribution which has it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from analysis.statistics.likelihood import EMPTY, at_mean, at_t, mean_interval, sample_of, sample_of_counts

COUNTS = np.array([4.0, 9.0, 30.0, 12.0, 8.0])
SCORE = np.linspace(0.0, 1.0, 5)


def likeliest(counts, constraint):
    """log likelihood under the constraint, less the best, by a general optimizer."""
    share = counts / counts.sum()
    found = minimize(
        lambda logits: -counts @ np.log(softmax(logits) / share),
        np.log(share),
        constraints={"type": "eq", "fun": lambda logits: constraint(softmax(logits))},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return -found.fun


def softmax(logits):
    power = np.exp(logits - logits.max())
    return power / power.sum()


@pytest.mark.parametrize("mean", [0.35, 0.5, 0.6, 0.8])
def test_a_means_likelihood_is_that_of_a_general_optimizer(mean):
    expected = likeliest(COUNTS, lambda share: share @ SCORE - mean)
    assert float(at_mean(sample_of_counts(COUNTS), mean)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("t", [-0.6, 0.0, 0.2, 0.9])
def test_a_t_values_likelihood_is_that_of_a_general_optimizer(t):
    def constraint(share):
        mean = share @ SCORE
        return mean - 0.5 - t * math.sqrt(share @ (SCORE - mean) ** 2)

    expected = likeliest(COUNTS, constraint)
    assert float(at_t(sample_of_counts(COUNTS), t)) == pytest.approx(expected, abs=1e-5)


def test_what_was_observed_is_likeliest():
    sample = sample_of_counts(COUNTS)
    mean = COUNTS @ SCORE / COUNTS.sum()
    deviation = math.sqrt(COUNTS @ (SCORE - mean) ** 2 / COUNTS.sum())
    assert float(at_mean(sample, mean)) == pytest.approx(0.0, abs=1e-9)
    assert float(at_t(sample, (mean - 0.5) / deviation)) == pytest.approx(0.0, abs=1e-9)
    assert float(at_mean(sample, mean + 0.01)) < 0 > float(at_mean(sample, mean - 0.01))


def test_an_intervals_ends_lose_as_much_as_was_allowed():
    sample = sample_of_counts(np.stack([COUNTS, COUNTS[::-1], 10 * COUNTS]))
    low, high = mean_interval(sample, np.full(3, 1.92))
    for end in (low, high):
        losses = [
            -float(at_mean(sample_of_counts(row), mean)) for row, mean in zip(sample.count, end, strict=True)
        ]
        assert losses == pytest.approx([1.92] * 3, abs=1e-6)


def test_of_wins_only_a_mean_is_as_likely_as_they_are():
    """n wins have likelihood mean^n."""
    sample = sample_of_counts([0, 0, 0, 0, 20])
    assert float(at_mean(sample, 0.8)) == pytest.approx(20 * math.log(0.8), abs=0.02)
    low, high = mean_interval(sample, np.array(1.92))
    assert float(low) == pytest.approx(math.exp(-1.92 / 20), abs=0.001)
    assert 0.9999 < float(high) <= 1.0


def test_scores_are_counted_whatever_their_values():
    sample = sample_of([0.5, 1 / 3, 0.5, 1 / 3, 0.5])
    assert sample.score.tolist() == [0.0, 1 / 3, 0.5, 1.0]
    assert sample.count.tolist() == [EMPTY, 2, 3, EMPTY]
    assert float(sample.size) == pytest.approx(5, abs=0.01)
