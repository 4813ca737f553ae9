"""From `Episodes` (flat arrays) to `Batch` (tensors): minibatches of whole sequences.

Steps stay flat: the network sees N rows and no padding. Only the scalars that V-trace recurses
over are laid out as [T, B]; `Batch.rows` is the row of each of those steps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.episode import Episodes, ranges
from league.learning.data.frames import Frames, stacked
from league.learning.data.peers import ALONE, Peers, shard_episodes
from league.learning.maths.advantages import GAE, normalised
from league.models.networks.memory import Packed
from league.models.sending import PINNED_BYTES, sent
from storage.errors import Mistake

Item = TypeVar("Item")
OWN = "own."  # before the names of columns that learner connectors made
WEIGHT = "replay_weight"  # the column of the weights of steps that a replay draws unevenly


@dataclass(frozen=True, slots=True)
class Batch:
    """One minibatch: B sequences of at most T steps, N steps in all, K of them truncated."""

    observation: Tensor  # [N + K, *shape]; the last K rows follow truncated sequences
    mask: Tensor  # [N, mask_width] bool
    action: Tensor  # [N, *action.shape], as it was drawn
    log_prob: Tensor  # [N] float32, of the policy that acted
    reward: Tensor  # [N] float32
    rows: Tensor  # [T, B] int64, a step's row among the N; padding is row N
    after: Tensor  # [T, B] int64, row of the following observation; N + K: no such row
    memory: Tensor  # [B, S] float32, the network's memory at the first step of each sequence
    lag_versions: Tensor  # [N] int64, version of the weights that acted
    total_steps: int  # of the whole minibatch: more than N where it has parts, or is shared among peers
    own: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)  # [N, ...], of learner connectors
    packed: Packed | None = field(default=None, kw_only=True)  # of `layout`, if the host knows it
    # [N + K, F] int64, of the frames of each observation, while `observation` has frames; None: it is whole
    places: Tensor | None = field(default=None, kw_only=True)
    closes: bool = field(default=True, kw_only=True)  # whether it is the last part of its minibatch

    @property
    def num_steps(self) -> int:
        """N, the number of steps."""
        return len(self.action)

    @property
    def layout(self) -> Tensor:
        """[T + 1, B] int64: rows of each sequence's observations in order of time; N + K: no such row."""
        layout = torch.cat([self.rows[:1], self.after])
        return layout if self.packed is None else self.packed.brought_by(layout)

    def tensors(self) -> dict[str, Tensor]:
        """Return all fields that are tensors, by name; those of learner connectors as "own.<name>"."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        named = {name: value for name, value in found.items() if isinstance(value, Tensor)}
        return named | {f"{OWN}{name}": value for name, value in self.own.items()}

    def with_tensors(self, tensors: dict[str, Tensor]) -> Self:
        """Return the same batch with these tensors, which must be all."""
        own = {name: tensors[f"{OWN}{name}"] for name in self.own}
        fixed = {name: tensor for name, tensor in tensors.items() if not name.startswith(OWN)}
        return type(self)(
            **fixed, total_steps=self.total_steps, own=own, packed=self.packed, closes=self.closes
        )

    def to(self, device: torch.device) -> Self:
        """Return the same batch on `device`, copied as one."""
        if device.type == "cpu":
            return self
        here, packed = self.tensors(), self.packed
        if self.memory.shape[1] and self.rows.device.type == "cpu":
            packed = Packed.of(self.layout, len(self.observation if self.places is None else self.places))
        moved = sent(here if packed is None else here | packed.tensors(), device)
        batch = self.with_tensors({name: moved[name] for name in here})
        if batch.places is not None:
            batch = replace(batch, observation=stacked(batch.observation, batch.places), places=None)
        return batch if packed is None else replace(batch, packed=packed.with_tensors(moved))


@dataclass(frozen=True, slots=True)
class TargetedBatch(Batch):
    """Minibatch whose advantages and value targets are computed already."""

    advantage: Tensor  # [N] float32, as the policy loss takes it
    value_target: Tensor  # [N] float32


@dataclass(frozen=True, slots=True)
class ReadyBatch:
    """Tensors that a program brings for a loss of its own: N rows each, under names of its own."""

    columns: Mapping[str, Tensor]  # [N, ...] each
    total_steps: int  # rows of the whole batch: more than N where it has parts, or is shared among peers
    closes: bool = True  # whether it is the last part of its batch

    @property
    def num_steps(self) -> int:
        """N, the number of rows."""
        return len(next(iter(self.columns.values())))

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        return dict(self.columns)


def ready_batch(
    given: Mapping[str, Tensor | npt.NDArray],
    device: torch.device,
    peers: Peers = ALONE,
    part_steps: int | None = None,
) -> list[ReadyBatch]:
    """Return this peer's rows of `given`, [N, ...] each by name, on `device`, in parts of `part_steps` rows.

    Raise Mistake if it is empty, or if the numbers of rows differ.
    """
    if not given:
        raise Mistake("batch: found no tensors, expected one or more by name")
    columns = {}
    for name, values in given.items():
        if not isinstance(values, Tensor | np.ndarray) or values.ndim == 0:
            raise Mistake(f"batch: found '{name}' {values!r}, expected a tensor or an array of rows [N, ...]")
        columns[name] = tensor_of(values) if isinstance(values, np.ndarray) else values
    rows = {name: len(column) for name, column in columns.items()}
    first, total = next(iter(rows.items()))
    for name, count in rows.items():
        if count != total:
            raise Mistake(
                f"batch: '{name}' has {count} rows, '{first}' has {total}, expected as many in each"
            )
    share = slice(peers.rank, None, peers.size)
    own = {name: column[share].to(device) for name, column in columns.items()}
    parts = zip(*(column.split(part_steps or max(1, total)) for column in own.values()), strict=True)
    cut_up = [dict(zip(own, part, strict=True)) for part in parts]
    return [ReadyBatch(part, total, i == len(cut_up)) for i, part in enumerate(cut_up, 1)]


@dataclass(frozen=True, slots=True)
class Sequences:
    """Episodes cut at some length: S sequences, in order of their episodes, then of time."""

    start: npt.NDArray[np.int64]  # [S], first step
    length: npt.NDArray[np.int64]  # [S]
    following: npt.NDArray[np.int64]  # [S]; a step, N + k for the k-th bootstrap, or -1: terminated
    episode: npt.NDArray[np.int64]  # [S]
    part: npt.NDArray[np.int64]  # [S], 0 for the first of its episode
    final: npt.NDArray[np.bool_]  # [S], True for the last of its episode

    def __len__(self) -> int:
        return len(self.start)


def cut(episodes: Episodes, limit: int) -> Sequences:
    """Cut episodes longer than `limit` into several sequences; each but the last is truncated."""
    total = np.diff(episodes.offset)
    last = np.full(len(episodes), -1, dtype=np.int64)
    last[~episodes.terminated] = episodes.num_steps + np.arange(np.count_nonzero(~episodes.terminated))
    number = np.arange(len(total))
    if not len(total) or total.max() <= limit:
        whole = np.ones(len(total), dtype=np.bool_)
        return Sequences(episodes.offset[:-1], total, last, number, np.zeros_like(number), whole)
    parts = -(-total // limit)
    episode = np.repeat(number, parts)
    part = np.arange(len(episode)) - np.repeat(np.cumsum(parts) - parts, parts)
    start = episodes.offset[:-1][episode] + part * limit
    length = np.minimum(limit, total[episode] - part * limit)
    final = part == parts[episode] - 1
    return Sequences(start, length, np.where(final, last[episode], start + length), episode, part, final)


def minibatches(
    episodes: Episodes,
    steps: int,
    sequence_length: int,
    rng: np.random.Generator | None = None,
    *,
    memory: npt.NDArray[np.float32] | None = None,
    targets: GAE | None = None,
    peers: Peers = ALONE,
    own: Mapping[str, npt.NDArray] | None = None,
    part_steps: int | None = None,
    normalises: bool = False,
    pinned: bool = False,
    num_frames: int = 1,
) -> Iterator[Batch]:
    """Cut `episodes` into batches of about `steps` steps, in order, or shuffled by whole sequence.

    Episodes longer than `sequence_length` become several sequences; each but the last is
    truncated there, with the observation that follows as its bootstrap. `memory` [S, size]: the network's
    memory at the first step of each. With `targets` the batches are `TargetedBatch`es; `normalises`: their
    advantages have mean 0 and deviation 1 over each batch. `own`: further columns [N, ...] by name. Of each
    batch only this peer's share is made, which may have no steps; it comes in equal parts of at most about
    `part_steps` steps. `pinned`: large observations are gathered where a GPU copies them from. Those made of
    `num_frames`, more than 1, come as frames, which `Batch.to` puts together.
    """
    sequences = cut(episodes, sequence_length)
    if memory is None:
        memory = np.zeros((len(sequences), 0), dtype=np.float32)
    order = np.arange(len(sequences)) if rng is None else rng.permutation(len(sequences))
    frames = Frames(episodes, num_frames) if num_frames > 1 else None
    given = targets
    if given is not None and normalises:
        targets = GAE(np.empty_like(given.advantage), given.value_target)
    for chosen in groups(sequences.length[order], steps):
        mine = order[chosen]
        total = int(sequences.length[mine].sum())
        if given is not None and targets is not None and normalises:  # of all peers and parts together
            rows = ranges(sequences.start[mine], sequences.length[mine])
            targets.advantage[rows] = normalised(torch.from_numpy(given.advantage[rows])).numpy()
        if peers.size > 1:
            mine = mine[shard_episodes(sequences.length[mine], peers.size)[peers.rank]]
        parts = [mine]
        if part_steps is not None and len(mine):
            length = sequences.length[mine]
            number = -(-int(length.sum()) // part_steps)
            parts = [mine[part] for part in groups(length, length.sum() / number)]
        for part in parts:
            closes = part is parts[-1]
            yield _batch(
                episodes, sequences, part, memory[part], targets, total, own or {}, closes, pinned, frames
            )


def groups(length: npt.NDArray[np.int64], steps: float) -> list[npt.NDArray[np.int64]]:
    """Return indices of neighbouring sequences, in groups of about `steps` steps, none of them empty."""
    if not len(length):
        return []
    ends = np.cumsum(length)
    count = max(1, round(ends[-1] / steps))
    cuts = np.searchsorted(ends, np.arange(1, count) * (ends[-1] / count)) + 1
    return [group for group in np.split(np.arange(len(length)), cuts) if len(group)]


def lay_out(length: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows [T, B] of the steps of B sequences, one behind the other; padding is their sum."""
    first = np.cumsum(length) - length
    time = np.arange(length.max(initial=0))[:, None]
    return np.where(time < length, first + time, length.sum())


