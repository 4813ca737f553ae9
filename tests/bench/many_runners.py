"""What a request costs the driver with 10, 100 and 1,000 runners, each with a real mailbox on Ray.

    python -m tests.bench.many_runners [--runners 10 100 1000] [--rate 20000] [--hosts 1]

Runners are simulated, hundreds of them in one process: a request is answered after the time that its
matches take at the rate, divided among all runners, with made-up results. Everything else is as in training:
the loop, actor calls with their arguments and results, matchmaking and ledger. The cost of a match
must not grow with the number of runners. A result that is there waits for the turn under way: the time of a
turn is the driver's part of the latency.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from league.cluster.calls import Inside
from league.learning.groups.shard_learners import LiveWeights
from league.rollout.requests import PlayRequest, PlaySetup
from league.rollout.runner_group import RayRunnerGroup, Rollout
from league.rollout.settings import RolloutSettings
from tests.bench.driver import Counting, FreeLearning, MadeUp, Shape, measure
from tests.bench.shared import parser_of


class Host:
    """Process in which many simulated runners play."""

    def __init__(self, matches: int) -> None:
        self._made_up = MadeUp(matches)
        self._free_at: dict[int, float] = {}  # by runner
        self._rng = np.random.default_rng(0)

    async def where(self) -> str:
        """Return a host and a node's id."""
        return "host/node"

    async def play(self, runner: int, seconds: float, request: PlayRequest, _: Any, *weights: Any) -> Any:
        """Answer a request `seconds` after the runner has ended the one before."""
        for each in weights:
            if isinstance(each, Inside):  # as a runner opens them
                await each.reference
        now = time.monotonic()
        if runner not in self._free_at:  # all have begun at some time before, so that answers are spread out
            self._free_at[runner] = now - seconds * self._rng.random()
        else:
            self._free_at[runner] = max(now, self._free_at[runner])
        self._free_at[runner] += seconds
        await asyncio.sleep(self._free_at[runner] - now)
        answer = self._made_up.of(request, f"host:{runner}")
        return (answer, *[None for _ in request.learners])


class SimulatedRunners(RayRunnerGroup, Counting):
    """Runner group on Ray whose actors are parts of a few processes."""

    def __init__(self, num_runners: int, matches: int, rate: float, hosts: int) -> None:
        import ray

        of_host = ray.remote(Host).options(max_concurrency=10_000, num_cpus=0)
        self._hosts = [of_host.remote(matches) for _ in range(hosts)]
        ray.get([host.where.remote() for host in self._hosts])
        self._seconds = num_runners * matches / rate
        setup = PlaySetup("connect_four", {}, RolloutSettings(matches_per_request=matches))
        super().__init__(num_runners, setup)

    def _start(self, runner: int) -> Any:
        host = self._hosts[runner % len(self._hosts)]

        def options(num_returns: int) -> Any:
            def remote(request: PlayRequest, players: Sequence[str], *weights: Any) -> Any:
                play = host.play.options(num_returns=num_returns)
                return play.remote(runner, self._seconds, request, players, *weights)

            return SimpleNamespace(remote=remote)

        answer = host.where.remote()
        self._answers[answer] = runner
        self._arrivals.expect(answer)
        return SimpleNamespace(play_remotely=SimpleNamespace(options=options))

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        """Return what has come, and count its matches."""
        rollouts = super().ready(timeout_seconds)
        self.played += sum(len(rollout.results) for rollout in rollouts)
        return rollouts

    def close(self) -> None:
        """End the processes."""
        for host in self._hosts:
            self._ray.kill(host)


class StoredWeights(FreeLearning):
    """Learners whose weights are in Ray's store, as in training."""

    def live(self, player: str) -> LiveWeights:
        """Return a reference to the weights."""
        import ray

        if not hasattr(self, "_stored"):
            weights = super().live(player)
            self._stored = LiveWeights(weights.version, ray.put(weights.handle))
        return self._stored


def main() -> None:
    import ray

    parser = parser_of(__doc__)
    parser.add_argument("--runners", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--snapshots", type=int, default=100)
    parser.add_argument("--matches", type=int, default=1024, help="of one request")
    parser.add_argument("--rate", type=float, default=20_000.0, help="matches per second of all runners")
    parser.add_argument("--hosts", type=int, default=1, help="processes in which they are simulated")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    print("runners  matches/s  us per match: loop  process   ms of a turn: median  99 %", flush=True)
    for n in arguments.runners:
        runners = SimulatedRunners(n, arguments.matches, arguments.rate, arguments.hosts)
        try:
            found = measure(
                Shape(snapshots=arguments.snapshots),
                arguments.matches,
                arguments.seconds,
                runners=runners,
                learning=StoredWeights,
            )
        finally:
            runners.close()
        median, last = 1e3 * np.quantile(found.turns, [0.5, 0.99])
        print(
            f"{n:>7}  {found.rate:>9,.0f}  {found.loop:>18.2f}  {found.process:>7.2f}  "
            f"{median:>21.1f}  {last:>4.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
