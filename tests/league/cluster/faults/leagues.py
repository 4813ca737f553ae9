"""The leagues that are trained while their processes die, and the process that trains them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import psutil
import yaml

from tests.league.cluster.faults.machines import ENVIRONMENT, tree


class Scene(NamedTuple):
    """A game, what learns it, and whether a remote gets a copy."""

    game: str
    remote: bool
    shards: int
    processes: int  # of each shard
    aggregators: int
    players: int = 2

    @property
    def actors(self) -> dict[str, int]:
        """The number of actors of each kind when all live."""
        return {
            "runner": RUNNERS + EVALUATORS,
            "learner": self.shards * self.processes,
            "aggregator": self.aggregators,
            "supply": 1,
        }

    @property
    def text(self) -> str:
        return f"{self.game}, {'a remote' if self.remote else 'no remote'}"


RUNNERS, EVALUATORS = 2, 1
PATIENCE_SECONDS = 20.0  # of the config
HUNG_SECONDS = 60.0  # after which the end of a process that hangs is an incident
SCENES = (
    Scene("kuhn_poker", remote=False, shards=2, processes=1, aggregators=2),
    Scene("connect_four", remote=True, shards=1, processes=2, aggregators=1),
    Scene("kuhn_poker", remote=True, shards=1, processes=2, aggregators=1),
    Scene("connect_four", remote=False, shards=2, processes=1, aggregators=2),
)
CPUS = 3, 6  # of the head and of each other machine: two of the three hold the league


def config(scene: Scene, seed: int, shared: Path) -> dict:
    found = {
        "seed": seed,
        "env": {"id": scene.game},
        "policy": {"hidden": [16]},
        "league": {
            "preset": "pfsp",
            "players": {"main": scene.players},
            "roles": {"main": {"freeze": {"max_steps": 40_000}}},
        },
        "rollout": {"slots": 64, "matches_per_request": 64},
        "learner": {
            "batch_steps": 512 if scene.game == "kuhn_poker" else 2048  # of several rollouts: aggregated
        },
        "learners": {
            "shards": scene.shards,
            "processes": scene.processes,
            "aggregators": scene.aggregators,
            "copy_seconds": 2.0,
        },
        "runners": RUNNERS,
        "evaluation": {"runners": EVALUATORS},
        "resources": {"patience_seconds": PATIENCE_SECONDS},
        "stop": {"minutes": 600.0},
        "log": {"seconds": 0.5},
        "storage": {"cache_folder": str(shared / "cache"), "save_seconds": 5.0},
    }
    if scene.remote:
        found["storage"] |= {"remote": f"file://{shared.parent}/remote", "upload_seconds": 1.0}
    return found


class Driver:
    """A process of `league train`, in a session of its own."""

    def __init__(self, folder: Path, run: Path, *overrides: str, resume: bool = False) -> None:
        command = [sys.executable, "-m", "league", "train", str(folder / "league.yaml"), "--run", str(run)]
        for override in overrides:
            command += ["--set", override]
        self.said = folder / f"driver-{len(list(folder.glob('driver-*')))}.txt"
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, *(["--resume"] if resume else [])],
                env=os.environ | ENVIRONMENT,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill the driver alone; the shell that says a last word stays."""
        self.process.kill()
        self.process.wait()

    def destroy(self) -> None:
        """Kill it and all that it has started, a Ray of its own included."""
        for process in tree(self.process.pid):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.process.wait()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def errors(self) -> list[str]:
        """Return the lines that begin as messages do, and those of tracebacks."""
        lines = self.said.read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith(("league:", "Traceback", "Mistake", "Failure"))]

    def tail(self, lines: int = 12) -> str:
        return "\n".join(self.said.read_text(errors="replace").splitlines()[-lines:])

    def megabytes(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 2**20


def write(folder: Path, scene: Scene, seed: int, shared: Path) -> None:
    (folder / "league.yaml").write_text(yaml.safe_dump(config(scene, seed, shared)))