def observed(episodes: Episodes, rows: npt.NDArray[np.int64]) -> npt.NDArray:
    """Return the observations of these rows: steps, or N + k for the k-th bootstrap."""
    inside = rows < episodes.num_steps
    if inside.all():
        return episodes.observation[rows]
    found = np.empty((len(rows), *episodes.observation.shape[1:]), dtype=episodes.observation.dtype)
    found[inside] = episodes.observation[rows[inside]]
    found[~inside] = episodes.bootstrap[rows[~inside] - episodes.num_steps]
    return found


def tensor_of(array: npt.NDArray) -> Tensor:
    """Return `array` as a tensor. Arrays of an object store are read-only, which torch refuses: copy them."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def preload(batches: Iterable[Batch], device: torch.device, depth: int = 1) -> Generator[Batch]:
    """Yield the same batches on `device`, `depth` of them made and copied ahead; on the CPU as they come.

    So a thread makes the next minibatches, and they travel, while the network learns from this one. That
    thread alone waits for the GPU, if it is `depth` minibatches behind: else all would be on it at once.
    """
    if device.type != "cuda":
        yield from batches
        return
    copying, learning = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    learned: deque[torch.cuda.Event] = deque()  # when the GPU was done with a batch

    def copied() -> Iterator[tuple[Batch, torch.cuda.Event]]:
        for batch in batches:
            while len(learned) > depth:
                done = learned.popleft()
                if not done.query():
                    done.synchronize()
            with torch.cuda.stream(copying):
                moved = batch.to(device)
            yield moved, copying.record_event()

    for batch, arrived in ahead(copied(), depth):
        learning.wait_event(arrived)
        for memory in (batch.observation, batch.reward):  # that of all is not reused while that stream reads
            memory.record_stream(learning)
        yield batch
        learned.append(learning.record_event())


def ahead(items: Iterator[Item], depth: int) -> Iterator[Item]:
    """Yield the same items, of which a thread has taken up to `depth` more from `items`."""
    with ThreadPoolExecutor(1) as thread:
        end = object()
        taken = deque(thread.submit(next, items, end) for _ in range(depth))
        while True:
            taken.append(thread.submit(next, items, end))
            item = taken.popleft().result()
            if item is end:
                return
            yield item  # type: ignore[misc]


def _gathered(
    episodes: Episodes,
    steps: slice | npt.NDArray[np.int64],
    num_steps: int,
    following: npt.NDArray[np.int64],
    pinned: bool,
) -> Tensor:
    """Return the observations [N + K, ...] of these steps, and of what follows truncated sequences."""
    seen = episodes.observation
    shape = (num_steps + len(following), *seen.shape[1:])
    if pinned and math.prod(shape) * seen.itemsize >= PINNED_BYTES:  # one copy, which finds its memory there
        found = torch.empty(shape, dtype=getattr(torch, str(seen.dtype)), pin_memory=True)
        rows = found.numpy()
        if isinstance(steps, slice):
            rows[:num_steps] = seen[steps]
        else:
            np.take(seen, steps, axis=0, out=rows[:num_steps], mode="clip")  # else numpy copies twice
        rows[num_steps:] = observed(episodes, following)
        return found
    if not len(following):
        return tensor_of(seen[steps])
    return tensor_of(np.concatenate([seen[steps], observed(episodes, following)]))


def _batch(
    episodes: Episodes,
    sequences: Sequences,
    chosen: npt.NDArray[np.int64],
    memory: npt.NDArray[np.float32],
    targets: GAE | None,
    total_steps: int,
    own: Mapping[str, npt.NDArray],
    closes: bool,
    pinned: bool,
    frames: Frames | None,
) -> Batch:
    start, length, following = sequences.start[chosen], sequences.length[chosen], sequences.following[chosen]
    num_steps = int(length.sum())
    steps: slice | npt.NDArray[np.int64]
    if len(chosen) and (start[1:] == start[:-1] + length[:-1]).all():
        steps = slice(int(start[0]), int(start[0]) + num_steps)  # no copy
    else:
        steps = ranges(start, length)
    truncated = np.flatnonzero(following >= 0)
    if frames is None:
        seen = {"observation": _gathered(episodes, steps, num_steps, following[truncated], pinned)}
    else:
        seen = frames.gathered(np.concatenate([ranges(start, length), following[truncated]]))
    rows = lay_out(length)
    nothing = num_steps + len(truncated)
    after = np.where(np.arange(len(rows))[:, None] < length - 1, rows + 1, nothing)
    after[length[truncated] - 1, truncated] = num_steps + np.arange(len(truncated))
    columns = {
        **seen,
        "mask": tensor_of(episodes.mask[steps]),
        "action": tensor_of(episodes.action[steps]),
        "log_prob": tensor_of(episodes.log_prob[steps]),
        "reward": tensor_of(episodes.reward[steps]),
        "rows": torch.from_numpy(rows),
        "after": torch.from_numpy(after),
        "memory": torch.from_numpy(memory),
        "lag_versions": torch.from_numpy(np.repeat(episodes.version[sequences.episode[chosen]], length)),
    }
    further = {name: tensor_of(np.ascontiguousarray(column[steps])) for name, column in own.items()}
    if targets is None:
        return Batch(**columns, total_steps=total_steps, own=further, packed=None, closes=closes)
    columns["advantage"] = torch.from_numpy(targets.advantage[steps])
    columns["value_target"] = torch.from_numpy(targets.value_target[steps])
    return TargetedBatch(**columns, total_steps=total_steps, own=further, packed=None, closes=closes)
