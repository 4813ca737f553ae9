"""Meta-strategies: how much of each opponent, given the payoffs of a pool among itself.

The meta-game of a pool of n is symmetric and zero-sum: `payoff` [n, n] holds what the row gains
against the column, in [-1, 1], and the transposed is its negative. Its value is 0, so a mixture x
is a Nash equilibrium exactly when nothing gains against it: max (payoff x) <= 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-5
"""What the best response to `max_entropy_nash` may gain at most."""

_MOST_STEPS = 200  # of Newton; about 40 are needed
_SHRINK = 0.2  # of the barrier, once its minimum is found
_LAST_BARRIER = 1e-9  # by then the entropy that is missing is lost beside what the slack lets in
_REPLICATOR_STEPS, _REPLICATOR_RATE, _REPLICATOR_FLOOR = 2_000, 0.1, 1e-6


def exploitability(payoff: Floats, mixture: Floats) -> float:
    """What the best single member gains against the mixture [n]."""
    return float((payoff @ mixture).max())


def max_entropy_nash(payoff: Floats) -> Floats:
    """The mixture [n] of most entropy among those that nothing beats by more than a fifth of TOLERANCE.

    Of all equilibria of a symmetric zero-sum game that of most entropy is unique, does not depend
    on how often a member is copied, and plays all that can be played (Ortiz, Schapire, Kakade:
    Maximum entropy correlated equilibria, AISTATS 2007; Balduzzi et al.: Re-evaluating evaluation,
    NeurIPS 2018). With multipliers l >= 0 the mixture is softmax(payoff l), and l minimises the convex
        logsumexp(payoff l) + slack sum(l),
    here by Newton's method with a logarithmic barrier (Boyd, Vandenberghe: Convex optimization,
    chapter 11): 0.07 s for 200 members, 11 s for 1,000, on one core. Raises ValueError unless payoff
    is square, finite and antisymmetric.
    """
    n = _check(payoff)
    slack = 0.2 * TOLERANCE
    multipliers, barrier = np.ones(n), 0.1
    best, least = np.full(n, 1.0 / n), np.inf

    def height(at: Floats) -> float:
        scores = payoff @ at
        top = scores.max()
        return float(top + np.log(np.exp(scores - top).sum()) + slack * at.sum() - barrier * np.log(at).sum())

    for _ in range(_MOST_STEPS):
        mixture = _softmax(payoff @ multipliers)
        gains = payoff @ mixture
        # In units of the multipliers, which differ by orders of magnitude.
        slope = multipliers * (slack - gains) - barrier
        centred = payoff - (mixture @ payoff)
        scaled = (np.sqrt(mixture)[:, None] * centred) * multipliers
        curvature = scaled.T @ scaled
        curvature[np.diag_indices(n)] += barrier
        step = np.linalg.solve(curvature, -slope)
        fall = float(-slope @ step)
        if fall < 1e-3 * barrier:
            if gains.max() < max(least, TOLERANCE):  # the later, the more entropy
                best, least = mixture, float(gains.max())
            if barrier <= _LAST_BARRIER:
                break
            barrier *= _SHRINK
            continue
        length = min(1.0, 0.95 / max(float(-step.min()), 1e-12))
        here = height(multipliers)
        while length > 1e-10 and height(multipliers * (1.0 + length * step)) > here - 0.1 * length * fall:
            length *= 0.5
        multipliers = multipliers * (1.0 + length * step)
    return best


def uniform(payoff: Floats) -> Floats:
    """All alike [n]: PSRO becomes fictitious play."""
    n = _check(payoff)
    return np.full(n, 1.0 / n)


def replicator(payoff: Floats) -> Floats:
    """Time average [n] of the replicator dynamics from the centre, in which no share falls below a
    floor (Lanctot et al.: A unified game-theoretic approach to multiagent reinforcement learning,
    NeurIPS 2017, section 3.1), in exponential steps: near an equilibrium, and never without anyone.
    """
    n = _check(payoff)
    mixture, total = np.full(n, 1.0 / n), np.zeros(n)
    for _ in range(_REPLICATOR_STEPS):
        mixture = mixture * np.exp(_REPLICATOR_RATE * (payoff @ mixture))
        mixture = np.maximum(mixture / mixture.sum(), _REPLICATOR_FLOOR)
        mixture /= mixture.sum()
        total += mixture
    return total / _REPLICATOR_STEPS


MetaStrategy = Callable[[Floats], Floats]

META_STRATEGIES: Mapping[str, MetaStrategy] = MappingProxyType(
    {"nash": max_entropy_nash, "uniform": uniform, "replicator": replicator, "rectified": max_entropy_nash}
)


def rectify(mixture: Floats, rates: Floats) -> Floats:
    """The part of a mixture [n] that the home player beats or equals (`rates` [n] of at least 1/2),
    as a distribution: strengths are amplified, weaknesses ignored (Balduzzi et al.: Open-ended
    learning in symmetric zero-sum games, ICML 2019, PSRO_rN). All of it when none is beaten.
    """
    kept = np.where(rates >= 0.5, mixture, 0.0)
    total = kept.sum()
    return kept / total if total > 0.0 else mixture


def _check(payoff: Floats) -> int:
    square = payoff.ndim == 2 and payoff.shape[0] == payoff.shape[1] > 0
    if not square or not np.isfinite(payoff).all() or np.abs(payoff + payoff.T).max() > 1e-9:
        raise ValueError(
            f"nash: payoff of shape {payoff.shape}, expected [n, n], finite and antisymmetric: "
            "what the row gains, the column loses"
        )
    return len(payoff)


def _softmax(scores: Floats) -> Floats:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()
