"""What bfloat16 costs in strength: the shipped configs in each precision, at equal env steps.

    python -m tests.bench.precision [--games kuhn_poker leduc_poker connect_four] [--seeds 3]

For each game and seed the config is trained twice with `runners: 0`: once playing and learning in float32,
once in bfloat16. Bfloat16 is asked for by name, so that it is used whether or not it is faster here. Printed
are the exact NashConv of what the config is for (the last snapshot of main-0, or the average of its newest
half: 0 in an equilibrium) or, in Connect Four, the points against `one_ply` with an interval of 95 % by whole
pairs, and for both precisions the median and the range over seeds.

A run in one process repeats itself to the bit in one precision, so the range over seeds is what a difference
between the precisions is compared with.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import league
from league.arena.comparison import compare
from league.config.file import read
from league.exploit.exact import exact_each
from tests.bench.strength import AVERAGE, CONFIGS, LAST, merged, spread

PRECISIONS = ("float32", "bfloat16")
BOT = "one_ply"


@dataclass(frozen=True)
class Game:
    """A config, how long it is trained, and what of it is judged; `None`: points against the bot."""

    config: str
    env_steps: int
    exact: str | None


GAMES: Mapping[str, Game] = {
    "kuhn_poker": Game("kuhn_poker.yaml", 2_000_000, LAST),
    "leduc_poker": Game("leduc_poker.yaml", 3_000_000, AVERAGE),
    "connect_four": Game("connect_four.yaml", 5_000_000, None),
}


class Judged(NamedTuple):
    """What one run came to: NashConv, or points against the bot with their interval."""

    value: float
    low: float
    high: float


def config_of(game: Game, seed: int, precision: str, env_steps: int) -> dict[str, Any]:
    """The shipped config, in one process, in one precision."""
    changes = {
        "learner": {"precision": precision},
        "rollout": {"precision": precision},
        "evaluation": {"yardsticks": []},
    }
    one_process = {"seed": seed, "runners": 0, "stop": {"env_steps": env_steps}}
    return merged(read(CONFIGS / game.config), changes) | one_process


def judge(game: Game, run: Path, pairs: int) -> Judged:
    """Measure what the run leaves behind."""
    if game.exact is not None:
        value = next(iter(exact_each(run, [game.exact]))).nash_conv
        return Judged(value, value, value)
    scores = compare(run, LAST, BOT, pairs=pairs).pair_scores
    margin = 1.96 * float(scores.std(ddof=1)) / len(scores) ** 0.5
    return Judged(float(scores.mean()), float(scores.mean()) - margin, float(scores.mean()) + margin)


def reach(game: Game, seed: int, precision: str, env_steps: int, pairs: int) -> Judged:
    """Train in a temporary folder, and judge."""
    with tempfile.TemporaryDirectory() as folder:
        run = league.train(config_of(game, seed, precision, env_steps), Path(folder) / "run")
        return judge(game, run, pairs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--seeds", type=int, default=3, help="from 0 on")
    parser.add_argument("--env-steps", type=int, help="of each run; default: 2, 3 and 5 million")
    parser.add_argument("--pairs", type=int, default=500, help="of games against one_ply")
    arguments = parser.parse_args()
    print(f"{'game':<13} {'judged':<18} {'env steps':>9}  seed  " + "  ".join(f"{p:<22}" for p in PRECISIONS))
    for name in arguments.games:
        game = GAMES[name]
        steps = arguments.env_steps or game.env_steps
        what = f"points: {BOT}" if game.exact is None else f"NashConv: {game.exact.rpartition(':')[2]}"
        found: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
        for seed in range(arguments.seeds):
            told = []
            for precision in PRECISIONS:
                judged = reach(game, seed, precision, steps, arguments.pairs)
                found[precision].append(judged.value)
                interval = "" if game.exact else f" [{judged.low:.3f}, {judged.high:.3f}]"
                told.append(f"{f'{judged.value:.3f}{interval}':<22}")
            print(f"{name:<13} {what:<18} {steps / 1e6:>8.1f}M  {seed:>4}  " + "  ".join(told), flush=True)
        over = "  ".join(f"{spread(found[precision], 3):<22}" for precision in PRECISIONS)
        print(f"{name:<13} {what:<18} {steps / 1e6:>8.1f}M   all  {over}", flush=True)


if __name__ == "__main__":
    main()
