"""Equilibria of zero-sum games, and Nash averaging: ratings that copies and weak members do not change.

The meta-game of a pool of n is symmetric and zero-sum: `payoff` [n, n] holds what the row gains against the
column, in [-1, 1], and the transposed is its negative. Its value is 0, so a mixture x is a Nash equilibrium
exactly when nothing gains against it: max (payoff x) <= 0.

Layers: the first one is the members that an equilibrium needs, the next those it needs once they are gone.
Real games look like spinning tops: few members at the top and at the bottom, and many in the middle that beat
each other in cycles. A layer's size shows how cyclic play is at that strength (Czarnecki et al.: Real world
games look like spinning tops, NeurIPS 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.solution.max_entropy import most_entropy
from analysis.statistics.valid import check_antisymmetric, check_finite
from storage.arrays import Floats, Indices

TOLERANCE = 1e-5
"""Largest gain of a best response to `max_entropy_nash`, for payoffs of at most 1."""

_SLACK = 1e-8  # gain allowed by the bounds: bounds without room have no interior
_MARGIN = 1e-3  # members that lose so much are in no equilibrium, but for _SLACK / _MARGIN in all
_FIRST = 48  # members of the first pool of `_grown`
_LEAST_SCALE = 1e-3  # smaller payoffs are not scaled up: they are rounding errors of 0


@dataclass(frozen=True, slots=True)
class ZeroSum:
    """An equilibrium of a game of a row player against a column player that pays."""

    value: float  # what the row player gains
    rows: Floats  # [n] mixture
    columns: Floats  # [m] mixture


@dataclass(frozen=True, slots=True)
class NashAverage:
    """The expected payoff of each member against the most even equilibrium."""

    mixture: Floats  # [n] the equilibrium of most entropy
    ratings: Floats  # [n] expected payoff against it; 0 for its members, below for the rest


def best_response_gain(payoff: Floats, mixture: Floats) -> float:
    """Return what the best single member gains against the mixture [n].

    Raise ValueError unless payoff [m, n] is finite, and the mixture's shares are 0 or more and sum to 1.
    """
    payoff, mixture = check_finite("payoff", payoff, None, None), np.asarray(mixture, dtype=np.float64)
    shares = np.shape(mixture) == payoff.shape[1:] and bool((mixture >= 0.0).all())
    if not shares or abs(mixture.sum() - 1.0) > _LEAST_SHARE:
        raise ValueError(
            f"nash: mixture of shape {np.shape(mixture)}, expected shares {payoff.shape[1:]} of 1"
        )
    return float((payoff @ mixture).max())


def zero_sum_nash(payoff: Floats) -> ZeroSum:
    """Return an equilibrium of the game in which the row player gains `payoff` [n, m] from the column player.

    It is found by linear programming: max v with payoff' x >= v (von Neumann, Zur Theorie der
    Gesellschaftsspiele, Math. Annalen 100, 1928; Dantzig 1951), with HiGHS. The multipliers of its bounds are
    the other player's mixture. Where there are several equilibria it is a corner of their set. Raise
    ValueError unless payoff is a finite matrix.
    """
    from scipy.optimize import linprog

    payoff = check_finite("payoff", payoff, None, None)
    n, m = payoff.shape
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-payoff.T, np.ones((m, 1))]),
        b_ub=np.zeros(m),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * n + [(None, None)],
        method="highs-ds",
    )
    if found.x is None:
        raise ArithmeticError(f"nash: HiGHS solves no game of shape {payoff.shape}: {found.message}")
    return ZeroSum(float(found.x[-1]), _shares(found.x[:-1]), _shares(-found.ineqlin.marginals))


def max_entropy_nash(payoff: Floats) -> Floats:
    """Return the equilibrium [n] of most entropy of a symmetric zero-sum game.

    Nothing gains more than 1e-8 of the largest payoff against it. It is unique, does not depend on how often
    a member is copied, and plays all that can be played (Ortiz, Schapire, Kakade: Maximum entropy correlated
    equilibria, AISTATS 2007; Balduzzi et al.: Re-evaluating evaluation, NeurIPS 2018). It is solved among a
    pool that grows: in a symmetric zero-sum game, no equilibrium plays a member that another equilibrium
    beats. Members that lose more than a thousandth to it get a share of 0, at the price of at most 1e-5 of
    the mixture. Where few members matter, as in most leagues, 1,000 members take a hundredth of a second;
    where half of them do, a second or two on one core. Raise ValueError unless payoff is square, finite and
    antisymmetric.
    """
    payoff = check_antisymmetric(payoff)
    scale = max(float(np.abs(payoff).max()), _LEAST_SCALE)
    game = payoff / scale

    def solve(pool: Indices) -> Floats:
        part = game[np.ix_(pool, pool)]
        found = most_entropy(part, np.full(len(pool), _SLACK))
        return found if best_response_gain(part, found) < TOLERANCE else zero_sum_nash(part).rows

    return _grown(game, solve, enough=-_MARGIN)


def nash_averaging(payoff: Floats) -> NashAverage:
    """Return what each agent gains against the equilibrium of most entropy.

    (Balduzzi et al.: Re-evaluating evaluation, NeurIPS 2018.) A copy of a member shares its weight and
    changes no rating; nor does a member that the others beat. `payoff` as in `max_entropy_nash`.
    """
    payoff = check_antisymmetric(payoff)
    mixture = max_entropy_nash(payoff)
    return NashAverage(mixture, payoff @ mixture)


def nash_averaging_on_tasks(scores: Floats) -> tuple[NashAverage, NashAverage]:
    """Return averages of the n agents and of the m tasks, from `scores` [n, m].

    The agents' player picks the agent that is to score, the other the task that is to be solved (Balduzzi et
    al. 2018). An agent's rating is its score on the mixture of tasks that are hardest together. A task's
    rating is minus the score of the mixture of agents on it. A task that occurs twice, or is easy for all,
    counts no more for it. Scores should be of one kind: put tasks in other units on [0, 1] first. All sets of
    equilibria of zero-sum games are products, so both mixtures of most entropy are found apart. Raise
    ValueError unless scores is a finite matrix.
    """
    scores = check_finite("scores", scores, None, None)
    found = zero_sum_nash(scores)
    scale = max(float(np.abs(scores - found.value).max()), _LEAST_SCALE)
    game = (scores - found.value) / scale
    agents = most_entropy(-game.T, np.full(game.shape[1], _SLACK))
    tasks = most_entropy(game, np.full(game.shape[0], _SLACK))
    if (-game.T @ agents).max() > TOLERANCE or (game @ tasks).max() > TOLERANCE:
        agents, tasks = found.rows, found.columns
    return NashAverage(agents, scores @ tasks), NashAverage(tasks, -(agents @ scores))


def _grown(payoff: Floats, solve: Callable[[Indices], Floats], *, enough: float) -> Floats:
    """Return a mixture [n] that `solve` finds for a pool that grows until no member gains `enough`.

    The pool grows threefold at most, and beyond half of all members to all: a solution for a pool that is too
    small is wasted.
    """
    n = len(payoff)
    pool = np.sort(np.argsort(-payoff.mean(axis=1), kind="stable")[:_FIRST])
    while True:
        mixture = np.zeros(n)
        mixture[pool] = solve(pool)
        gains = payoff @ mixture
        gains[pool] = -np.inf
        order = np.argsort(-gains, kind="stable")[: 2 * len(pool)]
        newcomers = order[gains[order] > enough]
        if not len(newcomers):
            return mixture
        pool = np.sort(np.append(pool, newcomers)) if 2 * (len(pool) + len(newcomers)) < n else np.arange(n)


def _shares(values: Floats) -> Floats:
    positive = np.maximum(values, 0.0)
    return positive / positive.sum()


_LEAST_SHARE = 1e-6  # of an equilibrium, to be in it: nearly a thousand members may share it


def nash_clusters(payoff: Floats) -> list[Indices]:
    """Return the members' numbers by layer, best first, ascending in each.

    A layer is the members of the equilibrium of most entropy among those not yet in a layer (the Nash
    clustering of Czarnecki et al. 2020). `payoff` is [n, n]. Each layer as a population equals or beats all
    later ones (proved there). A member that loses less than about 1e-4 to an equilibrium may be counted among
    its members.
    """
    payoff = check_antisymmetric(payoff)
    left = np.arange(len(payoff))
    clusters = []
    while len(left):
        chosen = _first_cluster(payoff[np.ix_(left, left)])
        clusters.append(left[chosen])
        left = left[~chosen]
    return clusters


def _first_cluster(game: Floats) -> npt.NDArray[np.bool_]:
    """Return the members [n] that the equilibrium of most entropy plays."""
    chosen = np.zeros(len(game), dtype=bool)
    best = int(game.sum(axis=1).argmax())
    if (np.delete(game[best], best) > _MARGIN).all():  # a member that beats all others is alone
        chosen[best] = True
        return chosen
    mixture = max_entropy_nash(game)
    # In exact arithmetic a member has a share or loses to the mixture: the larger of the two decides which.
    chosen = (mixture > _LEAST_SHARE) & (mixture > -(game @ mixture))
    chosen[mixture.argmax()] = True
    return chosen


def effective_diversity(payoff: Floats) -> float:
    """Return how much the members of the equilibrium gain in the games they win.

    It is the sum of p_i max(payoff_ij, 0) p_j with p the equilibrium of most entropy (Balduzzi et al.:
    Open-ended learning in symmetric zero-sum games, ICML 2019). It is 0 where one member beats or equals all,
    and grows as the best ones differ in their strengths; weak or copied members do not change it. For rock,
    paper and scissors: 1/3.
    """
    payoff = check_antisymmetric(payoff)
    mixture = max_entropy_nash(payoff)
    return float(mixture @ np.maximum(payoff, 0.0) @ mixture)
