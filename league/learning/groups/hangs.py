"""Hangs among learners on Ray: for how long a process may be silent (`Replacing` looks at the shards).

Only answers count as work (`league.cluster.answers`). A process that works is known by what its updates took:

    silent for LATE_SECONDS, or LATE_TIMES its longest update    others play on without its players
    silent for the patience: `resources.patience_seconds`        it is ended and made again

A process that builds its learners, or has made no update of a player that it learns for, gets FIRST_SECONDS:
imports and first calls of a GPU take long once.
"""

from __future__ import annotations

from collections.abc import Iterable

from league.cluster.answers import Setting, Times, allowed

LATE_SECONDS, LATE_TIMES = 2.0, 3.0
FIRST_SECONDS = 300.0


class Patience:
    """Seconds for which processes may be silent, from what their updates take."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._updates = Times(setting)  # of each player
        self._news: list[str] = []

    def learned(self, player: str, seconds: float) -> None:
        """Note what an update has taken."""
        before = self.seconds([player])
        self._updates.note(player, 1, seconds)
        if self._setting != "auto" and self.seconds([player]) > max(before, self._setting):
            self._news.append(
                f"resources.patience_seconds is {self._setting:g}, and an update of {player} took "
                f"{seconds:.1f} s: its learner may be silent for {self.seconds([player]):.0f} s; raise it"
            )

    def late(self, players: Iterable[str]) -> float:
        """Return after which silence others play on without these players of a process."""
        return max(LATE_SECONDS, LATE_TIMES * self._longest(players))

    def seconds(self, players: Iterable[str]) -> float:
        """Return after which silence the process of these players is ended."""
        return allowed(self._setting, self._longest(players))

    def first(self) -> float:
        """Return after which silence a process is ended that is at its first work."""
        return max(FIRST_SECONDS, self.seconds(()))

    def news(self) -> list[str]:
        """Return sentences about the setting since the last call."""
        news, self._news = self._news, []
        return news

    def _longest(self, players: Iterable[str]) -> float:
        return max((self._updates.longest(player, 1) for player in players), default=0.0)
