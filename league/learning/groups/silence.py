"""Hangs of processes that learn: one that has answered nothing for too long is ended, as if it had died.

Only answers count as work. A thread of the process that answers pings would prove nothing: a loop without an
end in a user's loss lets it run. A stopped process, a node that is cut off and such a loop thus look alike,
and have the same remedy. A process that works is known by what its updates took before:

    silent for LATE_SECONDS, or LATE_TIMES its longest update    others play on without its players
    silent for the patience: `resources.patience_seconds`        it is ended and made again

The patience is at least TIMES the longest update, or LEAST_TIMES of it where the setting is a number, so no
update ends a process only because it takes long. A process that builds its learners, or has made no update of
a player that it learns for, gets FIRST_SECONDS: imports and first calls of a GPU take long once.

Seconds count as they pass between two looks, and a look that comes late counts as a short one: where the
driver itself was stopped, nothing hangs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

LOOK_SECONDS = 1.0
LATE_SECONDS, LATE_TIMES = 2.0, 3.0
LEAST_SECONDS, TIMES = 30.0, 10.0  # of `auto`
LEAST_TIMES = 2.0
FIRST_SECONDS = 300.0
FADING = 0.98  # of the longest update, with each further one


class Silence:
    """Calls of one process that wait for their answers, and since when none of them has come."""

    def __init__(self, ray: Any) -> None:
        self.seconds = 0.0
        self.answered = False  # at least once
        self._ray = ray
        self._waiting: list[Any] = []

    def asked(self, reference: Any) -> None:
        """Note a call, by the reference to its answer."""
        self._waiting.append(reference)

    def look(self, seconds: float) -> float:
        """Look `seconds` after the last time; return for how long nothing has come that is waited for."""
        done: list[Any] = []
        if self._waiting:
            done, self._waiting = self._ray.wait(
                self._waiting, num_returns=len(self._waiting), timeout=0, fetch_local=False
            )
        self.answered |= bool(done)
        self.seconds = self.seconds + seconds if self._waiting and not done else 0.0
        return self.seconds


class Patience:
    """Seconds for which processes may be silent, from what their updates take."""

    def __init__(self, setting: float | Literal["auto"]) -> None:
        self._setting = setting
        self._longest: dict[str, float] = {}  # seconds of an update, by player
        self._news: list[str] = []

    def learned(self, player: str, seconds: float) -> None:
        """Note what an update has taken."""
        before = self.seconds([player])
        self._longest[player] = max(seconds, FADING * self._longest.get(player, 0.0))
        if self._setting != "auto" and self.seconds([player]) > max(before, self._setting):
            self._news.append(
                f"resources.patience_seconds is {self._setting:g}, and an update of {player} took "
                f"{seconds:.1f} s: its learner may be silent for {self.seconds([player]):.0f} s; raise it"
            )

    def late(self, players: Iterable[str]) -> float:
        """Return after which silence others play on without these players of a process."""
        return max(LATE_SECONDS, LATE_TIMES * self._of(players))

    def seconds(self, players: Iterable[str]) -> float:
        """Return after which silence the process of these players is ended."""
        if self._setting == "auto":
            return max(LEAST_SECONDS, TIMES * self._of(players))
        return max(self._setting, LEAST_TIMES * self._of(players))

    def first(self) -> float:
        """Return after which silence a process is ended that is at its first work."""
        return max(FIRST_SECONDS, self.seconds(()))

    def news(self) -> list[str]:
        """Return sentences about the setting since the last call."""
        news, self._news = self._news, []
        return news

    def _of(self, players: Iterable[str]) -> float:
        return max((self._longest.get(player, 0.0) for player in players), default=0.0)
