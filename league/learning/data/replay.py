"""Experience kept to be learned from again: a replay of whole episodes, of one player."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from league.episode import Episodes
from league.import_paths import import_path
from league.learning.settings import OwnReplay, Prioritised, Replaying
from storage.arrays import Floats, Floats32, Indices

SMALLEST = 1e-3  # error that the others are compared with, so that none is never drawn again
OF_LARGEST = 0.9  # weight of the largest error of an episode; the rest is of their mean


@dataclass(frozen=True, slots=True)
class Block:
    """Episodes that were added at once. Arrays are not copied: views of a shared store stay views."""

    episodes: Episodes
    error: Floats32  # [E], of each episode, by the newest weights that met it


class Drawn(NamedTuple):
    """Episodes of a replay, and the weight [E] of each in the loss."""

    episodes: Episodes
    weight: Floats32


class Replay:
    """Store of at most `capacity_steps` steps. All episodes are equally likely; the oldest blocks go first.

    One of your own derives from it. To change what is drawn, override `chances`; to change what is kept,
    `add` or `evict`. What it keeps beside the blocks, it adds to `state`, and takes back in `load`.
    """

    needs_errors: ClassVar[bool] = False  # True: `add` and `rate` get errors, for one more forward pass
    correction = 0.0  # power of 1 / chance that an episode's weight in the loss is; 0: all alike

    def __init__(self, capacity_steps: int) -> None:
        self.capacity_steps = capacity_steps
        self.blocks: deque[Block] = deque()  # the oldest first
        self.steps = 0
        self._evicted_steps = 0
        self._newest_version = 0
        self._drawn: list[tuple[int, Indices]] = []  # blocks of the last sample, and their rows

    def chances(self, block: Block) -> npt.NDArray | None:
        """Return the chance [E] of each episode of a block to be drawn, of any scale; `None`: all alike."""
        return None

    def add(self, episodes: Episodes, error: Floats32 | None = None) -> None:
        """Keep `episodes` and evict the oldest blocks; of more than the capacity, keep only the last."""
        if not episodes.num_steps:
            return
        error = np.ones(len(episodes), np.float32) if error is None else error
        self._newest_version = max(self._newest_version, int(episodes.version.max()))
        fitting = episodes.num_steps - episodes.offset[:-1] <= self.capacity_steps
        if not fitting.all():
            self._evicted_steps += episodes.num_steps
            episodes, error = episodes.take(np.flatnonzero(fitting)), error[fitting]
            self._evicted_steps -= episodes.num_steps
            if not episodes.num_steps:
                return
        self.blocks.append(Block(episodes, error))
        self.steps += episodes.num_steps
        self.evict()

    def evict(self) -> None:
        """Drop blocks until the steps fit, the oldest first."""
        while self.steps > self.capacity_steps:
            gone = self.blocks.popleft().episodes.num_steps
            self.steps -= gone
            self._evicted_steps += gone

    def sample(self, steps: int, rng: np.random.Generator) -> Drawn | None:
        """Draw whole episodes by their chances, none of them twice; `None` if there are none.

        They have `steps` steps or a few more; if there are fewer, all are returned.
        """
        kept = [block.episodes for block in self.blocks]
        length = np.concatenate([np.diff(episodes.offset) for episodes in kept] or [np.zeros(0, np.int64)])
        if not len(length) or steps < 1:
            return None
        chance = self._chances()
        if chance is None:
            order = rng.permutation(len(length))
        else:  # the largest of log p + Gumbel noise: a draw without replacement
            with np.errstate(divide="ignore"):
                order = np.argsort(-(np.log(chance) + rng.gumbel(size=len(chance))), kind="stable")
            order = order[: np.count_nonzero(chance)]
        enough = int(np.searchsorted(np.cumsum(length[order]), steps)) + 1
        chosen = np.sort(order[:enough])
        border = np.cumsum([0, *map(len, kept)])
        owner = np.searchsorted(border, chosen, side="right") - 1
        self._drawn = [(int(b), chosen[owner == b] - border[b]) for b in np.unique(owner)]
        weight = np.ones(len(chosen), np.float32)
        if chance is not None and self.correction:
            weight = (chance[chosen] ** -self.correction).astype(np.float32)
            weight /= weight.max()
        return Drawn(Episodes.concatenate([kept[b].take(rows) for b, rows in self._drawn]), weight)

    def _chances(self) -> Floats | None:
        """Return the chances of all episodes, whose mean is 1. Raise ValueError for those of no sense."""
        found = []
        for block in self.blocks:
            chance = self.chances(block)
            if chance is None:
                return None
            chance = np.asarray(chance, dtype=np.float64)
            if chance.shape != (len(block.episodes),) or not (np.isfinite(chance) & (chance >= 0)).all():
                raise ValueError(
                    f"chances returned shape {list(chance.shape)}, expected [{len(block.episodes)}], one "
                    "finite number of 0 or more for each episode"
                )
            found.append(chance)
        chance = np.concatenate(found)
        return chance / chance.mean() if chance.any() else None

    def rate(self, error: Floats32) -> None:
        """Note the errors [E] of the episodes that were drawn last, before any others are added."""
        for number, rows in self._drawn:
            self.blocks[number].error[rows], error = error[: len(rows)], error[len(rows) :]

    @property
    def nbytes(self) -> int:
        """The bytes of what `state` returns, about."""
        return sum(array.nbytes for block in self.blocks for array in block.episodes.arrays().values())

    def state(self) -> dict[str, npt.NDArray]:
        """Return all that is kept, as arrays of numbers by name; {} for nothing."""
        if not self.blocks:
            return {}
        beside = {
            "sizes": np.array([len(block.episodes) for block in self.blocks]),
            "counts": np.array([self._newest_version, self._evicted_steps]),
            "error": np.concatenate([block.error for block in self.blocks]),
        }
        return beside | Episodes.concatenate([block.episodes for block in self.blocks]).arrays()

    def load(self, player: str, state: Mapping[str, npt.NDArray]) -> None:
        """Put what `state` returned in the place of all that is kept."""
        self.forget()
        if not state:
            return
        columns = {field.name: state[field.name] for field in fields(Episodes) if field.name in state}
        episodes, ends = Episodes(player, **columns), np.cumsum(state["sizes"])
        error = state.get("error", np.ones(len(episodes), np.float32))  # older versions kept none
        for rows in np.split(np.arange(len(episodes)), ends[:-1]):
            self.blocks.append(Block(episodes.take(rows), error[rows]))
        self.steps = episodes.num_steps
        self._newest_version, self._evicted_steps = state["counts"].tolist()
        self.evict()

    def forget(self) -> None:
        """Drop everything. It does not count as evicted."""
        self.blocks.clear()
        self.steps, self._newest_version, self._drawn = 0, 0, []

    def metrics(self) -> dict[str, float]:
        """Return the fill by name, and the mean age of the steps in versions behind the newest weights."""
        behind = 0.0
        for episodes in (block.episodes for block in self.blocks):
            behind += float(((self._newest_version - episodes.version) * np.diff(episodes.offset)).sum())
        return {
            "replay_steps": float(self.steps),
            "replay_capacity_steps": float(self.capacity_steps),
            "replay_evicted_steps": float(self._evicted_steps),
            "replay_age_versions": behind / max(self.steps, 1),
        }


class ByError(Replay):
    """Prioritised experience replay (arXiv 1511.05952), of whole episodes as R2D2 has them.

    An episode is drawn with a chance of its error to the power `alpha`. Its weight in the loss is 1 / chance
    to the power `beta`, over the largest of a draw; fresh steps have 1.
    """

    needs_errors = True

    def __init__(self, capacity_steps: int, alpha: float, beta: float) -> None:
        super().__init__(capacity_steps)
        self.alpha, self.correction = alpha, beta

    def chances(self, block: Block) -> npt.NDArray:
        """Return the power of the errors."""
        return np.power(block.error + SMALLEST, self.alpha, dtype=np.float64)


def build_replay(settings: Replaying) -> Replay | None:
    """Return the replay of `settings`; `None` if nothing is learned from again. Raise ValueError."""
    if not settings.proportion:
        return None
    if isinstance(settings, OwnReplay):
        found = import_path(settings.use)
        if not (isinstance(found, type) and issubclass(found, Replay)):
            raise ValueError(f"expected a class that derives from league.extend.Replay, found {found!r}")
        return found(settings.capacity_steps, **settings.options)
    if isinstance(settings, Prioritised):
        return ByError(settings.capacity_steps, settings.alpha, settings.beta)
    return Replay(settings.capacity_steps)


def episode_errors(episodes: Episodes, error: npt.NDArray) -> Floats32:
    """Return the error [E] of each episode: of those [N] of its steps the largest and the mean (R2D2)."""
    size, first = np.abs(error), episodes.offset[:-1]
    mean = np.add.reduceat(size, first) / np.diff(episodes.offset)
    found = OF_LARGEST * np.maximum.reduceat(size, first) + (1.0 - OF_LARGEST) * mean
    return found.astype(np.float32)


def mix(fresh: Episodes, old: Drawn) -> tuple[Episodes, Floats32]:
    """Return all episodes of both, evenly interleaved, so that every minibatch has its part of each.

    With them the weight [E] of each in the loss.
    """
    place = []
    for episodes in (fresh, old.episodes):
        length = np.diff(episodes.offset)
        place.append((np.cumsum(length) - 0.5 * length) / episodes.num_steps)
    order = np.argsort(np.concatenate(place), kind="stable")
    weight = np.concatenate([np.ones(len(fresh), np.float32), old.weight])
    return Episodes.concatenate([fresh, old.episodes]).take(order), weight[order]
