"""Whether `league train GAME` learns in games that no shipped config is for.

    python -m tests.bench.defaults [--games hex othello] [--settings old new] [--seeds 0 1] [--seconds 300]

Trains each game from its id (with a player for each kind of seat), in one process without Ray, and measures
the newest snapshot against fixed opponents. `new`: what that command sets. `old`: the defaults of a config,
by their values. Any other name is one of the search.

Every training has the same budget: `--seconds` of the processor's time and `--env-steps`, whichever ends
first. Progress, which schedules follow, is the part of that which is spent, so other work on the machine
changes little. A score of 0 is random play and 1 what could be hoped for (`Case`). A line of JSON for each
training goes to `--out`, and is not trained again if it is there. `--table` prints these lines as a table:
ratios to the best of the search, which is chosen on the lowest seed and measured on the others, if any.
Five games are held apart from the search and have a star: breakthrough, oshi_zumo, phantom_ttt, knights and
acrobot.

Needs the extras openspiel and pettingzoo, and rlcard, mpe2, pygame and box2d.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

import league
from league.arena.evaluation import evaluate
from league.config.loading import of_game
from league.training.run_clock import RunClock
from storage.archive import open_reader
from tests.bench.shared import parser_of


@dataclass(frozen=True)
class Case:
    """A game, and how its snapshots are scored.

    `points`: the share of points against each opponent above `base` (its share against random play), as a
    part of what is left up to 1, on average. `returns`: the mean return, from `low` to `high`. `worst`: twice
    the least share of points against any opponent, 1 in an equilibrium.
    """

    env: str
    opponents: Mapping[str, float]  # name and base of each; a game of one seat has none
    episodes: int = 200
    measure: str = "points"
    low: float = 0.0
    high: float = 1.0
    more: Mapping[str, Any] | None = None  # of the config
    apart: bool = False  # held apart from the search


RANDOM = {"random": 0.5}
SEARCHED = {"random": 0.5, "mcts": 0.0}
ALONE = {"league": {"preset": "none"}}
TAG = {
    "league": {
        "preset": "self_play",
        "players": {"main": 2},
        "members": {"main-0": {"seats": [0, 1, 2]}, "main-1": {"seats": [3]}},
    },
    "matchmaking": {"teams": [3, 1]},
}
KNIGHTS = {"env": {"options": {"kwargs": {"max_cycles": 300}}}}
HANDS = ("all_rock", "all_paper", "all_scissors")
BOTS = {
    "mcts": {"kind": "mcts", "simulations": 10},
    **{name: {"use": "tests.bench.defaults:always", "action": n} for n, name in enumerate(HANDS)},
}
CASES: dict[str, Case] = {
    "hex": Case("openspiel:hex(board_size=5)", SEARCHED),
    "breakthrough": Case("openspiel:breakthrough(rows=6,columns=6)", SEARCHED, apart=True),
    "othello": Case("openspiel:othello", SEARCHED, 100),
    "oshi_zumo": Case("openspiel:oshi_zumo", RANDOM, apart=True),
    "goofspiel": Case("openspiel:goofspiel(num_cards=5,points_order=descending,imp_info=True)", RANDOM, 1000),
    "backgammon": Case("openspiel:backgammon", RANDOM, 100),
    "phantom_ttt": Case("openspiel:phantom_ttt", RANDOM, 500, apart=True),
    "markov_soccer": Case("openspiel:turn_based_simultaneous_game(game=markov_soccer())", RANDOM),
    "texas_holdem": Case("pettingzoo:classic/texas_holdem_v4", RANDOM, 1000, "returns", 0.0, 2.0),
    "rps": Case("pettingzoo:classic/rps_v2", dict.fromkeys(HANDS, 0.0), 100, "worst"),
    "simple_tag": Case("pettingzoo:mpe2/simple_tag_v3", RANDOM, 100, "returns", 0.0, 100.0, TAG),
    "knights": Case(
        "pettingzoo:butterfly/knights_archers_zombies_v11", RANDOM, 16, "returns", 0.0, 2.0, KNIGHTS, True
    ),
    "lunar_lander": Case("gymnasium:LunarLander-v3", {}, 40, "returns", -180.0, 200.0, ALONE),
    "acrobot": Case("gymnasium:Acrobot-v1", {}, 40, "returns", -500.0, -80.0, ALONE, True),
}


def always(
    observation: npt.NDArray, mask: npt.NDArray, rng: np.random.Generator, action: int
) -> npt.NDArray[np.int64]:
    """Choose the same action each time."""
    return np.full(len(mask), action)


BEFORE = (
    "league.preset=alphastar_paper",
    "learner.loss=appo",
    "learner.batch_steps=4096",
    "learner.epochs=1",
    "learner.lr=5e-4",
    "learner.entropy=0.01",
    "learner.magnet=null",
)
FREE, NEAR, MIXED = "learner.magnet=null", "learner.discount=0.99", "learner.shuffle=true"
WIDE = "learner.entropy={start: 0.05, end: 0.01}"
SLOW = (FREE, MIXED, "learner.entropy={start: 0.05, end: 0.005}", "learner.lr={start: 1e-3, end: 1e-5}")
SETTINGS: dict[str, tuple[str, ...]] = {
    "new": (),
    "old": BEFORE,
    "near": (NEAR,),
    "wide": (WIDE,),
    "free": (FREE, WIDE),
    "free_near": (FREE, WIDE, NEAR),
    "free_0.3": (FREE, "learner.entropy={start: 0.3, end: 0.05}"),
    "free_average": (FREE, WIDE, "learner.ema.decay=0.99", "learner.freeze=ema"),
    "free_appo": (FREE, WIDE, "learner.loss=appo"),
    "slow": SLOW,
    "slow_near": (*SLOW, NEAR),
    "slow_wide": (*SLOW, NEAR, "learner.entropy={start: 0.1, end: 0.02}"),
    "slow_512": (*SLOW, "learner.batch_steps=512"),
    "slow_appo": (*SLOW, "learner.loss=appo"),
    "fast": (*SLOW, "learner.lr={start: 2e-3, end: 1e-5}"),
    "constant": (FREE, MIXED, "learner.entropy=0.01", "learner.lr=5e-4"),
}
"""What the command sets, the defaults, and the search: each as changes to the first."""


class Budget(RunClock):
    """Clock of a run whose share is the part of the processor's time or of the env steps that is spent."""

    limit: tuple[float, int]

    def begin(self) -> None:
        super().begin()
        self._before = time.process_time()

    def share(self) -> float:
        seconds, env_steps = self.limit
        return max((time.process_time() - self._before) / seconds, self._totals.played_steps / env_steps)


