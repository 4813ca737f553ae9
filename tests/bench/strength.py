"""How near the shipped configs come to an equilibrium, beside published figures.

    python -m tests.bench.strength [--games kuhn_poker leduc_poker] [--seeds 5] [--minutes 10]

Trains each config from several seeds, and finds the exact NashConv of what it leaves behind: what all seats
together could still gain by a best response, in the game's own units; 0 in an equilibrium. `last`: the newest
snapshot of main-0. `average`: `main-0:average`, the newest half of its snapshots as one competitor.

A line has the median of all seeds and their range, the env steps (decisions of all seats) and the minutes of
the run. `--minutes` ends runs earlier, and with them their schedules. `--runners 0` takes a single thread; if
env steps are the limit, it is repeatable to the bit. Nothing is kept: runs are in a temporary folder.

Liar's dice with two dice of five faces is judged over public histories, a minute for each snapshot, beside
PPO with the best settings of Rudolph et al. (arXiv 2502.08938). PPO takes hours; `--env-steps` limits both.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import league
from league.config.file import read
from league.exploit.exact import exact_each
from tests.bench.defaults import figures_of
from tests.bench.shared import parser_of

CONFIGS = Path(__file__).parents[2] / "configs"
LAST, AVERAGE = "main-0", "main-0:average"

PPO_OF_RUDOLPH = {
    "policy": {"hidden": [512, 512, 512], "activation": "tanh", "separate_value": True},
    "learner": {
        "loss": {"kind": "ppo", "clip": 0.025, "gae_lambda": 0.95},
        "lr": {"start": 6.25e-5, "end": 0.0},
        "entropy": 0.1,
        "epochs": 8,
        "batch_steps": 2048,
        "value": 0.0625,
        "gradient_norm": 0.5,
        "discount": 0.99,
        "magnet": None,
        "ema": None,
        "freeze": "live",
    },
    "rollout": {"slots": 512, "matches_per_request": 512},
}
"""Their best settings for liar's dice with two dice of five faces (github.com/nathanlct/IIG-RL-Benchmark,
best_hyperparameters). Theirs estimates advantages over the moves of both seats; ours of each seat alone."""


@dataclass(frozen=True)
class Case:
    """A config, what of it is judged, and what others reached."""

    config: str  # a file in configs/
    judged: tuple[str, ...]
    seeds: int
    limit: float | None  # NashConv that the best of `judged` is to reach; None: for comparison
    published: str  # figure and source
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reached:
    """What one run came to."""

    env_steps: int
    minutes: float
    nash_conv: Mapping[str, float]  # by what is judged


LEDUC = (
    "0.16-0.20 R-NaD, over 0.5e9 games (OpenSpiel's plot rnad_nashconv_leduc.png); 0.178 ARMAC, 22M; 0.36 "
    "QPG, 16M; 0.67 NFSP, 25M (openspiel_reproductions)"
)
LIAR = (
    "0.405 R-NaD by sampling, 0.0026 tabular CFR+ (a public study of R-NaD, with its own rules of wild dice)"
)
TWO_DICE = {"env": {"options": {"dice": 2, "faces": 5}}}
OF_PRESET = {"self_play": {"share": 0.8}, "window": {"share": 0.2}}
PAST = {"league": {"roles": {"main": {"opponents": {"branches": OF_PRESET}}}}}
"""A fifth of the matches against the newest of its past, as the preset self_play has it by itself."""
CASES: dict[str, Case] = {
    "kuhn_poker": Case("kuhn_poker.yaml", (LAST, AVERAGE), 5, 0.02, "0.05 PSRO, pool of 29 (OpenSpiel)"),
    "leduc_poker": Case("leduc_poker.yaml", (LAST, AVERAGE), 5, 0.15, LEDUC),
    "liars_dice": Case("liars_dice.yaml", (LAST, AVERAGE), 3, 0.10, LIAR),
    "leduc_table": Case("own_table.yaml", (LAST, AVERAGE), 3, 0.15, LEDUC),
    "leduc_poker_past": Case("leduc_poker.yaml", (LAST, AVERAGE), 3, None, LEDUC, PAST),
    "liars_dice_2x5": Case("liars_dice.yaml", (LAST,), 3, None, "only curves (arXiv 2502.08938)", TWO_DICE),
    "liars_dice_2x5_ppo": Case(
        "liars_dice.yaml", (LAST,), 3, None, "these settings: only curves", {**TWO_DICE, **PPO_OF_RUDOLPH}
    ),
}
BY_DEFAULT = ("kuhn_poker", "leduc_poker", "liars_dice")


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` on top, mapping by mapping; what has another `kind` or shape is replaced."""
    found = dict(base)
    for key, value in changes.items():
        below = found.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        found[key] = merged(below, value) if both and key not in ("lr", "entropy") else value
    return found


