"""Kemeny's ranking: the order of alternatives that contradicts the fewest votes.

(Kemeny, Daedalus 88, 1959; Young: Condorcet's theory of voting, APSR 82, 1988; as an evaluation of agents:
Lanctot et al., Evaluating agents using social choice theory, arXiv 2312.03121, 2023.) Votes enter through the
margin matrix: margins[i, j] is by how much i is preferred to j, in votes or in any other unit
(`Payoffs.matrix()` is one: each pairing votes once, as clearly as it was won). Margins are antisymmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.statistics.valid import check_antisymmetric, check_whole
from storage.arrays import Floats, Indices

EXACT_UP_TO = 20
"""Most alternatives in one circle of majorities that are ranked exactly, which takes at most a few seconds.
Without such circles no field is too large."""

_MOST_REVERSALS = 20


@dataclass(frozen=True, slots=True)
class Kemeny:
    """A ranking of N alternatives."""

    order: Indices  # [N] alternatives, best first
    scores: Floats  # [N] of each alternative: the sum of its margins over all that are ranked below it
    optimal: bool  # proven: no ranking agrees more

    @property
    def agreement(self) -> float:
        """Sum of all scores, which is the largest possible if the ranking is optimal."""
        return float(self.scores.sum())


def kemeny(margins: Floats, *, exact_up_to: int = EXACT_UP_TO) -> Kemeny:
    """Return the ranking of most agreement with `margins` [N, N].

    Sets of which all members beat all below are ranked apart (Truchon: An extension of the Condorcet
    criterion and Kemeny orders, 1998). A set of up to `exact_up_to` members is ranked by integer programming
    (Groetschel, Juenger and Reinelt: A cutting plane algorithm for the linear ordering problem, Oper. Res.
    32, 1984). In larger sets, members are moved to their best places until no move helps, and again from the
    reversed ranking as long as that gains (Chanas and Kobylanski: A new heuristic algorithm solving the
    linear ordering problem, Comput. Optim. Appl. 6, 1996). Raise ValueError unless margins are finite and
    antisymmetric.
    """
    margins = check_antisymmetric(margins)
    check_whole("kemeny: exact_up_to", exact_up_to, 0)
    order: list[int] = []
    optimal = True
    for group in _majority_classes(margins):
        within = margins[np.ix_(group, group)]
        exact = len(group) <= exact_up_to
        # Two members, or some without any margin between them, have no circle.
        solved = len(group) <= 2 or not within.any()
        found = _programmed(within) if exact and not solved else _searched(within)
        order += group[found].tolist()
        optimal &= solved or exact
    ranked = np.array(order, dtype=np.int64)
    scores = np.zeros(len(margins))
    scores[ranked] = np.triu(margins[np.ix_(ranked, ranked)], 1).sum(axis=1)
    return Kemeny(ranked, scores, optimal)


def scores_of_firsts(margins: Floats, *, exact_up_to: int = EXACT_UP_TO) -> Floats:
    """Return the most agreement of a ranking that has each alternative first: [N], found as by `kemeny`.

    It is the Kemeny score of an alternative (Bartholdi, Tovey and Trick: Voting schemes for which it can be
    difficult to tell who won the election, Soc. Choice Welfare 6, 1989), there counted in votes against. The
    largest is `Kemeny.agreement`, by which another falls short if it is first. Raise ValueError as `kemeny`
    does.
    """
    margins = check_antisymmetric(margins)
    found = np.zeros(len(margins))
    for first in range(len(margins)):
        rest = np.delete(np.delete(margins, first, axis=0), first, axis=1)
        found[first] = margins[first].sum()
        if len(rest):
            found[first] += kemeny(rest, exact_up_to=exact_up_to).agreement
    return found


def kemeny_score(margins: Floats, order: Indices) -> float:
    """Return the sum of margins [n, n] of each over all below in the `order` [n].

    Raise ValueError for margins that are not finite and an order that does not name each once.
    """
    margins, order = np.asarray(margins, dtype=np.float64), np.asarray(order)
    n = margins.shape[0] if margins.ndim else 0
    if margins.shape != (n, n) or not np.isfinite(margins).all():
        raise ValueError(f"margins have the shape {margins.shape}, expected [n, n], all finite")
    if order.ndim != 1 or sorted(order.tolist()) != list(range(n)):
        raise ValueError(f"order is {order.tolist()}, expected each number below {n} once")
    ranked = order.astype(np.int64)
    return float(np.triu(margins[np.ix_(ranked, ranked)], 1).sum())


def _majority_classes(margins: Floats) -> list[Indices]:
    """Return the fewest sets of alternatives, best first, of which each member beats all of the next set."""
    from scipy.sparse import csgraph

    beaten = margins < 0.0
    _, label = csgraph.connected_components(~beaten & ~np.eye(len(margins), dtype=bool), connection="strong")
    groups = [np.flatnonzero(label == name) for name in range(label.max(initial=-1) + 1)]
    # Between two sets all majorities go one way: the set that beats more alternatives outside is above.
    outside = [int((margins[group[0]] > 0.0)[label != label[group[0]]].sum()) for group in groups]
    return [groups[k] for k in sorted(range(len(groups)), key=lambda k: -outside[k])]


def _searched(margins: Floats) -> Indices:
    """Return a good order [n], found by moves and reversals."""
    order = _moved(margins, np.argsort(-margins.sum(axis=1), kind="stable"))
    for _ in range(_MOST_REVERSALS):
        other = _moved(margins, order[::-1])
        if kemeny_score(margins, other) <= kemeny_score(margins, order) * (1.0 + 1e-12):
            break
        order = other
    return order


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


def _programmed(margins: Floats) -> Indices:
    """Return the order [n] of most agreement: x[ij] = 1 where i is above j, and no three go in a circle."""
    from scipy import optimize, sparse

    n = len(margins)
    i, j = np.triu_indices(n, 1)
    number = np.zeros((n, n), dtype=np.int64)
    number[i, j] = np.arange(len(i))
    a, b, c = (t.ravel() for t in np.meshgrid(*[np.arange(n)] * 3, indexing="ij"))
    three = (a < b) & (b < c)
    a, b, c = a[three], b[three], c[three]
    # A circle a > b > c > a breaks x[ab] + x[bc] - x[ac] <= 1, one the other way round breaks >= 0.
    columns = np.stack([number[a, b], number[b, c], number[a, c]], axis=1)
    rows = sparse.csr_array(
        (np.tile([1.0, 1.0, -1.0], len(a)), columns.ravel(), np.arange(0, 3 * len(a) + 1, 3)),
        shape=(len(a), len(i)),
    )
    found = optimize.milp(
        -margins[i, j] / np.abs(margins).max(),
        integrality=1,
        bounds=optimize.Bounds(0.0, 1.0),
        constraints=optimize.LinearConstraint(rows, 0.0, 1.0),
        options={"mip_rel_gap": 0.0},
    )
    above = np.zeros(n)
    np.add.at(above, i, np.round(found.x))
    np.add.at(above, j, 1.0 - np.round(found.x))
    return np.argsort(-above, kind="stable")
