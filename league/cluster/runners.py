"""Runners as the nodes of a cluster come and go.

a node joins           runners that wait for a place begin there: Ray starts them, as they are asked for
a node is to leave     its runners get no more requests. When those that they have are played, they end,
and begin again where there is room
a shard needs a place  runners that have not begun are taken back, as many others as it takes end as
above, and none begins until the shard has its place
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from league.cluster.answers import Watch
from league.cluster.fitness import Trial, fitness
from league.cluster.nodes import NodeWatch, Room, Seen, ShardMoves
from league.cluster.placement import Amounts


class ComingAndGoing(ABC):
    """The part of a group of runners that follows the nodes. Runners have numbers, which they keep."""

    _ray: Any
    _kind: str
    _actors: list[Any]
    _load: list[int]  # requests of each
    _nodes: list[str]  # host of each
    _of_runner: Amounts
    _starting: set[int]  # those that have not begun
    _answers: dict[Any, int]

    def __init__(self, num_runners: int, watch: Watch) -> None:
        self._watch = watch
        self._at = [""] * num_runners  # id of the node of each
        self._leaving: set[int] = set()  # those that get no more requests
        self._held: set[int] | None = None  # those that begin when shards have their places
        self._began: Counter[str] = Counter()  # since the last look, by node
        self._seen = Seen()  # at the last look

    @abstractmethod
    def _start(self, runner: int) -> Any:
        """Start the runner's actor, and return it."""

    @abstractmethod
    def _try_node(self, node_id: str) -> Trial:
        """Begin a runner on an unfit node, of which nothing is asked."""

    def follow(self, seen: Seen, room: Room, *, hold: bool) -> list[str]:
        """Follow the nodes; return what has happened, a sentence each.

        `room` that shards lack is made by ending runners; what cannot be made here is left in it. With
        `hold` no runner begins.
        """
        self._seen = seen
        lines = self._sentences_of_begun(seen)
        if fit_again := fitness.try_again(seen, self._ray, self._try_node):
            lines += fit_again
            for runner in list(self._starting - (self._held or set())):
                self.part(runner)  # those that wait for room avoid the nodes
        for node_id in seen.leaving:
            going = [i for i in self._on(node_id) if i not in self._leaving]
            self._leaving.update(going)
            if going:
                lines.append(
                    f"node {seen.name(node_id)} is about to leave: {self._counted(len(going))} there finish "
                    "what they play and end"
                )
        if hold and self._held is None:
            self._held = set()
            for runner in list(self._starting):  # those that have not begun: they would take shards' places
                self.part(runner)
        elif not hold and self._held is not None:
            held, self._held = self._held, None
            for runner in held:
                self._begin_again(runner)
        for node_id, lacks in room.items():
            ended = self._make_room(node_id, lacks)
            if ended:
                lines.append(
                    f"{self._counted(ended)} of node {seen.name(node_id)} end to make room for learners"
                )
        return lines

    def parting(self) -> list[int]:
        """Return the runners that are to end and have nothing left to play."""
        return [runner for runner in self._leaving if not self._load[runner]]

    def part(self, runner: int) -> None:
        """End a runner; it begins again where there is room."""
        with contextlib.suppress(Exception):  # it may be unreachable, and not dead
            self._ray.kill(self._actors[runner])
        self._answers = {r: number for r, number in self._answers.items() if number != runner}
        self._begin_again(runner)

    def _begin_again(self, runner: int) -> None:
        """Start the runner again, now or when shards have their places."""
        self._leaving.discard(runner)
        self._watch.forget(runner)
        self._nodes[runner] = self._at[runner] = ""
        self._starting.add(runner)
        if self._held is None:
            self._actors[runner] = self._start(runner)
        else:
            self._held.add(runner)

    def _note_place(self, runner: int, place: str) -> None:
        """Note "host/node id" of a runner that has begun."""
        self._nodes[runner], _, self._at[runner] = place.partition("/")
        fitness.lives(self._at[runner])
        if runner in self._starting:
            self._began[self._at[runner]] += 1

    def _node(self, runner: int) -> str:
        """Return the name of the node that a runner is on, as far as it is known."""
        known = self._at[runner] in self._seen.nodes
        return self._seen.name(self._at[runner]) if known else self._nodes[runner]

    def _on(self, node_id: str) -> list[int]:
        return [i for i, at in enumerate(self._at) if at == node_id]

    def _make_room(self, node_id: str, lacks: dict[str, float]) -> int:
        """End as many runners of a node as free what is lacking; return how many more than before."""
        mine = self._on(node_id)
        going = [i for i in mine if i in self._leaving]
        more = [i for i in reversed(mine) if i not in self._leaving]
        before = len(going)
        for kind, amount in self._of_runner.items():
            lacks[kind] = lacks.get(kind, 0.0) - amount * len(going)
        while more and any(n > 1e-9 and self._of_runner.get(kind) for kind, n in lacks.items()):
            going.append(more.pop(0))
            for kind, amount in self._of_runner.items():
                lacks[kind] = lacks.get(kind, 0.0) - amount
        self._leaving.update(going)
        return len(going) - before

    def _sentences_of_begun(self, seen: Seen) -> list[str]:
        begun, self._began = self._began, Counter()
        playing = len(self._actors) - len(self._starting)
        return [
            f"{self._counted(n)} began on node {seen.name(node_id)}; {playing} of {len(self._actors)} play"
            for node_id, n in begun.items()
        ]

    def _counted(self, n: int) -> str:
        return f"{n} {self._kind.replace('_', ' ')}{'' if n == 1 else 's'}"


class Elastic:
    """All groups of a run."""

    def __init__(
        self, watch: NodeWatch, move_shards: Callable[[Seen], ShardMoves], groups: Sequence[ComingAndGoing]
    ) -> None:
        """Follow nodes by `watch`. `move_shards` moves those whose nodes are gone or about to leave.

        Where a shard needs room, runners of the first of `groups` end first.
        """
        self.waiting = False  # whether a shard has no place
        self._watch, self._move_shards, self._groups = watch, move_shards, groups
        self._seen: Seen | None = None
        self._holding = False

    def follow(self) -> list[str]:
        """Follow the nodes if they were looked at since the last call; return what happened, in sentences."""
        seen = self._watch.newest()
        if seen is None or seen is self._seen:
            return []
        self._seen = seen
        room, self.waiting, lines = self._move_shards(seen)
        self._holding = self.waiting and (self._holding or bool(room))
        for group in self._groups:
            lines += group.follow(seen, room, hold=self._holding)
        return lines
