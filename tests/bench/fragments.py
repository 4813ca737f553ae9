"""Time until the first experience and memory by the length of a match, whole and in fragments.

    python -m tests.bench.fragments [--lengths 50 250 1000 5000] [--fragment-steps 64] [--slots 64]

Each line is a training of its own, in a process of its own: `slots` matches side by side, of a game for one
with 256 numbers to see and nothing to compute. Memory is the most that the process holds beside what it
held when training began.
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


def measure(length: int, fragment_steps: int | None, slots: int) -> None:
    """Train in this process and print a line."""
    from league.config.loading import load
    from league.learning.groups.local_learners import LocalLearners
    from league.training.loop import train

    settings = load(
        {
            "env": {"id": "tests.bench.fragments:Walk", "options": {"length": length}},
            "policy": {"hidden": [64]},
            "league": {"preset": "none"},
            "rollout": {"slots": slots, "matches_per_request": slots, "fragment_steps": fragment_steps},
            "learner": {"batch_steps": 2048},
            "stop": {"env_steps": 2 * slots * length},
        }
    )
    process = psutil.Process()
    before, most, over = process.memory_info().rss, 0, threading.Event()

    def sample() -> None:
        nonlocal most
        while not over.wait(0.01):
            most = max(most, process.memory_info().rss)

    sampling = threading.Thread(target=sample)
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
        train(settings, Path(folder) / "run", make_view=make_view)  # type: ignore[arg-type]  # no page
    seconds = time.perf_counter() - watches[0].began
    over.set()
    sampling.join()
    rate = 2 * slots * length / seconds
    print(
        f"{length:>7}   {fragment_steps or 'whole':>14}   {watches[0].first or 0.0:>18.2f}   "
        f"{(most - before) / MIB:>10.0f}   {rate:>13,.0f}",
        flush=True,
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[50, 250, 1000, 5000])
    parser.add_argument("--fragment-steps", type=int, default=64)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--whole", action="store_true", help="only whole matches")
    arguments = parser.parse_args()
    if arguments.one:
        steps = None if arguments.whole else arguments.fragment_steps
        measure(arguments.lengths[0], steps, arguments.slots)
        return
    print(" length   fragment steps   first experience s   memory MiB   env steps / s", flush=True)
    for length in arguments.lengths:
        for extra in (["--whole"], []):
            own = ["--lengths", str(length), "--fragment-steps", str(arguments.fragment_steps)]
            own += ["--slots", str(arguments.slots), "--one", *extra]
            subprocess.run([sys.executable, "-m", "tests.bench.fragments", *own], check=True)


if __name__ == "__main__":
    main()
