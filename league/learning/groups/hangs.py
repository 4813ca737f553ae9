"""Hangs among learners on Ray: each look at the shards, and the end of what has been silent for too long."""

from __future__ import annotations

from collections.abc import Callable

from league.cluster.calls import Death, has_process
from league.learning.groups.replacement import PEER_SECONDS, Replacing
from league.learning.groups.shard_actors import ShardActors
from league.learning.groups.silence import LOOK_SECONDS, Patience


class Hanging(Replacing):
    """Shards of actors, and what is done when one of these does not answer."""

    _patience: Patience
    _clock: Callable[[], float]

    def __init__(self, num_shards: int) -> None:
        super().__init__(num_shards)
        self._looked = self._clock()

    def _look_for_hangs(self) -> None:
        """End processes that have been silent for too long; to be called at any time."""
        seconds = self._clock() - self._looked
        if seconds < LOOK_SECONDS:
            return
        self._looked += seconds
        for index, shard in enumerate(self._shards):
            if index not in self._given_up:
                self._end_if_silent(index, shard, min(seconds, 2 * LOOK_SECONDS))

    def _end_if_silent(self, index: int, shard: ShardActors, seconds: float) -> None:
        """End what hangs of a shard, the aggregators first: its learners may wait for them."""
        players, gathered = self._plan[index].players, False
        for aggregator, silence in zip(shard.aggregators, shard.silences, strict=True):
            silent, actor = silence.look(seconds), aggregator._actor_id.hex()
            patience = self._patience.seconds(()) if silence.answered else self._patience.first()
            if silent > patience and actor not in self._hung:  # its blocks fail, and it is replaced with that
                self._hung[actor], gathered = _silent_for(silent), True
                self._ray.kill(aggregator)
        silent, learning = shard.silence.look(seconds), self._learning(index)
        fresh = shard.built or not learning <= shard.updated
        patience = self._patience.first() if fresh else self._patience.seconds(players)
        if shard.aggregators:  # the end of one of them is to be known first
            patience += PEER_SECONDS
        if silent <= patience or gathered:
            return
        if shard.built and not all(has_process(self._ray, process) for process in shard.processes):
            shard.silence.seconds = 0.0  # one waits for a node, which may take long
        else:
            self._replace(index, Death("process", _silent_for(silent)))

    def _learning(self, index: int) -> set[str]:
        """Return the players of the blocks that are under way to a shard."""
        return {pending.block.player for pending in self._pending.values() if pending.shard == index}

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


def _silent_for(seconds: float) -> str:
    return f"did not answer for {seconds:.0f} s"
