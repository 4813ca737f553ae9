"""How fast a league trains: Connect Four, MLP 2x256, one main against 1, 32 and 256 frozen snapshots.

    python -m tests.bench.throughput [--snapshots 1 32 256] [--seconds 60] [--runners 2] [--main-job]

Measured end to end, through the same `train` that users call: matchmaking, play on Ray, ledger,
ratings, learning. Every match draws its opponent for itself, so that all snapshots sit in every
request. Beside it, in the same run, the ideal: two one-thread processes that do nothing but step the
game, infer every decision once and train once on the learning seats' share. With `--main-job` also
configs/connect_four.yaml as it is, beside an ideal that trains on as large a share and in such batches.

The rates want an idle machine. The processor's time for each env step, summed over all processes,
says nearly the same on a busy one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import torch
from rich.console import Console
from torch import nn

from league.config.loading import load
from league.config.settings import Settings
from league.envs import registry
from league.models.policies.policy import initial_weights
from league.training.loop import train
from league.training.session import Session
from league.training.view import News
from storage.archive import Archive
from storage.records import MAIN, LivePlayer
from tests import made_up
from tests.bench.shared import parser_of

HIDDEN, SLOTS, BATCH_STEPS, LEARNING_SHARE = 256, 1024, 4096, 0.5
WARMUP_SECONDS = 8.0
CONFIGS = Path(__file__).parents[2] / "configs"


class Rates(NamedTuple):
    """What was measured."""

    env_steps: float  # per second
    processor: float  # microseconds of the processor for each env step, of all processes
    trained: float = 0.0  # steps per second
    lag: float = 0.0  # updates between the weights that acted and those that learned, mean


def ideal(seconds: float, share: float, batch_steps: int) -> tuple[float, float]:
    """Env steps per second, and per second of the processor, of a bare loop with one thread.

    It trains on that share of the steps, so many at a time.
    """
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
    began, worked = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        (block,) = game.due()
        observation = torch.from_numpy(block.observation).float().flatten(1)
        mask = torch.from_numpy(block.mask)
        with torch.no_grad():
            p = policy(torso(observation)).masked_fill_(~mask, -torch.inf).softmax(1)
            action = (p / torch.empty_like(p).exponential_()).argmax(1)
        learning = int(len(block) * share)
        kept.append((observation[:learning], mask[:learning], action[:learning]))
        ended = game.step([action.numpy()]).ended
        if len(ended):
            game.reset(ended, seeds.integers(2**62, size=len(ended)))
        steps += len(block)
        waiting += learning
        if waiting >= batch_steps:
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
    return steps / (time.perf_counter() - began), steps / (time.process_time() - worked)


def measure_ideal(
    seconds: float, processes: int = 2, share: float = LEARNING_SHARE, batch_steps: int = BATCH_STEPS
) -> Rates:
    """`processes` bare loops side by side."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        loops = [pool.submit(ideal, seconds, share, batch_steps) for _ in range(processes)]
        rates, by_processor = zip(*(loop.result() for loop in loops), strict=True)
    return Rates(sum(rates), processes * 1e6 / sum(by_processor))


class Count(NamedTuple):
    """Where a run stands."""

    seconds: float
    env_steps: int
    trained: int
    processor: float  # seconds, of this process and all that it has started


class Meter:
    """A view that notes the counters, leaving the first seconds out, and prints how the league plays."""

    def __init__(self) -> None:
        self._news = News(Console(stderr=True))
        self._counts: list[Count] = []
        self._lags: list[float] = []

    def show(self, session: Session) -> None:
        self._news.print_new(session)
        seconds = session.clock.seconds()
        if seconds < WARMUP_SECONDS or (self._counts and seconds < self._counts[-1].seconds + 1.0):
            return
        trained = sum(member.env_steps for member in session.members.values())
        self._counts.append(Count(seconds, session.totals.env_steps, trained, processor_seconds()))
        self._lags += [record.lag for record in session.log.newest.values()]

    def close(self, session: Session) -> None:
        pass

    def report(self) -> Rates:
        if len(self._counts) < 2:
            raise RuntimeError("the run was shorter than its warm-up")
        spent = Count(*(b - a for a, b in zip(self._counts[0], self._counts[-1], strict=True)))
        return Rates(
            spent.env_steps / spent.seconds,
            1e6 * spent.processor / spent.env_steps,
            spent.trained / spent.seconds,
            float(np.mean(self._lags)),
        )


