"""The likelihood of scores: how well a mean, or a t-value, explains the scores of pairs.

The scores of pairs are a sample from an unknown distribution over a few values in [0, 1]; nothing else is
assumed. A hypothesis about its mean is as likely as the likeliest of all distributions with that mean. This
is an empirical likelihood. Its intervals keep their level without knowledge of the variance, also where
nearly everything was won (A. Owen, Empirical Likelihood, 2001). M. Van den Bergh worked this out for tests of
chess engines: https://www.cantate.be/Fishtest/support_MLE_multinomial.pdf and normalized_elo_practical.pdf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from storage.arrays import Floats

EMPTY = 1e-3  # pairs counted for a score that never occurred, so that no mean in (0, 1) is impossible
_HALVINGS = 60
_ROUNDS = 100  # most need ten; the slowest, t-values of many games that were all won, need forty


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts of each score, in one sample or in many at once."""

    score: Floats  # [K], ascending from 0 to 1
    count: Floats  # [..., K], EMPTY or more

    @property
    def size(self) -> Floats:
        """Number of observations [...]."""
        return self.count.sum(axis=-1)

    @property
    def share(self) -> Floats:
        """Share of each score [..., K]."""
        return self.count / self.size[..., None]


def sample_of(scores: npt.ArrayLike) -> Sample:
    """Return the sample of scores [n] in [0, 1], of any values."""
    values, which = np.unique(np.concatenate([[0.0, 1.0], np.asarray(scores)]), return_inverse=True)
    return Sample(values, np.maximum(np.bincount(which[2:], minlength=len(values)), EMPTY))


def sample_of_counts(counts: npt.ArrayLike) -> Sample:
    """Return the sample of counts [..., K] of K evenly spaced scores from 0 to 1.

    Three counts are losses, draws and wins of games. Five are pairs of games with 0, 1/2, ... 2 points.
    """
    count = np.maximum(np.asarray(counts, dtype=np.float64), EMPTY)
    return Sample(np.linspace(0.0, 1.0, count.shape[-1]), count)


def at_mean(sample: Sample, mean: float) -> Floats:
    """Return the log likelihood [...] of a mean in (0, 1), less that of the observed mean: 0 at best."""
    excess = np.broadcast_to(sample.score - mean, sample.count.shape)
    return -np.sum(sample.count * np.log1p(_weight(sample.share, excess)[..., None] * excess), axis=-1)


def at_t(sample: Sample, t: float) -> Floats:
    """Return the log likelihood [...] of the t-value (mean - 1/2) / deviation, less that of the observed one.

    Section 4.1 of normalized_elo_practical.pdf: the constraint, linearized at one distribution, gives the
    next. The first distribution already has the right t-value, so every round has a solution.
    """
    mean, deviation = (np.full(sample.count.shape[:-1], moment) for moment in _tilted(sample.score, t))
    for _ in range(_ROUNDS):
        bend = ((sample.score - mean[..., None]) / deviation[..., None]) ** 2
        excess = sample.score - 0.5 - t * deviation[..., None] * (1.0 + bend) / 2.0
        factor = 1.0 + _weight(sample.share, excess)[..., None] * excess
        share = sample.share / factor
        mean, before = share @ sample.score, mean
        deviation = np.sqrt(np.sum(share * (sample.score - mean[..., None]) ** 2, axis=-1))
        if np.max(np.abs(mean - before)) < 1e-9:
            break
    return -np.sum(sample.count * np.log(factor), axis=-1)


def mean_interval(sample: Sample, loss: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and highest mean [...] with a log likelihood at most `loss` [...] below the best."""
    mirrored = Sample(1.0 - sample.score[::-1], sample.count[..., ::-1])
    return _lowest_mean(sample, loss), 1.0 - _lowest_mean(mirrored, loss)


def widening(size: Floats, quantile: float) -> Floats:
    """Return the square [...] of Student's quantile over that of a normal one, to first order in 1 / n."""
    return 1.0 + (quantile**2 + 1.0) / (2.0 * size)


def _lowest_mean(sample: Sample, loss: Floats) -> Floats:
    """Search among the likeliest distributions of each mean: shares divided by 1 + (e^tilt - 1) score."""
    low, high = np.zeros(sample.count.shape[:-1]), np.full(sample.count.shape[:-1], 60.0)
    for _ in range(_HALVINGS):
        tilt = (low + high) / 2.0
        factor = 1.0 + np.expm1(tilt)[..., None] * sample.score
        total = np.sum(sample.share / factor, axis=-1)
        lost = sample.size * np.log(total) + np.sum(sample.count * np.log(factor), axis=-1)
        low, high = np.where(lost > loss, low, tilt), np.where(lost > loss, tilt, high)
    return np.sum(sample.share * sample.score / factor, axis=-1) / total


def _weight(share: Floats, excess: Floats) -> Floats:
    """Return x [...] with sum of share excess / (1 + x excess) = 0, all denominators positive."""
    low, high = -1.0 / excess.max(axis=-1), -1.0 / excess.min(axis=-1)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        rising = np.sum(share * excess / (1.0 + middle[..., None] * excess), axis=-1) > 0.0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return (low + high) / 2.0


def _tilted(score: Floats, t: float) -> tuple[float, float]:
    """Return mean and deviation of the exponentially tilted uniform distribution whose t-value is `t`."""
    low, high = -80.0, 80.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        share = np.exp(middle * (score - 0.5))
        share /= share.sum()
        mean = float(share @ score)
        deviation = float(np.sqrt(share @ (score - mean) ** 2))
        low, high = (low, middle) if mean - 0.5 > t * deviation else (middle, high)
    return mean, deviation
