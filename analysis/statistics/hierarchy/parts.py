"""The parts into which a field falls, and lines that its meetings show."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from analysis.statistics.games import Games
from analysis.statistics.hierarchy.prior import Lines
from storage.arrays import Indices


def parts_of(games: Games, linked: Sequence[int] | Indices = ()) -> Indices:
    """Return [N] the number of each competitor's part, 0 for the largest: parts never met one another.

    Those that are `linked` are in one part, though they may never have met: their ratings are given.
    """
    n, own = len(games.competitors), np.array(linked, dtype=np.int64)
    links = csr_array((np.ones(max(len(own) - 1, 0)), (own[:-1], own[1:])), shape=(n, n))
    _, label = connected_components(_met(games) + links, directed=False)
    sizes = np.bincount(label)
    order = np.argsort(-sizes, kind="stable")
    return np.argsort(order, kind="stable")[label]


def long_lines(games: Games) -> Lines | None:
    """Return the lines along which a long field met, or `None` if any two are few meetings apart.

    Any two of a field in which pairings mix are about log N meetings apart. In a chain they are far further:
    only neighbours met, and nothing else connects the ends.
    """
    met, n = _met(games), len(games.competitors)
    if n < 3:
        return None
    parent = np.full(n, -1, dtype=np.int64)
    long = False
    seen = np.zeros(n, dtype=np.bool_)
    for start in range(n):
        if seen[start]:
            continue
        order, _ = breadth_first_order(met, start, directed=False)
        seen[order] = True
        end = int(order[-1])
        order, before = breadth_first_order(met, end, directed=False)
        steps = np.zeros(n, dtype=np.int64)
        for one in order[1:]:
            steps[one] = steps[before[one]] + 1
        if steps[order[-1]] > 2.0 * math.log2(max(2, len(order))) + 1.0:
            parent[order[1:]] = before[order[1:]]
            long = True
    return Lines(parent, np.ones(n)) if long else None


def places_told_apart(games: Games, anchors: Collection[str] = ()) -> bool:
    """Return whether games of two show what places are worth, rather than how strong those in them are.

    They do not where levels of competitors exist such that home is always one above away, as where a seed of
    a gauntlet always begins. Then any worth of the places fits, with strengths to go with it; unless the
    strengths of `anchors` on two levels are given.
    """
    if not len(games) or games.away_place.max() > 1:
        return True
    met, n = _met(games), len(games.competitors)
    home, away = np.divmod(np.unique(games.home * n + games.away), n)
    home_first = set(zip(home.tolist(), away.tolist(), strict=True))
    level = np.full(n, np.iinfo(np.int64).min)
    for start in range(n):
        if level[start] >= -n:
            continue
        order, before = breadth_first_order(met, start, directed=False)
        level[start] = 0
        for one in order[1:]:
            level[one] = level[before[one]] + (1 if (one, before[one]) in home_first else -1)
        if len({level[one] for one in order if games.competitors[one] in anchors}) > 1:
            return True
    return bool((level[home] - level[away] != 1).any())


def _met(games: Games) -> csr_array:
    n = len(games.competitors)
    once = np.unique(games.home * n + games.away)
    return csr_array((np.ones(len(once)), (once // n, once % n)), shape=(n, n))
