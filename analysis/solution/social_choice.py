"""Rankings and lotteries from votes: every task, or every game, is a voter that prefers one of two.

The votes enter only through the margin matrix: margins[i, j] is by how much i is preferred to j, in votes or
in any other unit (`Payoffs.matrix()` is one: each pairing votes once, as clearly as it was won). Margins are
antisymmetric. Voting as evaluation: Lanctot et al., Evaluating agents using social choice theory, arXiv
2312.03121, 2023.

- `kemeny`: the ranking that contradicts the fewest votes (Kemeny, Daedalus 88, 1959; Young: Condorcet's
  theory of voting, APSR 82, 1988).
- `maximal_lottery`: the mixture that no other is preferred to (Kreweras 1965; Fishburn: Probabilistic social
  choice based on simple voting comparisons, Rev. Econ. Stud. 51, 1984).
- `soft_condorcet`: ratings whose order is nearly Kemeny's, and whose gaps show how clear it is (Lanctot et
  al.: Soft Condorcet optimization for ranking of general agents, arXiv 2411.00119, 2024, sigmoid loss).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.solution.cycles.schur import checked
from analysis.solution.equilibria.nash import max_entropy_nash
from storage.arrays import Floats, Indices

EXACT_UP_TO = 20
"""Competitors in one circle of majorities whose Kemeny ranking is found exactly: a circle of so many, its
margins drawn at random, takes tens of milliseconds, one of 30 up to half a minute. Without such circles no
field is too large."""

_NODES = 2000  # of branch and bound, after which the best ranking so far is returned
_VIOLATED = 1e-6
_MOST_CUTS = 3000  # added at once
_PLAYED = 1e-6  # probability
_MOST_REVERSALS = 20
_HEAT = 2.0  # each temperature over the next, on the way down


@dataclass(frozen=True, slots=True)
class Kemeny:
    """A ranking of N competitors."""

    order: Indices  # [N] competitors, best first
    agreement: float  # sum of margins of each over all that it is ranked above
    optimal: bool  # proven: no ranking agrees more

    @property
    def ranks(self) -> Floats:
        """Place of each competitor, [N], 1 for the best."""
        ranks = np.empty(len(self.order))
        ranks[self.order] = np.arange(1, len(self.order) + 1)
        return ranks


def margins_of_ballots(
    ballots: Sequence[Sequence[int]], num_competitors: int, weights: Sequence[float] | None = None
) -> Floats:
    """Return votes [N, N] for row over column less those for column over row.

    `ballots` list competitors best first. A competitor that a ballot leaves out is not compared by it.
    """
    margins = np.zeros((num_competitors, num_competitors))
    for ballot, weight in zip(ballots, weights or [1.0] * len(ballots), strict=True):
        better, worse = np.triu_indices(len(ballot), 1)
        named = np.asarray(ballot, dtype=np.int64)
        np.add.at(margins, (named[better], named[worse]), weight)
    return margins - margins.T


def kemeny(margins: Floats, *, exact_up_to: int = EXACT_UP_TO) -> Kemeny:
    """Return the ranking of most agreement with `margins` [N, N].

    Sets of which all members beat all below are ranked apart (Truchon: An extension of the Condorcet
    criterion and Kemeny orders, 1998). Each is then a linear ordering problem, solved exactly up to
    `exact_up_to` members (Groetschel, Juenger and Reinelt: A cutting plane algorithm for the linear ordering
    problem, Oper. Res. 32, 1984). It is relaxed, cut by the cycles of three in the solution, and branched
    where that is still fractional. In larger sets, members are moved to their best places until no move
    helps, and again from the reversed ranking as long as that gains (Chanas and Kobylanski: A new heuristic
    algorithm solving the linear ordering problem, Comput. Optim. Appl. 6, 1996). Of several best rankings the
    same one is returned every time.
    """
    checked(margins)
    order: list[int] = []
    optimal = True
    for group in _majority_classes(margins):
        within = margins[np.ix_(group, group)]
        found, proven = _ordered(within, exact_up_to)
        order += group[found].tolist()
        optimal &= proven
    ranked = np.array(order, dtype=np.int64)
    return Kemeny(ranked, kemeny_score(margins, ranked), optimal)


def maximal_lottery(margins: Floats) -> Floats:
    """Return probabilities [N] such that no other mixture is expected to have a majority against them.

    Of several, the most even one is returned. A Condorcet winner, which beats all others, has probability 1.
    """
    checked(margins)
    most = np.abs(margins).max(initial=0.0)
    winner = np.flatnonzero((margins + np.eye(len(margins)) > 0.0).all(axis=1))
    if len(winner):
        return np.eye(len(margins))[winner[0]]
    return np.asarray(max_entropy_nash(margins / most if most > 0.0 else margins))


def iterated_maximal_lotteries(margins: Floats) -> Floats:
    """Return scores [N] that rank all, by maximal lotteries level by level.

    A member of the maximal lottery scores its probability in it; so do the members of the lottery among the
    rest, one level below (Lanctot et al. 2023).
    """
    left, levels = np.arange(len(margins)), []
    while len(left):
        lottery = maximal_lottery(margins[np.ix_(left, left)])
        levels.append((left[lottery > _PLAYED], lottery[lottery > _PLAYED]))
        left = left[lottery <= _PLAYED]
    scores = np.zeros(len(margins))
    for level, (members, lottery) in enumerate(reversed(levels)):
        scores[members] = level + lottery
    return scores


def soft_condorcet(margins: Floats, *, temperature: float = 1.0, bound: float = 10.0) -> Floats:
    """Return ratings [N] in [-bound, bound] of least loss.

    The loss is the sum over votes of i over j of sigmoid((r[j] - r[i]) / temperature). Apart from a constant
    that is the sum of margins times sigmoids, so opposite votes cancel.

    The lower the temperature, the nearer to Kemeny's ranking, and the more minima there are. The search goes
    from hot to cold: at high temperature the loss is linear and the best rating is the sum of a competitor's
    margins. Ratings that nothing holds together go to the bounds.
    """
    from scipy import optimize

    checked(margins)
    n, most = len(margins), np.abs(margins).max(initial=0.0)
    if most == 0.0:
        return np.zeros(n)
    scaled = margins / most / n

    def loss(r: Floats, heat: float) -> tuple[float, Floats]:
        lead = np.tanh((r[:, None] - r) / (2.0 * heat))  # 1 - 2 sigmoid((r[j] - r[i]) / heat)
        slope = scaled * (1.0 - lead**2) / (2.0 * heat)
        return -0.25 * float((scaled * lead).sum()), -0.5 * slope.sum(axis=1)

    heat = max(temperature, 4.0 * bound)
    totals = scaled.sum(axis=1)
    ratings = bound * totals / max(np.abs(totals).max(), 1e-12)
    while True:
        ratings = optimize.minimize(
            loss,
            ratings,
            args=(heat,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-bound, bound)] * n,
            options={"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-9},
        ).x
        if heat <= temperature:
            return ratings
        heat = max(temperature, heat / _HEAT)


def _majority_classes(margins: Floats) -> list[Indices]:
    """Return the fewest sets of competitors, best first, of which each member beats all of the next set."""
    from scipy.sparse import csgraph

    beaten = margins < 0.0
    _, label = csgraph.connected_components(~beaten & ~np.eye(len(margins), dtype=bool), connection="strong")
    groups = [np.flatnonzero(label == name) for name in range(label.max(initial=-1) + 1)]
    # Between two sets all majorities go one way: the set that beats more competitors outside is above.
    outside = [int((margins[group[0]] > 0.0)[label != label[group[0]]].sum()) for group in groups]
    return [groups[k] for k in sorted(range(len(groups)), key=lambda k: -outside[k])]


def _ordered(margins: Floats, exact_up_to: int) -> tuple[Indices, bool]:
    """Return the members [n] of one set, best first, and whether that is proven."""
    n = len(margins)
    order = _moved(margins, np.argsort(-margins.sum(axis=1), kind="stable"))
    if n <= 2 or not margins.any():
        return order, True
    for _ in range(_MOST_REVERSALS):
        other = _moved(margins, order[::-1])
        if _agreement(margins, other) <= _agreement(margins, order) * (1.0 + 1e-12):
            break
        order = other
    return _branched(margins, order) if n <= exact_up_to else (order, False)


def kemeny_score(margins: Floats, order: Indices) -> float:
    """Return the sum of margins [n, n] of each over all below in the `order` [n].

    Raise ValueError for margins that are not finite and an order that does not name each once.
    """
    n = len(margins)
    if np.shape(margins) != (n, n) or not np.isfinite(margins).all():
        raise ValueError(f"margins have the shape {np.shape(margins)}, expected [n, n], all finite")
    if sorted(np.asarray(order).tolist()) != list(range(n)):
        raise ValueError(f"order is {list(order)}, expected each number below {n} once")
    return _agreement(margins, order)


def _agreement(margins: Floats, order: Indices) -> float:
    return float(np.triu(margins[np.ix_(order, order)], 1).sum())


def _moved(margins: Floats, order: Indices) -> Indices:
    """Return `order` after members were moved to where they agree most, until no move helps."""
    order = order.copy()
    moved = True
    while moved:
        moved = False
        for member in order.copy():
            rest = order[order != member]
            # Gain of the place before rest[k] over the last: its margins over rest[k], rest[k + 1], ...
            over = margins[member, rest]
            gain = np.concatenate([2.0 * np.cumsum(over[::-1])[::-1], [0.0]])
            here = int(np.flatnonzero(order == member)[0])
            best = int(np.argmax(gain))
            if gain[best] > gain[here] + 1e-12 * np.abs(over).sum():
                order, moved = np.insert(rest, best, member), True
    return order


def _branched(margins: Floats, order: Indices) -> tuple[Indices, bool]:
    """Return the order of most agreement; `order` is a good one, returned if none is better."""
    from scipy import optimize, sparse

    n = len(margins)
    i, j = np.triu_indices(n, 1)
    number = np.zeros((n, n), dtype=np.int64)
    number[i, j] = np.arange(len(i))
    scale = np.abs(margins).max()
    gain = margins[i, j] / scale  # of i above j: x = 1
    before = 0.5 * (_agreement(margins, order) / scale + gain.sum())  # gain @ x of `order`

    # A circle a > b > c > a breaks x[ab] + x[bc] - x[ac] <= 1, one the other way round breaks >= 0.
    a, b, c = (t.ravel() for t in np.meshgrid(*[np.arange(n)] * 3, indexing="ij"))
    three = (a < b) & (b < c)
    a, b, c = a[three], b[three], c[three]
    columns = np.stack([number[a, b], number[b, c], number[a, c]], axis=1)
    used = np.zeros(len(a), dtype=np.bool_)
    whole = 0
    while True:
        rows = np.flatnonzero(used)
        matrix = sparse.csr_array(
            (np.tile([1.0, 1.0, -1.0], len(rows)), columns[rows].ravel(), np.arange(0, 3 * len(rows) + 1, 3)),
            shape=(len(rows), len(i)),
        )
        found = optimize.milp(
            -gain,
            integrality=whole,
            bounds=optimize.Bounds(0.0, 1.0),
            constraints=optimize.LinearConstraint(matrix, 0.0, 1.0) if len(rows) else None,
            options={"node_limit": _NODES} if whole else {},
        )
        if found.x is None or found.status != 0:
            return order, False
        x = np.round(found.x) if whole else found.x
        round_trip = x[columns[:, 0]] + x[columns[:, 1]] - x[columns[:, 2]]
        broken = np.maximum(round_trip - 1.0, -round_trip)
        worst = np.flatnonzero((broken > _VIOLATED) & ~used)
        if -found.fun <= before + 1e-7:  # no order can be better than this bound
            return order, True
        if len(worst):
            used[worst[np.argsort(-broken[worst], kind="stable")[:_MOST_CUTS]]] = True
        elif np.abs(x - np.round(x)).max() > _VIOLATED:
            whole = 1
        else:
            above = np.zeros(n)
            np.add.at(above, i, np.round(x))
            np.add.at(above, j, 1.0 - np.round(x))
            return np.argsort(-above, kind="stable"), True
