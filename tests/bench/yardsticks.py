"""What it takes to measure a snapshot on yardsticks, of the network in configs/connect_four.yaml.

    python -m tests.bench.yardsticks [--repeats 7]

Prints the time to open the stored positions (once in a run), to measure a policy on them (one call, at each
freeze), and to play 256 games against `one_ply`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from league.config.loading import load
from league.models.policies.policy import Policy, initial_weights
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, LiveSource, PlaySetup
from league.rollout.settings import RolloutSettings
from league.yardsticks.outcomes import reach
from league.yardsticks.positions import stored
from league.yardsticks.prepared import on_positions, request_of
from tests.bench.shared import parser_of

CONFIG = Path(__file__).parents[2] / "configs" / "connect_four.yaml"
GAMES = 256


def milliseconds(work: Callable[[], object], repeats: int) -> tuple[float, float, float]:
    """Median, least and most."""
    work()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(1e3 * (time.perf_counter() - began))
    return statistics.median(found), min(found), max(found)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    settings = load(CONFIG)
    env, spec = settings.env.id, settings.policy_specs()["main-0"]
    weights = initial_weights(spec, 0)
    policy, reached = Policy(spec, weights), reach(stored(env), env, {})
    runner = EnvRunner(PlaySetup(env, {}, RolloutSettings(slots=GAMES)))
    live = {"main-0": {name: tensor.numpy() for name, tensor in weights.items()}}
    source = LiveSource("main-0", 0, spec)
    request, _ = request_of(env, np.arange(2), source, BotSource("one_ply"), GAMES, 0)
    for what, work in (
        ("open 1,000 positions", lambda: reach(stored(env), env, {})),
        ("measure a policy on 1,000 positions", lambda: on_positions("main-0@0", policy, reached)),
        (f"play {GAMES} games against one_ply", lambda: runner.play(request, live)),
    ):
        print("{:<36} {:7.1f} ms ({:.1f} to {:.1f})".format(what, *milliseconds(work, repeats)))


if __name__ == "__main__":
    main()
