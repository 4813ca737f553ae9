"""From `Episodes` (flat arrays) to `Batch` (tensors): minibatches of whole sequences.

Steps stay flat: the network sees N rows and no padding. Only the scalars that V-trace recurses
over are laid out as [T, B]; `Batch.rows` says where each of those steps lies among the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from league.episode import Episodes


@dataclass(frozen=True, slots=True)
class Batch:
    """One minibatch: B sequences of at most T steps, N steps in all, K of them truncated."""

    observation: Tensor  # [N + K, *shape]; the last K rows are what truncated sequences saw next
    mask: Tensor  # [N, num_actions] bool
    action: Tensor  # [N] int64
    log_prob: Tensor  # [N] float32, of the policy that acted
    reward: Tensor  # [N] float32
    rows: Tensor  # [T, B] int64, a step's row among the N; padding is row N
    after: Tensor  # [T, B] int64, row of the following observation, or N + K: none (terminated, padding)
    lag_versions: Tensor  # [N] int64, version of the weights that acted

    @property
    def num_steps(self) -> int:
        return len(self.action)

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        return Batch(*(getattr(self, f).to(device, non_blocking=True) for f in self.__dataclass_fields__))


def minibatches(
    episodes: Episodes, steps: int, sequence_length: int, rng: np.random.Generator | None = None
) -> Iterator[Batch]:
    """Cut `episodes` into batches of about `steps` steps, in order, or shuffled by whole sequence.

    Episodes longer than `sequence_length` become several sequences; each but the last is
    truncated there, with the observation that follows as its bootstrap.
    """
    start, length, following = _sequences(episodes, sequence_length)
    order = np.arange(len(start)) if rng is None else rng.permutation(len(start))
    ends = np.cumsum(length[order])
    count = max(1, round(ends[-1] / steps)) if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(1, count) * (ends[-1] / count)) + 1 if count else []
    for chosen in np.split(order, cuts):
        if len(chosen):
            yield _batch(episodes, start[chosen], length[chosen], following[chosen])


def _sequences(episodes: Episodes, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First step, length and following row of each sequence.

    The following row is a step of the same episode, or N + k for the k-th bootstrap observation,
    or -1 after a terminated match.
    """
    total = np.diff(episodes.offset)
    last = np.full(len(episodes), -1, dtype=np.int64)
    last[~episodes.terminated] = episodes.num_steps + np.arange(np.count_nonzero(~episodes.terminated))
    if not len(total) or total.max() <= limit:
        return episodes.offset[:-1], total, last
    parts = -(-total // limit)
    episode = np.repeat(np.arange(len(total)), parts)
    part = np.arange(len(episode)) - np.repeat(np.cumsum(parts) - parts, parts)
    start = episodes.offset[:-1][episode] + part * limit
    length = np.minimum(limit, total[episode] - part * limit)
    final = part == parts[episode] - 1
    return start, length, np.where(final, last[episode], start + length)


def _batch(episodes: Episodes, start: np.ndarray, length: np.ndarray, following: np.ndarray) -> Batch:
    offset = np.concatenate([[0], np.cumsum(length)])
    num_steps = int(offset[-1])
    contiguous = bool((start[1:] == start[:-1] + length[:-1]).all())
    steps: slice | np.ndarray
    if contiguous:
        steps = slice(int(start[0]), int(start[0]) + num_steps)
    else:
        steps = np.repeat(start - offset[:-1], length) + np.arange(num_steps)
    cut = np.flatnonzero(following >= 0)
    inside = following[cut] < episodes.num_steps
    seen_next = [
        episodes.observation[row] if here else episodes.bootstrap[row - episodes.num_steps]
        for row, here in zip(following[cut], inside, strict=True)
    ]
    observation = episodes.observation[steps]
    if seen_next:
        observation = np.concatenate([observation, np.stack(seen_next)])
    time = np.arange(length.max())[:, None]
    present = time < length
    rows = np.where(present, offset[:-1] + time, num_steps)
    nothing = num_steps + len(cut)
    after = np.where(time < length - 1, rows + 1, nothing)
    after[length[cut] - 1, cut] = num_steps + np.arange(len(cut))
    version = np.repeat(episodes.version, np.diff(episodes.offset))[steps]
    return Batch(
        observation=_tensor(observation),
        mask=_tensor(episodes.mask[steps]),
        action=_tensor(episodes.action[steps]),
        log_prob=_tensor(episodes.log_prob[steps]),
        reward=_tensor(episodes.reward[steps]),
        rows=torch.from_numpy(rows),
        after=torch.from_numpy(after),
        lag_versions=_tensor(version),
    )


def _tensor(array: np.ndarray) -> Tensor:
    """Arrays out of an object store are read-only, which torch cannot express: those are copied."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
