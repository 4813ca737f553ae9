"""Frames: observations of the connector `frame_stack` on their way to a GPU, each frame of a batch once.

An observation shows the frames of the one before it, without the oldest, and a new one. So a frame has one
number in all observations that show it. A batch has its frames, and for each observation their places among
them; the GPU puts the observations together.

That holds in episodes of which no decision is missing (`Episodes.unbroken`). Observations of others share no
frames.
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from league.episode import Episodes
from league.models.connectors import FrameStack, Normalise
from league.models.spec import PolicySpec
from storage.arrays import Indices

SMALLEST_BYTES = 2**10  # of a frame; numbers of smaller ones take longer than their copies


def num_frames(spec: PolicySpec) -> int:
    """Return the number of frames in each observation that a learner gets; 1 if it is not made of frames."""
    # a normaliser is the network's first layer
    changes = [each for each in spec.settings.connectors if not isinstance(each, Normalise)]
    if not changes or not isinstance(changes[-1], FrameStack) or spec.others or spec.seen.parts:
        return 1
    seen, frames = spec.seen, changes[-1].frames
    return frames if seen.size // frames * np.dtype(seen.dtype).itemsize >= SMALLEST_BYTES else 1


class Frames:
    """Frames of all observations of some episodes, `count` in each."""

    def __init__(self, episodes: Episodes, count: int) -> None:
        self._episodes, self._count = episodes, count

    @functools.cached_property
    def _numbers(self) -> Indices:
        """Number [N + K, F] of each frame: its place in observations and bootstraps when first shown."""
        episodes, n = self._episodes, self._episodes.num_steps
        cut, first, end = ~episodes.terminated, episodes.offset[:-1], episodes.offset[1:]
        unbroken = np.zeros(len(episodes), np.bool_) if episodes.unbroken is None else episodes.unbroken
        follows = np.concatenate([np.repeat(unbroken, end - first), unbroken[cut]])
        follows[first] = False
        rows = np.flatnonzero(follows)
        before = np.concatenate([np.arange(-1, n - 1), end[cut] - 1])[rows]
        numbers = np.arange(len(follows) * self._count).reshape(len(follows), self._count)
        for frame in reversed(range(self._count - 1)):
            numbers[rows, frame] = numbers[before, frame + 1]
        return numbers

    def gathered(self, rows: Indices) -> dict[str, Tensor]:
        """Return the observations of these rows [R], steps or N + k for the k-th bootstrap, for `stacked`.

        "observation" [M, *frame]: their frames, in pinned memory if there is a GPU; "places" [R, F].
        """
        numbers, places = np.unique(self._numbers[rows], return_inverse=True)
        seen, bootstrap, count = self._episodes.observation, self._episodes.bootstrap, self._count
        frame = (seen.shape[1] // count, *seen.shape[2:])
        dtype, pinned = getattr(torch, str(seen.dtype)), torch.cuda.is_available()
        found = torch.empty((len(numbers), *frame), dtype=dtype, pin_memory=pinned)
        border = len(seen) * count
        steps = int(np.searchsorted(numbers, border))
        for source, chosen, into in (
            (seen, numbers[:steps], found.numpy()[:steps]),
            (bootstrap, numbers[steps:] - border, found.numpy()[steps:]),
        ):
            np.take(source.reshape(-1, *frame), chosen, axis=0, out=into, mode="clip")  # else it copies twice
        return {"observation": found, "places": torch.from_numpy(places.reshape(-1, count))}


def stacked(frames: Tensor, places: Tensor) -> Tensor:
    """Return the observations [R, *shape] whose frames are at `places` [R, F] among `frames` [M, *frame]."""
    return frames[places].flatten(1, 2)