def processor_seconds() -> float:
    """Of this process and all that it has started and that still run."""
    total = 0.0
    for process in (own := psutil.Process(), *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            times = process.cpu_times()
            total += times.user + times.system
    return total


def measure_league(
    seconds: float,
    runners: int,
    snapshots: int,
    slots: int | str = SLOTS,
    matches: int | str = SLOTS,
    precision: str = "auto",
    max_lag: int | None = None,
    learner_precision: str = "auto",
    in_flight: int = 2,
) -> Rates:
    """The same from a league's training: one main, which plays `snapshots` frozen ones only."""
    branches = {"self_play": {"share": 0.0}, "pfsp": {"share": 1.0, "weighting": "uniform"}}
    settings: Settings = load(
        {
            "name": "throughput",
            "env": {"id": "connect_four"},
            "policy": {"hidden": [HIDDEN, HIDDEN]},
            "league": {
                "preset": "none",
                "players": {"main": 1},
                "roles": {"main": {"opponents": {"branches": branches}}},
            },
            "matchmaking": {"distinct_opponents": 8192},
            "rollout": {
                "slots": slots,
                "matches_per_request": matches,
                "precision": precision,
                "max_lag": max_lag,
                "requests_in_flight": in_flight,
                "policy_map_capacity": snapshots + 2,  # the main adds one at the beginning, one at the end
            },
            "learner": {"batch_steps": BATCH_STEPS, "precision": learner_precision},
            "runners": runners,
            "stop": {"minutes": (seconds + WARMUP_SECONDS) / 60},
        }
    )
    spec = settings.policy_spec("main-0", MAIN)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with Archive.create(
            run, settings.to_yaml(), {"name": "throughput", "env": "connect_four", "seed": 0}
        ) as archive:
            archive.add_player(LivePlayer("main-0", MAIN))
            for i in range(snapshots):
                made_up.add_snapshot(archive, i, initial_weights(spec, seed=i), spec.to_json())
        meter = Meter()
        train(settings, run, resume=True, make_view=lambda: meter)
        return meter.report()


def measure_main_job(seconds: float) -> tuple[Rates, int]:
    """The same of configs/connect_four.yaml, and its steps of a batch. Its schedules end with the time."""
    minutes = (seconds + WARMUP_SECONDS) / 60
    settings = load(CONFIGS / "connect_four.yaml", [f"stop.minutes={minutes}", "evaluation.yardsticks=[]"])
    with tempfile.TemporaryDirectory() as folder:
        meter = Meter()
        train(settings, Path(folder) / "run", make_view=lambda: meter)
        return meter.report(), settings.learner.batch_steps


def _size(text: str) -> int | str:
    return text if text == "auto" else int(text)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--snapshots", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each league")
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--slots", type=_size, default="auto")
    parser.add_argument("--matches", type=_size, default="auto", help="of one request")
    parser.add_argument("--in-flight", type=int, default=2, help="requests of one runner, at most")
    parser.add_argument("--max-lag", type=int, help="updates that experience may be old")
    parser.add_argument(
        "--precision", default="auto", choices=["auto", "float32", "bfloat16"], help="of play"
    )
    parser.add_argument(
        "--learner-precision", default="auto", choices=["auto", "float32", "bfloat16"], help="of learning"
    )
    parser.add_argument("--main-job", action="store_true", help="measure configs/connect_four.yaml, too")
    arguments = parser.parse_args()
    bare = measure_ideal(arguments.seconds / 3)
    print("                       env steps/s   us of the processor per env step   trained steps/s   lag")
    print(f"ideal, two processes   {bare.env_steps:>11,.0f}   {bare.processor:>32.2f}", flush=True)
    first = None
    for snapshots in arguments.snapshots:
        rates = measure_league(
            arguments.seconds,
            arguments.runners,
            snapshots,
            arguments.slots,
            arguments.matches,
            arguments.precision,
            arguments.max_lag,
            arguments.learner_precision,
            arguments.in_flight,
        )
        first = first or rates
        print(
            f"{snapshots:>4} snapshots         {rates.env_steps:>11,.0f}   {rates.processor:>32.2f}   "
            f"{rates.trained:>15,.0f}   {rates.lag:>3.0f}\n"
            f"  to the ideal         {rates.env_steps / bare.env_steps:>11.2f}   "
            f"{bare.processor / rates.processor:>32.2f}\n"
            f"  to {arguments.snapshots[0]:>3} seated       {rates.env_steps / first.env_steps:>11.2f}   "
            f"{first.processor / rates.processor:>32.2f}",
            flush=True,
        )
    if arguments.main_job:
        rates, batch_steps = measure_main_job(arguments.seconds)
        bare = measure_ideal(arguments.seconds / 3, 2, rates.trained / rates.env_steps, batch_steps)
        print(
            f"main job               {rates.env_steps:>11,.0f}   {rates.processor:>32.2f}   "
            f"{rates.trained:>15,.0f}   {rates.lag:>3.0f}\n"
            f"  its ideal            {bare.env_steps:>11,.0f}   {bare.processor:>32.2f}\n"
            f"  to it                {rates.env_steps / bare.env_steps:>11.2f}   "
            f"{bare.processor / rates.processor:>32.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
