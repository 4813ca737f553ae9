"""Groups of runners and learners that follow the nodes of their cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from league.cluster.nodes import Seen
from league.cluster.runners import Room


class Moves(NamedTuple):
    """What shards have done about nodes that left or are about to leave."""

    room: Room  # that they lack for a place that they could have, on each node
    waiting: bool  # whether a shard has no place
    lines: list[str]  # what happened, a sentence each


class Runners(Protocol):
    """Runners of one kind."""

    def follow(self, seen: Seen, room: Room, *, hold: bool) -> list[str]:
        """Follow the nodes; see `league.cluster.runners`."""


class Learners(Protocol):
    """All shards."""

    def follow(self, seen: Seen) -> Moves:
        """Move shards whose nodes are gone or about to leave."""


class Watching(Protocol):
    """Where the nodes are seen."""

    def newest(self) -> Seen | None:
        """Return what was seen last, at once."""


class Elastic:
    """All groups of a run."""

    def __init__(self, watch: Watching, learners: Learners, groups: Sequence[Runners]) -> None:
        """Follow nodes by `watch`. Where a shard needs room, runners of the first of `groups` end first."""
        self.waiting = False  # whether a shard has no place
        self._watch, self._learners, self._groups = watch, learners, groups
        self._seen: Seen | None = None
        self._holding = False

    def follow(self) -> list[str]:
        """Follow the nodes if they were looked at since the last call; return what happened, in sentences."""
        seen = self._watch.newest()
        if seen is None or seen is self._seen:
            return []
        self._seen = seen
        room, self.waiting, lines = self._learners.follow(seen)
        self._holding = self.waiting and (self._holding or bool(room))
        for group in self._groups:
            lines += group.follow(seen, room, hold=self._holding)
        return lines