def trained(case: Case, changes: Sequence[str], seed: int, limit: tuple[float, int], run: Path) -> None:
    """Train a league in the game of `case` within `limit`, seconds of the processor and env steps."""
    more = dict(case.more or {})
    if "league" in more:  # its own preset
        changes = [change for change in changes if not change.startswith("league.")]
    config = {
        **of_game(case.env),
        **more,
        "env": {"id": case.env, **more.get("env", {})},
        "stop": {"env_steps": 10**9},
    }
    if own := {name: BOTS[name] for name in case.opponents if name in BOTS}:
        config["bots"] = own
    with mock.patch("league.training.session.RunClock", type("Limited", (Budget,), {"limit": limit})):
        league.train(config, run, overrides=[*changes, f"seed={seed}"])


def scored(case: Case, run: Path) -> tuple[float, dict[str, float]]:
    """Score of the newest snapshot as it samples, and what it comes from, by opponent."""
    if not case.opponents:
        found = {"return": evaluate(run, "main-0", episodes=case.episodes).returned.mean}
    elif case.measure == "returns":
        result = evaluate(run, "main-0", opponent="random", episodes=case.episodes)
        found = {"random": result.returned.mean}
    else:
        found = {}
        for name in case.opponents:
            result = evaluate(run, "main-0", opponent=name, episodes=case.episodes)
            assert result.score is not None
            found[name] = result.score.mean
    if case.measure == "worst":
        return 2.0 * min(found.values()), found
    bases = case.opponents.values() if case.measure == "points" else [case.low]
    top = 1.0 if case.measure == "points" else case.high
    each = [
        (mean - base) / (top - base) for mean, base in zip(found.values(), bases or [case.low], strict=True)
    ]
    return statistics.mean(each), found


