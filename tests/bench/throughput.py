"""How fast a league trains: Connect Four, MLP 2x256, one main against 32 frozen snapshots.

    python -m tests.bench.throughput [--seconds 60] [--runners 2]

Measured end to end, through the same `train` that users call: matchmaking, play on Ray, ledger,
ratings, learning. Beside it, in the same run, the ideal: two one-thread processes that do nothing
but step the game, infer every decision once and train once on the learning seats' share.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from league.config import Settings, load
from league.envs import registry
from league.loop import train
from league.models.policy import initial_weights
from league.session import Session
from storage.archive import Archive
from storage.records import MAIN, LivePlayer

HIDDEN, SLOTS, BATCH_STEPS, LEARNING_SHARE = 256, 1024, 4096, 0.5


def ideal(seconds: float, result: multiprocessing.Queue) -> None:
    """Env steps per second of a bare loop in one process with one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    game = registry.make("connect_four", SLOTS)
    torso = nn.Sequential(nn.Linear(84, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    policy, value = nn.Linear(HIDDEN, 7), nn.Linear(HIDDEN, 1)
    parameters = [*torso.parameters(), *policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-5)
    seeds = np.random.default_rng(0)
    game.reset(np.arange(SLOTS), seeds.integers(2**62, size=SLOTS))
    kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    steps = waiting = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        (block,) = game.due()
        observation, mask = torch.from_numpy(block.observation).float(), torch.from_numpy(block.mask)
        with torch.no_grad():
            p = policy(torso(observation)).masked_fill_(~mask, -torch.inf).softmax(1)
            action = (p / torch.empty_like(p).exponential_()).argmax(1)
        learning = int(len(block) * LEARNING_SHARE)
        kept.append((observation[:learning], mask[:learning], action[:learning]))
        ended = game.step([action.numpy()]).ended
        if len(ended):
            game.reset(ended, seeds.integers(2**62, size=len(ended)))
        steps += len(block)
        waiting += learning
        if waiting >= BATCH_STEPS:
            observation, mask, action = (torch.cat(column) for column in zip(*kept, strict=True))
            features = torso(observation)
            log_p = policy(features).masked_fill(~mask, -torch.inf).log_softmax(1)
            chosen = log_p.gather(1, action.unsqueeze(1)).squeeze(1)
            loss = value(features).square().mean() - chosen.mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            kept, waiting = [], 0
    result.put(steps / (time.perf_counter() - began))


def measure_ideal(seconds: float, processes: int = 2) -> float:
    """Env steps per second of `processes` bare loops side by side."""
    context = multiprocessing.get_context("spawn")
    result: multiprocessing.Queue = context.Queue()
    workers = [context.Process(target=ideal, args=(seconds, result)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    rates = [result.get() for _ in workers]
    for worker in workers:
        worker.join()
    return sum(rates)


class Meter:
    """A view that notes the counters, leaving the first seconds out."""

    def __init__(self, warmup_seconds: float) -> None:
        self._warmup = warmup_seconds
        self._first: tuple[float, int, int] | None = None
        self._last = (0.0, 0, 0)
        self._lags: list[float] = []

    def show(self, session: Session) -> None:
        trained = sum(member.env_steps for member in session.members.values())
        self._last = (session.seconds(), session.totals.env_steps, trained)
        if self._last[0] < self._warmup:
            return
        self._first = self._first or self._last
        self._lags += [record.lag for record in session.log.newest.values()]

    def close(self, session: Session) -> None:
        self.show(session)

    def report(self) -> tuple[float, float, float]:
        """env steps/s, trained steps/s, mean policy lag in updates."""
        if self._first is None:
            raise RuntimeError("the run was shorter than its warm-up")
        seconds, env_steps, trained = (b - a for a, b in zip(self._first, self._last, strict=True))
        return env_steps / seconds, trained / seconds, float(np.mean(self._lags))


def measure_league(seconds: float, runners: int, snapshots: int = 32) -> tuple[float, float, float]:
    """The same from a league's training: one main, which plays `snapshots` frozen ones only."""
    warmup = 8.0
    settings: Settings = load(
        {
            "name": "throughput",
            "env": {"id": "connect_four"},
            "policy": {"hidden": [HIDDEN, HIDDEN]},
            "league": {
                "preset": "none",
                "players": {"main": 1},
                "roles": {
                    "main": {
                        "opponents": {
                            "branches": {
                                "self_play": {"share": 0.0},
                                "pfsp": {"share": 1.0, "weighting": "uniform"},
                            }
                        }
                    }
                },
            },
            "learner": {"batch_steps": BATCH_STEPS},
            "runners": runners,
            "stop": {"minutes": (seconds + warmup) / 60},
        }
    )
    spec = settings.policy_spec()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with Archive.create(
            run, settings.to_yaml(), {"name": "throughput", "env": "connect_four", "seed": 0}
        ) as archive:
            archive.add_player(LivePlayer("main-0", MAIN))
            for i in range(snapshots):
                archive.add_snapshot(
                    player="main-0",
                    role=MAIN,
                    env_steps=i,
                    updates=0,
                    parent_id=None,
                    tensors=initial_weights(spec, seed=i),
                    spec=spec.to_json(),
                    architecture=spec.architecture,
                    reason="benchmark",
                )
        meter = Meter(warmup)
        train(settings, run, resume=True, make_view=lambda: meter)
        return meter.report()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runners", type=int, default=2)
    arguments = parser.parse_args()
    bare = measure_ideal(arguments.seconds / 3)
    env_steps, trained, lag = measure_league(arguments.seconds, arguments.runners)
    print(f"ideal, two bare processes      {bare:>10,.0f} env steps/s")
    print(f"league, {arguments.runners} runners on Ray      {env_steps:>10,.0f} env steps/s")
    print(f"trained                        {trained:>10,.0f} steps/s")
    print(f"policy lag                     {lag:>10.1f} updates")
    print(f"ratio to the ideal             {env_steps / bare:>10.2f}")


if __name__ == "__main__":
    main()