def config_of(case: Case, seed: int, stop: Mapping[str, float], runners: int | None) -> dict[str, Any]:
    """The settings of one run; `stop` is on top of the config's own limits."""
    config = merged(read(CONFIGS / case.config), case.changes)
    config |= {"seed": seed, "stop": {**config.get("stop", {}), **stop}}
    return config if runners is None else config | {"runners": runners}


def measure(case: Case, seed: int, stop: Mapping[str, float], runners: int | None) -> Reached:
    """Train from `seed` in a temporary folder, and judge."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        run = league.train(config_of(case, seed, stop, runners), Path(folder) / "run")
        minutes = (time.monotonic() - began) / 60.0
        found, env_steps = list(exact_each(run, case.judged)), figures_of(run)[0]
    return Reached(env_steps, minutes, {result.name: result.nash_conv for result in found})


def spread(values: Sequence[float], digits: int, unit: str = "") -> str:
    """Median and range, as "0.12 (0.10-0.15)"; a single value alone."""
    middle, low, high = (
        f"{value:.{digits}f}{unit}" for value in (statistics.median(values), min(values), max(values))
    )
    return middle if len(values) == 1 else f"{middle} ({low}-{high})"


def verdict(case: Case, runs: Sequence[Reached]) -> str:
    """Whether the median of the best competitor is within the limit."""
    if case.limit is None:
        return ""
    medians = (statistics.median(run.nash_conv[name] for run in runs) for name in case.judged)
    return f"{'within' if min(medians) <= case.limit else 'ABOVE'} {case.limit:g}"


def lines(name: str, case: Case, runs: Sequence[Reached]) -> Iterator[str]:
    """The lines of the table for one case, one for each competitor that is judged."""
    steps = spread([run.env_steps / 1e6 for run in runs], 1, "M")
    minutes = spread([run.minutes for run in runs], 1)
    said = verdict(case, runs)
    for judged in case.judged:
        figures = spread([run.nash_conv[judged] for run in runs], 3)
        what = "average" if judged == AVERAGE else "last"
        yield (
            f"{name:<20}  {case.config:<18}  {len(runs):>5}  {steps:>18}  {minutes:>18}  {what:<8}"
            f"{figures:<22}  {said:<13}  {case.published}"
        )


HEADING = (
    f"{'game':<20}  {'config':<18}  {'seeds':>5}  {'env steps':>18}  {'minutes':>18}  {'':<8}"
    f"{'NashConv':<22}  {'limit':<13}  published"
)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--games", nargs="+", choices=list(CASES), default=list(BY_DEFAULT))
    parser.add_argument("--seeds", type=int, help="from 0 on; default: 5 for poker, 3 for liar's dice")
    parser.add_argument("--minutes", type=float, help="limit of each run, beside those of its config")
    parser.add_argument("--env-steps", type=int, help="another such limit")
    parser.add_argument("--runners", type=int, help="in place of the config's number")
    arguments = parser.parse_args()
    stop = {"minutes": arguments.minutes, "env_steps": arguments.env_steps}
    stop = {key: value for key, value in stop.items() if value is not None}
    print(HEADING)
    for name in arguments.games:
        case = CASES[name]
        runs = [measure(case, seed, stop, arguments.runners) for seed in range(arguments.seeds or case.seeds)]
        for line in lines(name, case, runs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
