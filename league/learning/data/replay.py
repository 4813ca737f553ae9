"""Experience kept to be learned from again: a replay of whole episodes, a ring of the newest minibatches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from league.episode import Episodes
from league.learning.data.batching import Batch


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """How full it is, and how old what it holds (means over steps; 0 when empty)."""

    steps: int
    capacity_steps: int
    evicted_steps: int  # since the beginning
    age_seconds: float
    age_versions: float  # behind the newest weights whose experience the player added

    def metrics(self) -> dict[str, float]:
        """By name, as they stand beside a learner's own; without the clock's, so that they repeat."""
        names = (field.name for field in fields(self) if field.name != "age_seconds")
        return {f"replay_{name}": float(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class _Block:
    """What was added at once. The arrays are as they came: views of a shared store stay that."""

    episodes: Episodes
    added_at: float  # seconds on the clock


class Replay:
    """At most `capacity_steps` steps. Whole blocks go out, oldest first, whoever's they are."""

    def __init__(self, capacity_steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        if capacity_steps < 1:
            raise ValueError(f"replay: capacity is {capacity_steps} steps, expected 1 or more")
        self.capacity_steps = capacity_steps
        self._clock = clock
        self._blocks: deque[_Block] = deque()
        self._steps = 0
        self._evicted_steps = 0
        self._newest_version: dict[str, int] = {}

    def add(self, player: str, episodes: Episodes) -> None:
        """Keep `episodes`, as long as there is room. Of more than fits at all, the last ones are kept."""
        if episodes.player != player:
            raise ValueError(f"replay: found episodes of '{episodes.player}', expected '{player}'")
        if not episodes.num_steps:
            return
        self._newest_version[player] = max(self._newest_version.get(player, 0), int(episodes.version.max()))
        fitting = episodes.num_steps - episodes.offset[:-1] <= self.capacity_steps
        if not fitting.all():
            self._evicted_steps += episodes.num_steps
            episodes = episodes.take(np.flatnonzero(fitting))
            self._evicted_steps -= episodes.num_steps
            if not episodes.num_steps:
                return
        self._blocks.append(_Block(episodes, self._clock()))
        self._steps += episodes.num_steps
        while self._steps > self.capacity_steps:
            gone = self._blocks.popleft().episodes.num_steps
            self._steps -= gone
            self._evicted_steps += gone

    def sample(self, player: str, steps: int, rng: np.random.Generator) -> Episodes | None:
        """Whole episodes of `player`, each as likely as any other and none twice: `steps` steps or a few
        more, or all there are if they are fewer; None if there are none.
        """
        blocks = [block.episodes for block in self._blocks if block.episodes.player == player]
        length = np.concatenate([np.diff(episodes.offset) for episodes in blocks] or [np.zeros(0, np.int64)])
        if not len(length) or steps < 1:
            return None
        order = rng.permutation(len(length))
        enough = int(np.searchsorted(np.cumsum(length[order]), steps)) + 1
        chosen = np.sort(order[:enough])
        border = np.cumsum([0, *(len(episodes) for episodes in blocks)])
        owner = np.searchsorted(border, chosen, side="right") - 1
        return Episodes.concatenate(
            [blocks[b].take(chosen[owner == b] - border[b]) for b in np.unique(owner)]
        )

    def forget(self, player: str) -> None:
        """Let go of all that is `player`'s. Not counted as evicted."""
        kept = [block for block in self._blocks if block.episodes.player != player]
        self._blocks = deque(kept)
        self._steps = sum(block.episodes.num_steps for block in kept)
        self._newest_version.pop(player, None)

    def info(self) -> ReplayInfo:
        now = self._clock()
        seconds = versions = 0.0
        for block in self._blocks:
            episodes = block.episodes
            seconds += (now - block.added_at) * episodes.num_steps
            behind = self._newest_version[episodes.player] - episodes.version
            versions += float((behind * np.diff(episodes.offset)).sum())
        steps = max(self._steps, 1)
        return ReplayInfo(
            self._steps, self.capacity_steps, self._evicted_steps, seconds / steps, versions / steps
        )


def mix(fresh: Episodes, replayed: Episodes) -> Episodes:
    """All of both, spread evenly among each other, so that every minibatch has its part of each."""
    place = []
    for episodes in (fresh, replayed):
        length = np.diff(episodes.offset)
        place.append((np.cumsum(length) - 0.5 * length) / episodes.num_steps)
    order = np.argsort(np.concatenate(place), kind="stable")
    return Episodes.concatenate([fresh, replayed]).take(order)


class Ring:
    """The newest `batches` minibatches, each of them learned from `passes` times while it is there.

    A pass over each new one, then over others at even distances in age; so nothing waits for the
    ring to fill, and the passes over one minibatch are as far apart as can be.
    """

    def __init__(self, batches: int, passes: int) -> None:
        self._ages = [turn * batches // passes for turn in range(passes)]
        self._kept: deque[Batch] = deque(maxlen=self._ages[-1] + 1)

    def turn(self, batch: Batch) -> list[Batch]:
        """Take in a minibatch; those to learn from now."""
        self._kept.appendleft(batch)
        due = [self._kept[age] for age in self._ages if age < len(self._kept)]
        if self._kept.maxlen == 1:
            self._kept.clear()
        return due

    def clear(self) -> None:
        self._kept.clear()
