"""When does a league pay? Six presets in eight games, most of them with circles, at equal env steps.

    python -m tests.bench.league_pays [--games rush blotto] [--presets self_play psro] [--steps 200000]

Each preset trains from the same seed with the learner of `league train GAME`, in one process without Ray, for
`--steps` decisions of all players together, or `--seconds` of the processor if these end first. A player
freezes 20 times in that many decisions of its own. Then:

    last, mixture   exact exploitability of main-0 and of `main-0:average` (`psro`: `:nash`), in score a seat
    response        where the tree is too large: what a response gains against the agent that was trained for
                    `--response` env steps (default: `--steps`; 0: none is), with its worth
    past            lowest score of the agent against earlier snapshots of mains of its run
    others          mean score of the agent against the agents of the other presets
    lowest          its lowest score against any of them or of their snapshots
    population      relative population performance: mean value of the games that its pool (the agent and
                    those snapshots) plays against the pools of the others, from -1 to 1 (Balduzzi et al.:
                    Open-ended learning in symmetric zero-sum games, ICML 2019, definition 3)

The agent is the newest snapshot of main-0; of `fictitious` and `psro` it is the mixture, of `population` the
best of its players. Scores are points per game, 0.5 for even, from one tournament of all agents and
`--snapshots` of each run: games won, or leads in score as a part of the most there can be. The lowest of
several scores is low by luck, too. A line of JSON for each training goes to `--out`, and a game and seed are
not trained again that are there. The table has medians and ranges over seeds. Needs the extra openspiel.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.solution.nash import zero_sum_nash
from analysis.solution.payoffs import Payoffs
from analysis.statistics.games import games_of
from league.arena.arena import Arena
from league.arena.matches import drawn_seed
from league.envs.trees import Inexact
from league.exploit.exact import exact_each
from league.exploit.measure import exploit
from league.exploit.settings import TrainingOptions
from storage.archive import open_reader
from tests.bench.defaults import CASES, Case, figures_of, trained
from tests.bench.shared import parser_of
from tests.bench.strength import spread

GAMES: dict[str, dict[str, Any]] = {
    "rush": {"id": "rush"},
    "blotto": {"id": "blotto"},
    "goofspiel": {"id": CASES["goofspiel"].env},
    "leduc_poker": {"id": "leduc_poker"},
    "liars_dice": {"id": "liars_dice"},
    "oshi_zumo": {"id": CASES["oshi_zumo"].env},
    "markov_soccer": {"id": CASES["markov_soccer"].env},
    "tron": {"id": "tron", "options": {"seats": 2}},
}
ALONE = {"main": {"opponents": {"branches": {"self_play": {"share": 1.0}, "window": {"share": 0.0}}}}}
PRESETS: dict[str, dict[str, Any]] = {
    "self_play": {"preset": "self_play", "roles": ALONE},
    "past": {"preset": "self_play"},
    "fictitious": {"preset": "fictitious"},
    "alphastar": {"preset": "alphastar_paper"},
    "population": {"preset": "population"},
    "psro": {"preset": "psro"},
}
LAST, AVERAGE, NASH = "main-0", "main-0:average", "main-0:nash"
AGENT = {"fictitious": AVERAGE, "psro": NASH, "population": "best"}  # of others: LAST
FREEZES = 20
COLUMNS = ("last", "mixture", "response", "past", "others", "lowest", "population", "seconds")


def train(game: str, preset: str, seed: int, options: Any, run: Path) -> float:
    """Train a preset; return the seconds of the processor that it took."""
    began = time.process_time()
    league = PRESETS[preset] | {"freeze_every": max(options.steps // FREEZES, 1)}
    more = {"league": league, "env": GAMES[game]}
    case, limit = Case(GAMES[game]["id"], {}, more=more), (options.seconds, options.steps)
    trained(case, [f"stop.env_steps={options.steps}", *options.set], seed, limit, run)
    return time.process_time() - began


def exploited(run: Path, preset: str, seed: int, options: Any) -> dict[str, Any]:
    """Exact exploitability of the last snapshot and of the mixture, or the bound by a trained response."""
    try:
        found = list(exact_each(run, [LAST, NASH if preset == "psro" else AVERAGE]))
        return {"last": found[0].exploitability, "mixture": found[1].exploitability}
    except Inexact:
        if options.response == 0:
            return {}
        budget = TrainingOptions(env_steps=options.response or options.steps, pairs=options.pairs, seed=seed)
        (one,) = exploit(run, [AGENT.get(preset, LAST)], training=budget)
        low, high = one.measurement.low, one.measurement.high
        return {"response": one.measurement.value, "interval": [low, high], "worth": one.measurement.worth}


def tournament(runs: Mapping[str, Path], seed: int, options: Any) -> dict[str, dict[str, float]]:
    """Scores of the agents, and values of the games that the pools play, by preset."""
    arena, names, of = Arena.of_runs(*runs.values(), slots=1024), list[str](), list[int]()
    for number, (preset, run) in enumerate(runs.items()):
        own = [s.snapshot_id for s in open_reader(run).snapshots() if s.role == "main"]
        past = own[:-1] or own
        chosen = {past[i] for i in np.linspace(0, len(past) - 1, options.snapshots).round().astype(int)}
        names += [AGENT.get(preset, LAST), *sorted(chosen, key=past.index)]
        of += [number] * (1 + len(chosen))
    seated, table, results = arena.seat(*names, runs=of), arena.table("league_pays", seed), []
    for a in range(len(names) - 1):  # one request has the matches of one competitor
        pairings = np.array([[a, b] for b in range(a + 1, len(names)) for _ in range(options.meetings)])
        first = a * len(names) * options.meetings
        matches = table.pairs(seated.names, pairings, first)
        results += arena.play(seated, matches, drawn_seed(seed, first))
    played = Payoffs.from_games(games_of(results, seated.names), arena.agreed.game.most_lead)
    who, scores = np.array(of), played.scores
    agents = np.array([of.index(number) for number in range(len(runs))])
    found = {}
    for number, preset in enumerate(runs):
        agent, own = agents[number], np.flatnonzero(who == number)
        rest = [other for other in range(len(runs)) if other != number]
        values = [zero_sum_nash(2.0 * scores[np.ix_(own, who == other)] - 1.0).value for other in rest]
        found[preset] = {
            "past": float(scores[agent, own[1:]].min()),
            "others": float(scores[agent, agents[rest]].mean()) if rest else math.nan,
            "lowest": float(scores[agent, who != number].min()) if rest else math.nan,
            "population": float(np.mean(values)) if rest else math.nan,
        }
    return found


def measured(game: str, seed: int, presets: Sequence[str], options: Any) -> Iterator[dict[str, Any]]:
    """Train, measure, and yield the line of each preset."""
    with contextlib.ExitStack() as stack:
        folder = options.runs or stack.enter_context(tempfile.TemporaryDirectory())
        runs = {preset: Path(folder) / f"{game}-{seed}" / preset for preset in presets}
        spent = {preset: train(game, preset, seed, options, run) for preset, run in runs.items()}
        scored = tournament(runs, seed, options)
        for preset, run in runs.items():
            yield {
                "game": game,
                "preset": preset,
                "seed": seed,
                "steps": options.steps,
                "env_steps": figures_of(run)[0],
                "snapshots": len(open_reader(run).snapshots()),
                "seconds": spent[preset],
                **exploited(run, preset, seed, options),
                **scored[preset],
            }


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of the table: a preset in a game, with medians and ranges over its seeds."""
    yield f"{'game':<14} {'preset':<11} {'seeds':>5}  " + "".join(f"{name:<24}" for name in COLUMNS)
    for game, preset in itertools.product(GAMES, PRESETS):
        own = [row for row in rows if (row["game"], row["preset"]) == (game, preset)]
        if not own:
            continue
        cells = []
        for name in COLUMNS:
            values = [row[name] for row in own if name in row]
            worth = "".join(sorted({row["worth"][0] for row in own if name == "response" and name in row}))
            text = spread(values, 0 if name == "seconds" else 3) + worth if values else ""
            cells.append(f"{text:<24}")
        yield f"{game:<14} {preset:<11} {len(own):>5}  " + "".join(cells)
    ranks = {preset: [row["others"] for row in rows if row["preset"] == preset] for preset in PRESETS}
    means = ", ".join(f"{name} {statistics.mean(of):.3f}" for name, of in ranks.items() if of)
    yield f"others, mean over games and seeds: {means}"
    yield "worth of responses: s settled, m may_rise, n nothing_learned"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--presets", nargs="+", choices=list(PRESETS), default=list(PRESETS))
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of the processor, each training")
    parser.add_argument("--response", type=int, help="env steps of a response")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--snapshots", type=int, default=4, help="of each run in the tournament")
    parser.add_argument("--meetings", type=int, default=32, help="pairs of games of each two competitors")
    parser.add_argument("--pairs", type=int, default=2000, help="seeds on which a response is measured")
    parser.add_argument(
        "--set", nargs="*", default=[], help="changes to the configs, such as learner.magnet=null"
    )
    parser.add_argument("--runs", type=Path, help="folder in which the runs are kept, as GAME-SEED/PRESET")
    parser.add_argument("--out", type=Path, default=Path("league_pays.jsonl"))
    options = parser.parse_args()
    known = (
        [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    )
    done = {(row["game"], row["seed"]) for row in known}
    for seed, game in itertools.product(options.seeds, options.games):
        if (game, seed) in done:
            continue
        for row in measured(game, seed, options.presets, options):
            with options.out.open("a") as file:
                print(json.dumps(row), file=file)
            known.append(row)
    print(*table(known), sep="\n")


if __name__ == "__main__":
    main()
