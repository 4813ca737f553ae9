"""Largest matching of a graph: as many couples as possible."""

from __future__ import annotations

from collections import deque

import numpy as np

from storage.arrays import Bools, Indices


def largest_matching(allowed: Bools) -> Indices:
    """Return [n] the partner of each, or -1, in a largest matching that `allowed` [n, n] (symmetric) permits.

    First each, from the front, takes the nearest free one behind it. Then each one that is left over changes
    partners along the shortest alternating chain that adds a couple (Edmonds: Paths, trees, and flowers,
    Canadian Journal of Mathematics 1965). So couples at the front mostly stay.
    """
    n = len(allowed)
    partner = np.full(n, -1, dtype=np.int64)
    free = np.ones(n, dtype=np.bool_)
    for i in range(n):
        behind = np.flatnonzero(allowed[i, i + 1 :] & free[i + 1 :])
        if free[i] and len(behind):
            j = i + 1 + int(behind[0])
            partner[i], partner[j] = j, i
            free[i] = free[j] = False
    for root in np.flatnonzero(free)[::-1].tolist():
        if partner[root] < 0:
            _Search(allowed, partner, root).run()
    return partner


class _Search:
    """Search for an alternating chain between two that are left over.

    The search is a breadth-first tree, whose odd cycles (Edmonds' blossoms) are shrunk to their base.
    """

    def __init__(self, allowed: Bools, partner: Indices, root: int) -> None:
        self._allowed, self._partner, self._root = allowed, partner, root
        self._base = np.arange(len(partner))  # base of the blossom that contains each
        self._parent = np.full(len(partner), -1, dtype=np.int64)
        self._outer = np.zeros(len(partner), dtype=np.bool_)  # an even number of steps from the root
        self._queue = deque([root])

    def run(self) -> None:
        """Add a couple, if a chain from the root allows one more."""
        self._outer[self._root] = True
        while self._queue:
            here = self._queue.popleft()
            near = np.flatnonzero(self._allowed[here])
            for there in near[np.argsort(np.abs(near - here), kind="stable")].tolist():
                if self._base[here] == self._base[there] or self._partner[here] == there:
                    continue
                if self._outer[there]:
                    self._shrink(here, there)
                elif self._parent[there] < 0:
                    self._parent[there] = here
                    if self._partner[there] < 0:
                        self._swap(there)
                        return
                    mate = int(self._partner[there])
                    self._outer[mate] = True
                    self._queue.append(mate)

    def _shrink(self, one: int, other: int) -> None:
        """Shrink the odd cycle that closes between two outer nodes: all of its nodes become outer."""
        base = self._common_base(one, other)
        inside = np.zeros(len(self._base), dtype=np.bool_)
        for end, across in ((one, other), (other, one)):
            here, child = end, across
            while self._base[here] != base:
                mate = int(self._partner[here])
                inside[self._base[here]] = inside[self._base[mate]] = True
                self._parent[here] = child
                child, here = mate, int(self._parent[mate])
        members = inside[self._base]
        self._base[members] = base
        self._queue.extend(np.flatnonzero(members & ~self._outer).tolist())
        self._outer |= members

    def _common_base(self, one: int, other: int) -> int:
        seen = set()
        here = int(self._base[one])
        while True:
            seen.add(here)
            if here == self._base[self._root]:
                break
            here = int(self._base[self._parent[self._partner[here]]])
        here = int(self._base[other])
        while here not in seen:
            here = int(self._base[self._parent[self._partner[here]]])
        return here

    def _swap(self, end: int) -> None:
        """Swap couples and non-couples along the chain back to the root."""
        while end >= 0:
            before = int(self._parent[end])
            following = int(self._partner[before])
            self._partner[end], self._partner[before] = before, end
            end = following
