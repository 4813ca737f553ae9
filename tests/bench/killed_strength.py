"""What deaths cost in strength: leagues that play equal env steps, half of them with processes killed.

    python -m tests.bench.killed_strength [--kills 20] [--seeds 3] [--env-steps 2_000_000]

For each seed a Connect Four league of two players, each with a learner process of its own, and two runners is
trained twice on Ray. The kills of the second time are SIGKILL to a runner or a learner drawn at random, at
even distances of env steps, whether or not the last one is replaced. Copies of learners are
made every two seconds, as twenty kills of a run of minutes are as many as a run of weeks has.

Printed for each run: the incidents that its kills became, what they cost, and the points that the newest
snapshot of main-0 scores against `one_ply`, a bot that never misses a win or a block, with an interval of
95 % by whole pairs. Then the differences between the two runs of each seed. Two trainings on Ray never repeat
each other, so the range of the runs without kills is what a difference is compared with.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import analysis
from league.arena.comparison import compare
from league.config.loading import load
from league.training.loop import train
from league.training.session import Session

BOT, PLAYER = "one_ply", "main-0"


class Killer:
    """View that kills a runner or a learner after every so many env steps."""

    def __init__(self, kills: int, env_steps: int, seed: int) -> None:
        self.done = 0
        self._kills, self._every = kills, env_steps // (kills + 1)
        self._rng = random.Random(seed)

    def show(self, session: Session) -> None:
        """Kill one if it is time and one of them lives."""
        due = self.done < self._kills and session.totals.env_steps > self._every * (self.done + 1)
        living = _living(session) if due else []
        pid = _pid(self._rng.choice(living)) if living else None
        if pid is not None:
            self.done += 1
            os.kill(pid, signal.SIGKILL)

    def close(self, session: Session) -> None:
        """Do nothing: the run is over."""


def _living(session: Session) -> list[Any]:
    """Return the runners and learners that are not being replaced."""
    runners: Any = session.runners
    learners: Any = session.learners
    away = learners.away()
    found = [actor for i, actor in enumerate(runners._actors) if i not in runners._starting]
    for planned, shard in zip(learners.plan(), learners._shards, strict=True):
        if not set(planned.players).intersection(away):
            found += shard.processes
    return found


def _pid(actor: Any) -> int | None:
    """Return the process of an actor; `None` if it does not answer."""
    import ray

    try:
        return int(ray.get(actor.__ray_call__.remote(lambda _: os.getpid()), timeout=10.0))
    except ray.exceptions.RayError:
        return None


def config(seed: int, env_steps: int) -> dict[str, Any]:
    """Two mains of small networks, each on a shard of its own."""
    return {
        "seed": seed,
        "env": {"id": "connect_four"},
        "policy": {"hidden": [64, 64]},
        "league": {"preset": "pfsp", "players": {"main": 2}, "freeze_every": max(1, env_steps // 10)},
        "rollout": {"slots": 256, "matches_per_request": 256},
        "learner": {"batch_steps": 4096, "shards": 2, "copy_seconds": 2.0},
        "storage": {"save_seconds": 10.0},
        "runners": 2,
        "stop": {"env_steps": env_steps},
    }


class Reached(NamedTuple):
    """What one run came to."""

    run: Path
    minutes: float
    deaths: int  # incidents of runners and learners
    updates_lost: int
    steps_lost: int  # of experience
    score: float  # against the bot
    low: float
    high: float


def reach(folder: Path, seed: int, kills: int, env_steps: int, pairs: int) -> Reached:
    """Train a league with so many kills, and measure its newest snapshot."""
    killer = Killer(kills, env_steps, seed)
    began = time.monotonic()
    name = f"{'killed' if kills else 'whole'}-{seed}"
    run = train(load(config(seed, env_steps)), folder / name, make_view=lambda: killer)
    assert killer.done == kills, f"{killer.done} of {kills} kills: the run was over first"
    minutes = (time.monotonic() - began) / 60
    with analysis.open_run(run) as history:
        incidents = history.incidents()
    found = compare(run, PLAYER, BOT, pairs=pairs)
    scores = found.pair_scores
    margin = 1.96 * float(scores.std(ddof=1)) / len(scores) ** 0.5
    return Reached(
        run,
        minutes,
        int(incidents["kind"].isin(["runner", "learner"]).sum()),
        int(incidents["updates"].sum()),
        int(incidents["env_steps"].sum()),
        float(scores.mean()),
        float(scores.mean()) - margin,
        float(scores.mean()) + margin,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--env-steps", type=int, default=2_000_000)
    parser.add_argument("--pairs", type=int, default=500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'run':>12}   minutes   deaths   updates lost   steps lost   points against {BOT}")
        differences = []
        for seed in range(args.seeds):
            found = []
            for kills in (0, args.kills):
                reached = reach(Path(folder), seed, kills, args.env_steps, args.pairs)
                found.append(reached)
                print(
                    f"{reached.run.name:>12}   {reached.minutes:>7.1f}   {reached.deaths:>6}   "
                    f"{reached.updates_lost:>12,}   {reached.steps_lost:>10,}   "
                    f"{reached.score:.3f} [{reached.low:.3f}, {reached.high:.3f}]",
                    flush=True,
                )
            differences.append(found[1].score - found[0].score)
        mean = statistics.mean(differences)
        print(f"killed less whole: mean {mean:+.3f}, each {', '.join(f'{d:+.3f}' for d in differences)}")


if __name__ == "__main__":
    main()
