"""Copies of learners' states, off the nodes where they learn, from which they go on when a process dies.

A copy is in the memory of the driver, which outlives every other node. Each state that is taken to be saved
is one. Between saves one more is asked for every `seconds`. They are taken in when they arrive, without a
wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from league.learning.groups.shard_learners import Counters
from league.learning.learner.learner import LearnerState


class Copy(NamedTuple):
    """State of a player's learner, and the time when it was taken, by the monotonic clock."""

    state: LearnerState
    taken: float

    @property
    def age(self) -> float:
        """Seconds since it was taken."""
        return time.monotonic() - self.taken


class First(NamedTuple):
    """What a learner began with, of which there is no copy yet."""

    weights: Any = None  # reference; None: those that its seed gives
    counters: Counters = Counters()


class Copies:
    """Newest copy of the state of each player, and what the learner has reported last."""

    def __init__(self, ray: Any, seconds: float | None) -> None:
        """`ray`: the module; `seconds` between copies, beside those that are saved; `None`: no others."""
        self.newest: dict[str, Copy] = {}
        self.first: dict[str, First] = {}
        self.counters: dict[str, Counters] = {}
        self._ray = ray
        self._seconds = seconds
        self.soon: dict[str, Any] = {}  # references to states that something looks for in each turn
        self._coming: dict[Any, tuple[str, bool]] = {}  # references to states: the player, whether to save it
        self._arrived: dict[str, LearnerState] = {}  # that are to be saved
        self._asked: dict[str, float] = {}  # when a copy was asked for last

    def keep(self, player: str, state: LearnerState) -> None:
        """Keep a state that was just taken."""
        self.newest[player] = Copy(state, time.monotonic())
        self.counters[player] = Counters(state.updates, state.env_steps)

    def begin(self, player: str, first: First) -> None:
        """Forget what was copied of a player that has begun again."""
        self.forget(player)
        self.first[player], self.counters[player] = first, first.counters

    def known(self, player: str) -> Counters:
        """Return the highest counters that are known of a player's learner."""
        began = self.first.get(player, First()).counters
        return max(self.counters.get(player, began), began)

    def forget_coming(self, players: Iterable[str]) -> None:
        """Ignore states of these players that were asked for: they are old, or the learner is gone."""
        gone = set(players)
        self._coming = {r: coming for r, coming in self._coming.items() if coming[0] not in gone}
        for player in gone:
            self.soon.pop(player, None)
            self._arrived.pop(player, None)

    def forget(self, player: str) -> None:
        """Forget a player that was removed."""
        self.forget_coming([player])
        self.newest.pop(player, None)
        self.first.pop(player, None)
        self.counters.pop(player, None)
        self._asked.pop(player, None)

    def refresh(self, players: Iterable[str], ask: Callable[[str], Any]) -> None:
        """Take in copies that have arrived, and ask for those that are due; `ask` returns a reference."""
        self._take()
        if self._seconds is None:
            return
        now, coming = time.monotonic(), {player for player, _ in self._coming.values()}
        for player in players:
            taken = self.newest[player].taken if player in self.newest else 0.0
            last = max(self._asked.setdefault(player, now), taken)
            if player not in coming and now - last >= self._seconds:
                self._asked[player] = now
                self._coming[ask(player)] = player, False

    def save(self, player: str, ask: Callable[[str], Any]) -> None:
        """Ask for a state that is to be saved, unless one is on its way."""
        if (player, True) not in self._coming.values():
            self._coming[ask(player)] = player, True

    def arrived(self) -> dict[str, LearnerState]:
        """Return the states to be saved that have come since the last call."""
        self._take()
        arrived, self._arrived = self._arrived, {}
        return arrived

    def _take(self) -> None:
        """Take in what has arrived."""
        if not self._coming:
            return
        done, _ = self._ray.wait(list(self._coming), num_returns=len(self._coming), timeout=0)
        for reference in done:
            player, to_save = self._coming.pop(reference)
            try:
                state: LearnerState = self._ray.get(reference)
            except self._ray.exceptions.RayError:  # what waits for a result of that process finds its death
                continue
            if player not in self.newest or state.updates >= self.newest[player].state.updates:
                self.newest[player] = Copy(state, time.monotonic())
            if to_save:
                self._arrived[player] = state