def measured(game: str, name: str, seed: int, seconds: float, env_steps: int) -> dict[str, Any]:
    """Train in a temporary folder and score; return the line of the training."""
    case, began = CASES[game], time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        trained(case, SETTINGS[name], seed, (seconds, env_steps), run)
        spent, steps, updates = time.process_time() - began, *figures_of(run)
        score, found = scored(case, run)
    return {
        "game": game,
        "settings": name,
        "seed": seed,
        "seconds": seconds,
        "spent": round(spent, 1),
        "env_steps": steps,
        "updates": updates,
        "score": round(score, 4),
        **{key: round(value, 4) for key, value in found.items()},
    }


def figures_of(run: Path) -> tuple[int, int]:
    """Env steps of the run, and updates of its newest snapshot of main-0."""
    snapshots = [s for s in open_reader(run).snapshots() if s.player == "main-0"]
    return max(s.env_steps for s in snapshots), max(s.updates for s in snapshots)


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table: mean scores of the defaults, of the command, and of the best other setting.

    The best is chosen on the lowest seed, and scored on the others if it has any.
    """
    yield f"{'game':<15} {'old':>7} {'new':>7} {'searched':>9} {'ratio':>6}  {'by':<14} {'env steps':>9}"
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for game, case in CASES.items():
        of = defaultdict[str, dict[int, float]](dict)
        for row in rows:
            if row["game"] == game:
                of[row["settings"]][row["seed"]] = row["score"]
        found = {name: statistics.mean(scores.values()) for name, scores in of.items()}
        others = {name: scores for name, scores in of.items() if name not in ("old", "new")}
        best, searched, ratio = "", float("nan"), float("nan")
        if others and "new" in found:
            best = max(others, key=lambda name: others[name][min(others[name])])
            again = sorted(others[best])[1:] or sorted(others[best])
            searched = statistics.mean(others[best][seed] for seed in again)
            ratio = found["new"] / searched if searched > 0 else float("nan")
            ratios[case.apart].append(ratio)
        steps = [row["env_steps"] for row in rows if (row["game"], row["settings"]) == (game, "new")]
        old, new = (found.get(name, float("nan")) for name in ("old", "new"))
        yield (
            f"{game + ' *' * case.apart:<15} {old:>7.3f} {new:>7.3f} {searched:>9.3f} {ratio:>6.2f}"
            f"  {best:<14} {statistics.mean(steps or [0]):>9,.0f}"
        )
    for apart, title in ((False, "searched games"), (True, "* held apart")):
        if given := [ratio for ratio in ratios[apart] if not math.isnan(ratio)]:
            yield f"{title}: ratio {statistics.median(given):.2f} in the median, {min(given):.2f} at worst"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--games", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=["old", "new"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=300.0, help="of the processor, for each training")
    parser.add_argument("--env-steps", type=int, default=10**8)
    parser.add_argument("--out", type=Path, default=Path("defaults.jsonl"))
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    known = (
        [json.loads(line) for line in arguments.out.read_text().splitlines()]
        if arguments.out.exists()
        else []
    )
    if arguments.table:
        print(*table(known), sep="\n")
        return
    done = {(row["game"], row["settings"], row["seed"], row["seconds"]) for row in known}
    for seed in arguments.seeds:
        for name in arguments.settings:
            for game in arguments.games:
                if (game, name, seed, arguments.seconds) in done:
                    continue
                row = measured(game, name, seed, arguments.seconds, arguments.env_steps)
                with arguments.out.open("a") as file:
                    print(json.dumps(row), file=file)
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
