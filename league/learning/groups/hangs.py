"""Hangs among learners on Ray: each look at the shards, and the end of what has been silent for too long.

Only answers count as work (`league.cluster.answers`). A process that works is known by what its updates took:

    silent for LATE_SECONDS, or LATE_TIMES its longest update    others play on without its players
    silent for the patience: `resources.patience_seconds`        it is ended and made again

A process that builds its learners, or has made no update of a player that it learns for, gets FIRST_SECONDS:
imports and first calls of a GPU take long once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from league.cluster.answers import Looks, Setting, Times, allowed
from league.cluster.calls import Death, has_process
from league.learning.groups.replacement import PEER_SECONDS, Replacing
from league.learning.groups.shard_actors import ShardActors
from storage.incidents import SILENT

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


class Hanging(Replacing):
    """Shards of actors, and what is done when one of these does not answer."""

    _patience: Patience
    _clock: Callable[[], float]

    def __init__(self, num_shards: int) -> None:
        super().__init__(num_shards)
        self._looks = Looks(self._clock)

    def _look_for_hangs(self) -> None:
        """End processes that have been silent for too long; to be called at any time."""
        passed = self._looks.passed()
        for index, shard in enumerate(self._shards if passed else ()):
            if index not in self._given_up:
                self._end_if_silent(index, shard, passed)

    def _end_if_silent(self, index: int, shard: ShardActors, seconds: float) -> None:
        """End what hangs of a shard, the aggregators first: its learners may wait for them."""
        players, waits = self._plan[index].players, False
        for aggregator, silence in zip(shard.aggregators, shard.silences, strict=True):
            silent, actor = silence.look(seconds), aggregator._actor_id.hex()
            patience = self._patience.seconds(()) if silence.answered else self._patience.first()
            if silent > patience and actor not in self._hung:  # its blocks fail, and it is replaced with that
                self._hung[actor], waits = f"{SILENT} for {silent:.0f} s", True
                self._ray.kill(aggregator)
            waits |= silent > 0.0 and actor not in self._hung  # such as one that is just being started
        silent = shard.silence.look(seconds)
        learning = {self._pending[reference].block.player for reference in self._under_way(index)}
        fresh = shard.built or not learning <= shard.updated
        patience = self._patience.first() if fresh else self._patience.seconds(players)
        if shard.aggregators:  # the end of one of them is to be known first
            patience += PEER_SECONDS
        if silent <= patience or waits:
            return
        if shard.built and not all(has_process(self._ray, process) for process in shard.processes):
            shard.silence.seconds = 0.0  # one waits for a node, which may take long
        else:
            self._replace(index, Death("process", f"{SILENT} for {silent:.0f} s"))

    def away(self) -> tuple[str, ...]:
        """Return the players whose learner died and is not back yet, or has been silent for long."""
        late = [
            player
            for index, shard in enumerate(self._shards)
            if self._is_late(index, shard)
            for player in self._plan[index].players
        ]
        return tuple(dict.fromkeys([*super().away(), *late]))

    def _is_late(self, index: int, shard: ShardActors) -> bool:
        return shard.silence.seconds > self._patience.late(self._plan[index].players)

    def news(self) -> list[str]:
        """Return sentences since the last call that are of no loss."""
        return self._patience.news()
