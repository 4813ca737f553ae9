"""Matches that were lost with their runner: played again, or set aside if runners keep dying at them.

    first death    may be chance (a kill, a node that went): the request is played again as it was
    second death   its matches are played again in PARTS
    third death    of a runner at the same matches: this part of them is set aside

So a match that kills every runner costs three runners and a part of one request. A game that kills in all
matches costs FIRST_DEATHS runners before it is known that nothing can be played, or PARTS + 2 if a request
was played before. A runner plays its requests in order: only the one that it was playing is suspected.
Matches that were lost without a death are never blamed. Matches of which a fragment was played in an earlier
request are dropped: players have learned from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from league.training.requests import Owner
from storage.records import MatchBatch

DEATHS = 3  # of runners at the same matches
PARTS = 8
FIRST_DEATHS = 2 * DEATHS  # of runners while they played, before any request was played


@dataclass(frozen=True, slots=True)
class Part:
    """Matches of one request, or a part of them, and how many runners have died while they played them."""

    matches: MatchBatch
    env_options: Mapping[str, Any] | None  # of the game of the matches, if it is not the runner's
    owner: Owner
    deaths: int = 0


class ReplayedMatches:
    """Matches that wait to be played again."""

    def __init__(self) -> None:
        self._waiting: deque[Part] = deque()
        self._set_aside = 0  # parts in a row, without a result in between
        self._before_any = 0  # deaths before any request was played
        self._any = False

    def __len__(self) -> int:
        return sum(len(part.matches) for part in self._waiting)

    def lost(self, part: Part, *, blamed: bool) -> bool:
        """Queue matches that were lost; return False if they are to be set aside instead.

        `blamed`: their runner died while it played them.
        """
        part = replace(part, deaths=part.deaths + blamed)
        self._before_any += blamed
        if part.deaths >= DEATHS:
            self._set_aside += 1
            return False
        self._waiting += _parts(part) if blamed and part.deaths == DEATHS - 1 else [part]
        return True

    def next(self, owner: Owner) -> Part | None:
        """Remove and return the next part of `owner`."""
        for part in self._waiting:
            if part.owner == owner:
                self._waiting = deque(other for other in self._waiting if other is not part)
                return part
        return None

    def played(self) -> None:
        """Note that some request was played."""
        self._set_aside = 0
        self._any = True

    @property
    def hopeless(self) -> bool:
        """Whether nothing can be played: runners have died at everything that was asked of them lately."""
        at_once = not self._any and self._before_any >= FIRST_DEATHS
        return at_once or self._set_aside >= PARTS


def _parts(part: Part) -> list[Part]:
    rows = np.array_split(np.arange(len(part.matches)), PARTS)
    return [replace(part, matches=part.matches.take(own)) for own in rows if len(own)]
