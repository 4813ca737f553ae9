"""Form: what live players win per game now, against what they won a while ago."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from storage.arrays import Floats


class FormGain(NamedTuple):
    """Gain of a player from one window of games to the next, in leads per game."""

    gain: float  # mean lead of the newest window, less that of the window before it
    error: float  # standard error of the gain
    lead: float  # mean lead of the newest window
    games: int  # in the smaller of the two windows


class _Played(NamedTuple):
    games: int
    total: float  # of leads
    squares: float


class Form:
    """Leads of live players in their training games since their last snapshots, batch by batch.

    Only games against competitors that never change are counted, so a player that plays a fixed mixture of
    them gains only by its own progress. Two windows of `games` are remembered; with 0 nothing is.
    """

    def __init__(self, games: int = 0) -> None:
        self.games = games
        self._played: dict[str, deque[_Played]] = {}

    def add(self, player: str, leads: Floats) -> None:
        """Add a batch of games of `player` with these leads [n], and forget what no window holds any more."""
        if not self.games or not len(leads):
            return
        played = self._played.setdefault(player, deque())
        played.append(_Played(len(leads), float(leads.sum()), float(np.square(leads).sum())))
        known = sum(batch.games for batch in played)
        most = 2 * self.games + 2 * max(batch.games for batch in played)  # windows hold whole batches
        while known - played[0].games >= most:
            known -= played.popleft().games

    def folded(self) -> dict[str, list[list[float]]]:
        """Return the batches of each player: what `restore` takes."""
        return {player: [list(batch) for batch in played] for player, played in self._played.items()}

    def restore(self, folded: Mapping[str, Sequence[Sequence[float]]]) -> None:
        """Take what `folded` returned."""
        self._played = {
            player: deque(_Played(int(games), total, squares) for games, total, squares in played)
            for player, played in folded.items()
        }

    def clear(self, player: str) -> None:
        """Forget the games of `player`, which was frozen or reset."""
        self._played.pop(player, None)

    def gain(self, player: str, games: int) -> FormGain | None:
        """Return the gain over the newest two windows, each of the fewest batches with at least `games`.

        `None` before there are as many. Raise ValueError for larger windows than are remembered.
        """
        if games > self.games:
            raise ValueError(f"form: a window of {games} games, expected at most {self.games}")
        batches = list(self._played.get(player, ()))
        windows = []
        for _ in range(2):
            window: list[_Played] = []
            while sum(batch.games for batch in window) < games:
                if not batches:
                    return None
                window.append(batches.pop())
            windows.append(_together(window))
        (newest, errors), (before, errors_before) = map(_mean, windows)
        fewest = min(window.games for window in windows)
        return FormGain(newest - before, math.hypot(errors, errors_before), newest, fewest)


def _together(batches: list[_Played]) -> _Played:
    total, squares = (sum(getattr(batch, name) for batch in batches) for name in ("total", "squares"))
    return _Played(sum(batch.games for batch in batches), total, squares)


def _mean(played: _Played) -> tuple[float, float]:
    """Return the mean and its standard error."""
    mean = played.total / played.games
    variance = max(played.squares / played.games - mean**2, 0.0)
    return mean, math.sqrt(variance / played.games)
