"""Time until the first experience and memory by the length of a match, whole and in fragments.

    python -m tests.bench.fragments [--lengths 50 250 1000 5000] [--fragment-steps 64] [--slots 64]
    python -m tests.bench.fragments --frames 20 [--torso nature] [--lengths 50 200 1000 5000 20000]

Each line is a training of its own, in a process of its own: `slots` matches side by side, of a game for one
with 256 numbers to see and nothing to compute. Memory is the most that the process holds beside what it
held when training began.

With `--frames`, the game shows frames of 84x84x4 bytes, and a config names nothing but the game and so many
seconds of training: memory is that of networks, play and updates, and the last column is how long the run
takes to end beyond that.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import psutil
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from tests.bench.shared import parser_of

WIDTH = 256
FRAME = (84, 84, 4)
MIB = 2**20


class Walk(BatchedGame):
    """Match of `length` steps for one seat, of which each pays the action that was taken."""

    id: ClassVar[str] = "walk"
    num_seats = 1

    def __init__(self, num_slots: int, *, length: int = 1000, step_limit: int | None = None) -> None:
        self.observation_spaces = (Box(-1, 1, (WIDTH,), np.float32),)
        self.action_spaces = (Discrete(2),)
        self._length = length
        super().__init__(num_slots, step_limit=step_limit)

    def _reset(self, slots: npt.NDArray[np.int64], seeds: npt.NDArray[np.int64]) -> None:
        pass

    def _turn(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        slot = np.flatnonzero(self.active)
        return slot, np.zeros_like(slot)

    def observe(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]) -> npt.NDArray:
        along = (self.env_steps[slot] / self._length).astype(np.float32)
        return np.repeat(along[:, None], WIDTH, axis=1)

    def legal(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return np.ones((len(slot), 2), dtype=np.bool_)

    def _play(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64], action: npt.NDArray) -> None:
        self._rewards[slot, 0] = action / self._length
        self._over[slot] = self.env_steps[slot] == self._length


class Frames(Walk):
    """The same match, with frames to see."""

    id: ClassVar[str] = "frames"

    def __init__(self, num_slots: int, *, length: int = 1000, step_limit: int | None = None) -> None:
        super().__init__(num_slots, length=length, step_limit=step_limit)
        self.observation_spaces = (Box(0, 255, FRAME, np.uint8),)
        BatchedGame.__init__(self, num_slots, step_limit=step_limit)

    def observe(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]) -> npt.NDArray:
        return np.repeat(self.env_steps[slot] % 256, np.prod(FRAME)).astype(np.uint8).reshape(-1, *FRAME)


class Watch:
    """View that notes when the loop began; `taken` is called with experience on its way to the learner."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first: float | None = None

    def taken(self) -> None:
        if self.first is None:
            self.first = time.perf_counter() - self.began

    def show(self, session: Any) -> None:
        pass

    def close(self, session: Any) -> None:
        pass


def of_walk(length: int, fragment_steps: int | None, slots: int) -> dict[str, Any]:
    """Return a config for matches of 256 numbers."""
    return {
        "env": {"id": "tests.bench.fragments:Walk", "options": {"length": length}},
        "policy": {"hidden": [64]},
        "league": {"preset": "none"},
        "rollout": {"slots": slots, "matches_per_request": slots, "fragment_steps": fragment_steps},
        "learner": {"batch_steps": 2048},
        "stop": {"env_steps": 2 * slots * length},
    }


def of_frames(length: int, seconds: float, torso: str | None) -> dict[str, Any]:
    """Return a config for matches of frames, with `seconds` of training."""
    game = {"env": {"id": "tests.bench.fragments:Frames", "options": {"length": length}}}
    return game | {"stop": {"minutes": seconds / 60.0}} | ({"policy": {"torso": torso}} if torso else {})


def measure(config: dict[str, Any], label: object) -> None:
    """Train in this process and print a line."""
    from league.config.loading import load
    from league.learning.groups.local_learners import LocalLearners
    from league.training.loop import train
    from storage.ends import End

    settings = load(config)
    ends: list[End] = []
    process = psutil.Process()
    before, most, over = process.memory_info().rss, 0, threading.Event()

    def sample() -> None:
        nonlocal most
        while not over.wait(0.01):
            most = max(most, process.memory_info().rss)

    sampling = threading.Thread(target=sample, daemon=True)  # it outlives no failed training
    sampling.start()
    watches: list[Watch] = []
    submit = LocalLearners.submit

    def noted(group: LocalLearners, *arguments: Any) -> None:
        watches[0].taken()
        submit(group, *arguments)

    def make_view() -> Watch:
        watches.append(Watch())
        return watches[0]

    LocalLearners.submit = noted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder) / "run", make_view=make_view, on_end=ends.append)  # type: ignore[arg-type]
    seconds = time.perf_counter() - watches[0].began
    over.set()
    sampling.join()
    limit = settings.stop.minutes
    last = f"{ends[0].env_steps / seconds:,.0f}" if limit is None else f"{seconds - 60.0 * limit:.1f}"
    print(
        f"{settings.env.options['length']:>7}   {label:>14}   {watches[0].first or 0.0:>18.2f}   "
        f"{(most - before) / MIB:>10.0f}   {last:>13}",
        flush=True,
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[50, 250, 1000, 5000])
    parser.add_argument("--frames", type=float, metavar="SECONDS", help="frames, for so many seconds each")
    parser.add_argument("--torso", help="of the policy that sees frames, in place of the default")
    parser.add_argument("--fragment-steps", type=int, default=64)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help="only whole matches")
    arguments = parser.parse_args()
    if arguments.one:
        length = arguments.lengths[0]
        steps = None if arguments.whole else arguments.fragment_steps
        if arguments.frames:
            measure(of_frames(length, arguments.frames, arguments.torso), arguments.torso or "default")
        else:
            measure(of_walk(length, steps, arguments.slots), steps or "whole")
        return
    kind, last = ("torso", "beyond stop s") if arguments.frames else ("fragment steps", "env steps / s")
    print(f" length   {kind:>14}   first experience s   memory MiB   {last:>13}", flush=True)
    for length in arguments.lengths:
        frames = ["--frames", str(arguments.frames)] if arguments.frames else []
        frames += ["--torso", arguments.torso] if arguments.torso else []
        for extra in (frames,) if frames else (["--whole"], []):
            own = ["--lengths", str(length), "--fragment-steps", str(arguments.fragment_steps)]
            own += ["--slots", str(arguments.slots), "--one", *extra]
            subprocess.run([sys.executable, "-m", "tests.bench.fragments", *own], check=True)


if __name__ == "__main__":
    main()
