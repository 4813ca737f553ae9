"""Shares of strategies in the long run of evolution: alpha-rank, and projected replicator dynamics.

In alpha-rank a population of m plays one strategy. Now and then a mutant with another appears and either dies
out or takes over; then the population plays that one. The share of time with each strategy is the ranking
(Omidshafiei et al.: alpha-Rank: Multi-agent evaluation by evolution, Scientific Reports 9, 2019). For small
alpha, chance decides and all are near 1 / n. For large alpha only better mutants take over. What remains are
the sinks of the graph of better responses, its Markov-Conley chains.

All is computed in logarithms: with alpha = 1,000 and m = 50 a weaker mutant takes over with probability
exp(-98,000), and such numbers decide between two sinks.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from analysis.statistics.valid import check_antisymmetric, check_finite, check_whole
from storage.arrays import Floats

Selection = Literal["local", "global"]

_EVEN = 1e-14  # a smaller advantage counts as 0: the formula would divide 0 by 0
_DEEPEST = -300.0  # two such rates may still be multiplied in plain floats
_LOOK_EVERY = 25  # eliminations
_LOST = 37.0  # a summand that is exp(-37) of the other changes no digit of the sum
_LEAST_SCALE = 1e-12  # of payoffs, by which the projected replicator divides
_NEVER = -1e6  # replaces the log of a rate of 0 where rates are averaged


def alpha_rank(
    payoff: Floats,
    *,
    alpha: float = 100.0,
    population: int = 50,
    selection: Selection = "local",
    epsilon: float = 1e-9,
) -> Floats:
    """Return the shares [n] of a single population in the long run; `payoff` [n, n] of row against column.

    `alpha` is the strength of selection per unit of payoff, `population` is m. `selection` is the fitness of
    a mutant: against the strategy it meets alone ("local"; u = alpha (payoff[mutant, resident] -
    payoff[resident, mutant])), or against all others of the population at the time ("global"; the paper's for
    symmetric games). `alpha` = inf is the limit in which the better always take over, even ones in half of
    all cases, and worse ones with probability `epsilon`, which keeps sinks connected (Rowland et al.:
    Multiagent evaluation under incomplete information, NeurIPS 2019). Raise ValueError unless payoff is
    square and finite.
    """
    payoff = check_finite("alpha_rank: payoff", payoff, len(payoff), len(payoff))
    check_whole("alpha_rank: population", population, 2)
    if not (alpha >= 0.0 and 0.0 < epsilon < 0.5):
        raise ValueError(
            f"alpha_rank: alpha {alpha}, epsilon {epsilon}; expected alpha of at least 0, epsilon in (0, 0.5)"
        )
    advantage = payoff.T - payoff
    if math.isinf(alpha):
        strict = np.where(advantage > 0.0, math.log1p(-epsilon), math.log(epsilon))
        rates = np.where(np.abs(advantage) < _EVEN, math.log(0.5), strict)
    elif selection == "global":
        rates = _log_fixation_global(payoff, alpha, population)
    else:
        rates = log_fixation(alpha * advantage, population)
    np.fill_diagonal(rates, -np.inf)
    return np.exp(log_stationary(rates))


def log_fixation(advantage: Floats, population: int) -> Floats:
    """Return the log probability that one mutant takes over a population of m.

    `advantage` is alpha times its advantage u in fitness: log((1 - exp(-u)) / (1 - exp(-m u))), and log(1 /
    m) for u = 0 (Omidshafiei et al. 2019; a Moran process with Fermi's rule).
    """
    size = np.abs(advantage)
    safe = np.where(size < _EVEN, 1.0, size)
    found = np.log(-np.expm1(-safe)) - np.log(-np.expm1(-population * safe))
    found -= np.where(advantage < 0.0, (population - 1) * safe, 0.0)
    return np.where(size < _EVEN, -math.log(population), found)


def log_stationary(rates: Floats) -> Floats:
    """Return the log of the stationary distribution [n] of a chain, from logs [n, n] of its rates.

    Rates are from row to column; the diagonal does not matter. It uses the elimination of Grassmann, Taksar
    and Heyman (Regenerative analysis and steady state distributions for Markov chains, Operations Research
    33, 1985), which never subtracts: each share is right to its last digits however small it is. The chain
    must be irreducible.
    """
    n = len(rates)
    # Rarely visited members go first: the flow through them is then mostly negligible.
    order = np.argsort(-np.maximum(rates, _NEVER).mean(axis=0), kind="stable")
    rates = rates[np.ix_(order, order)]
    np.fill_diagonal(rates, 0.0)
    plain = n
    while plain > 1 and (plain % _LOOK_EVERY or rates[:plain, :plain].min() < _DEEPEST):
        plain -= 1
        left = rates[:plain, :plain]
        rates[:plain, plain] -= np.logaddexp.reduce(rates[plain, :plain])
        through = rates[:plain, plain, None] + rates[plain, :plain]
        np.logaddexp(left, through, out=left, where=through > left - _LOST)
    shares = np.zeros(n)
    shares[:plain] = _plainly(rates[:plain, :plain])
    for k in range(plain, n):
        shares[k] = np.logaddexp.reduce(shares[:k] + rates[:k, k])
    found = np.empty(n)
    found[order] = shares - np.logaddexp.reduce(shares)
    return found


def _plainly(rates: Floats) -> Floats:
    """Eliminate without logarithms, in a fifth of the time.

    That is exact where no product of two rates over a third leaves the range of floats. It holds the sooner,
    the more members are gone.
    """
    n = len(rates)
    flows = np.exp(rates)
    for k in range(n - 1, 0, -1):
        flows[:k, k] /= flows[k, :k].sum()
        flows[:k, :k] += flows[:k, k, None] * flows[k, :k]
    shares = np.ones(n)
    for k in range(1, n):
        shares[k] = shares[:k] @ flows[:k, k]
    logs: Floats = np.log(shares)
    return logs


def _log_fixation_global(payoff: Floats, alpha: float, population: int) -> Floats:
    """Return the log fixation [resident s, mutant r] where fitness is the mean payoff against all others.

    With p mutants

        f_r(p) = ((p - 1) payoff[r, r] + (m - p) payoff[r, s]) / (m - 1)
        f_s(p) = ((m - p - 1) payoff[s, s] + p payoff[s, r]) / (m - 1)
        1 / fixation = 1 + sum over l < m of exp(-alpha sum over p <= l of f_r(p) - f_s(p))
    """
    m, own = population, np.diag(payoff)
    mutants = np.arange(1.0, m)
    logs = np.empty(payoff.shape)
    for s in range(len(payoff)):  # one resident at a time: [n, m - 1] numbers
        of_mutants = np.outer(own, mutants - 1) + np.outer(payoff[:, s], m - mutants)
        of_residents = own[s] * (m - mutants - 1) + np.outer(payoff[s], mutants)
        lead = np.cumsum(of_mutants - of_residents, axis=1) * (alpha / (m - 1))
        logs[s] = -np.logaddexp.reduce(np.hstack([np.zeros((len(payoff), 1)), -lead]), axis=1)
    return logs


def projected_replicator(
    payoff: Floats, *, exploration: float = 0.01, steps: int = 2_000, rate: float = 0.1
) -> Floats:
    """Return the time average [n] of projected replicator dynamics from the centre of a zero-sum game.

    x <- P(x + rate x (payoff x - x . payoff x)), with P the projection to the nearest mixture whose shares
    reach a floor, so that every member is an opponent now and then (Lanctot et al.: A unified game-theoretic
    approach to multiagent reinforcement learning, NeurIPS 2017, section 3.1).

    `exploration` in [0, 1] is the sum of all floors. Steps are in units of the largest payoff. Raise
    ValueError unless payoff [n, n] is finite and antisymmetric, and for another exploration.
    """
    payoff = check_antisymmetric(payoff)
    n = len(payoff)
    check_whole("projected replicator: steps", steps, 1)
    if not 0.0 <= exploration <= 1.0:
        raise ValueError(f"projected replicator: exploration is {exploration}, expected 0 to 1")
    if not 0.0 < rate < math.inf:
        raise ValueError(f"projected replicator: rate is {rate}, expected a number above 0")
    game = payoff / max(float(np.abs(payoff).max()), _LEAST_SCALE)
    mixture, total = np.full(n, 1.0 / n), np.zeros(n)
    for _ in range(steps):
        mixture = onto_simplex(mixture + rate * mixture * (game @ mixture), floor=exploration / n)
        total += mixture  # x . payoff x is 0 in a symmetric zero-sum game
    return total / steps


def onto_simplex(point: Floats, *, floor: float = 0.0) -> Floats:
    """Return the mixture [n] with shares of at least `floor` that is nearest to `point` [n].

    The distance is Euclidean (Duchi et al.: Efficient projections onto the l1-ball, ICML 2008). `floor` is at
    most 1 / n. Raise ValueError for another, and for a point that is not finite.
    """
    if np.ndim(point) != 1 or not np.isfinite(point).all() or not 0.0 <= floor * len(point) <= 1.0 + 1e-9:
        raise ValueError(f"point of shape {np.shape(point)}, floor {floor}: expected [n], floor up to 1 / n")
    room = 1.0 - floor * len(point)
    above = point - floor
    falling = np.sort(above)[::-1]
    excess = (np.cumsum(falling) - room) / np.arange(1, len(point) + 1)
    shift = excess[np.flatnonzero(falling - excess > 0.0)[-1]] if room > 0.0 else np.inf
    return np.maximum(above - shift, 0.0) + floor
