"""Who is best: with what probability each of a field is, given ratings and how sure they are.

The first of many equals by luck alone looks best, and the more there are, the further ahead. So strengths
are not taken from anywhere alike: those of a field are normal around their mean, by a spread tau that the
ratings tell too (the empirical Bayes of D. Rubin: Estimation in parallel randomized experiments, J. Educ.
Stat. 6, 1981). All tau are equally likely beforehand (A. Gelman: Prior distributions for variance parameters
in hierarchical models, Bayesian Analysis 1, 2006). Two alone tell nothing of it: the better is best as likely
as it is superior.
"""

from __future__ import annotations

import numpy as np

from storage.arrays import Floats

_SPREADS = np.geomspace(1.0, 1000.0, 61)  # tau in Elo; 200 competitors tell it to half a step
_ANY = np.array([1e6])  # that of two


def chances_of_being_best(
    elo: Floats, covariance: Floats, rng: np.random.Generator, *, samples: int
) -> Floats:
    """[N] how often each is the best of `samples` fields that ratings [N] with a covariance [N, N] leave
    possible. Whose Elo is 0 makes no difference."""
    n = len(elo)
    if n < 2:
        return np.ones(n)
    contrasts = np.linalg.qr(np.eye(n)[:, 1:] - 1.0 / n)[0]  # [N, N - 1]: no mean, of which nothing is known
    variance, axes = np.linalg.eigh(contrasts.T @ covariance @ contrasts)
    variance, axes = np.maximum(variance, 0.0), contrasts @ axes  # rounding makes some slightly negative
    seen = axes.T @ elo

    spreads = _SPREADS if n > 2 else _ANY
    total = variance + spreads[:, None] ** 2  # [taus, N - 1] of `seen`, which are independent given tau
    likelihood = -0.5 * (np.log(total) + seen**2 / total).sum(axis=1)
    weight = spreads * np.exp(likelihood - likelihood.max())  # a step is as wide as its tau is large
    known = spreads[:, None] ** 2 / total  # share of `seen` that is not luck

    tau = rng.choice(len(spreads), size=samples, p=weight / weight.sum())
    luck = rng.standard_normal((samples, n - 1))
    drawn = known[tau] * seen + np.sqrt(known[tau] * variance) * luck
    return np.bincount((drawn @ axes.T).argmax(axis=1), minlength=n) / samples
