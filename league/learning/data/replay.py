"""Experience kept to be learned from again: a replay of whole episodes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from league.episode import Episodes


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """Fill of a replay, and age of its experience (means over steps; 0 when empty)."""

    steps: int
    capacity_steps: int
    evicted_steps: int  # since the beginning
    age_seconds: float
    age_versions: float  # behind the newest weights whose experience the player added

    def metrics(self) -> dict[str, float]:
        """Return the figures by name, for a learner's report; without `age_seconds`, to be repeatable."""
        names = (field.name for field in fields(self) if field.name != "age_seconds")
        return {f"replay_{name}": float(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class _Block:
    """Episodes that were added at once. Arrays are not copied: views of a shared store stay views."""

    episodes: Episodes
    number: int  # of the block among all of the store
    added_at: float  # seconds on the clock


class Replay:
    """Store of at most `capacity_steps` steps. Whole blocks are evicted, the oldest of all players first."""

    def __init__(self, capacity_steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.capacity_steps = capacity_steps
        self._clock = clock
        self._blocks: deque[_Block] = deque()  # in order of their numbers
        self._added = 0  # blocks since the beginning
        self._steps = 0
        self._evicted_steps = 0
        self._newest_version: dict[str, int] = {}

    def add(self, player: str, episodes: Episodes) -> None:
        """Keep `episodes` and evict the oldest blocks; of more than the capacity, keep only the last.

        Raise ValueError for episodes of another player.
        """
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
        self._added += 1
        self._blocks.append(_Block(episodes, self._added, self._clock()))
        self._steps += episodes.num_steps
        self._evict()

    def _evict(self) -> None:
        while self._steps > self.capacity_steps:
            gone = self._blocks.popleft().episodes.num_steps
            self._steps -= gone
            self._evicted_steps += gone

    def sample(self, player: str, steps: int, rng: np.random.Generator) -> Episodes | None:
        """Draw whole episodes of `player`, all equally likely and none twice; None if there are none.

        They have `steps` steps or a few more; if there are fewer, all are returned.
        """
        blocks = [block.episodes for block in self._of(player)]
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

    def _of(self, player: str) -> list[_Block]:
        return [block for block in self._blocks if block.episodes.player == player]

    def nbytes(self, player: str) -> int:
        """Return the bytes of the episodes of `player`."""
        arrays = (array for block in self._of(player) for array in block.episodes.arrays().values())
        return sum(array.nbytes for array in arrays)

    def state(self, player: str) -> dict[str, npt.NDArray]:
        """Return all episodes of `player`, and their place in the store, as arrays by name; {} for none."""
        blocks = self._of(player)
        if not blocks:
            return {}
        places = {
            "numbers": np.array([block.number for block in blocks]),
            "sizes": np.array([len(block.episodes) for block in blocks]),
            "counts": np.array([self._newest_version[player], self._evicted_steps]),
        }
        return places | Episodes.concatenate([block.episodes for block in blocks]).arrays()

    def load(self, player: str, state: Mapping[str, npt.NDArray]) -> None:
        """Put what `state` returned in place of the player's episodes, in order with those of others."""
        self.forget(player)
        if not state:
            return
        columns = {name: array for name, array in state.items() if name not in ("numbers", "sizes", "counts")}
        episodes, ends = Episodes(player, **columns), np.cumsum(state["sizes"])
        rows = np.split(np.arange(len(episodes)), ends[:-1])
        numbers, now = state["numbers"].tolist(), self._clock()
        mine = [_Block(episodes.take(own), n, now) for own, n in zip(rows, numbers, strict=True)]
        self._blocks = deque(sorted([*self._blocks, *mine], key=lambda block: block.number))
        self._added = max(self._added, *numbers)
        self._steps += episodes.num_steps
        newest, evicted = state["counts"].tolist()
        self._newest_version[player], self._evicted_steps = newest, max(self._evicted_steps, evicted)
        self._evict()

    def forget(self, player: str) -> None:
        """Drop all episodes of `player`. They do not count as evicted."""
        kept = [block for block in self._blocks if block.episodes.player != player]
        self._blocks = deque(kept)
        self._steps = sum(block.episodes.num_steps for block in kept)
        self._newest_version.pop(player, None)

    def info(self) -> ReplayInfo:
        """Return the fill and the ages."""
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
    """Return all episodes of both, evenly interleaved, so that every minibatch has its part of each."""
    place = []
    for episodes in (fresh, replayed):
        length = np.diff(episodes.offset)
        place.append((np.cumsum(length) - 0.5 * length) / episodes.num_steps)
    order = np.argsort(np.concatenate(place), kind="stable")
    return Episodes.concatenate([fresh, replayed]).take(order)
