"""How fast matches are drawn from a large league, on one core, beside the goal of 10,000 a second.

    python -m tests.bench.matchmaking [--snapshots 1000] [--request 256]

For every preset that draws opponents: a main with a payoff against all snapshots asks for matches.
"""

from __future__ import annotations

import time

import numpy as np

from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.presets import PRESETS, LeagueSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, LivePlayer, Outcome, Snapshot
from tests.bench.shared import parser_of

GOAL = 10_000  # matches per second
SECONDS = 1.0  # of drawing, for each preset


def crowd(snapshots: int) -> tuple[LivePlayer, Roster, Standings]:
    """A main that has met each of its snapshots ten times, and some of the snapshots each other."""
    player, rng = LivePlayer("main-0", MAIN), np.random.default_rng(0)
    roster = Roster([player, LivePlayer("main-1", MAIN)])
    standings = Standings(roster)
    for i in range(snapshots):
        snapshot = Snapshot(f"main-0@{i}", "main-0", MAIN, i, i, None, "hash", 1, "mlp", 0.0, "benchmark")
        roster.admit(snapshot)
        standings.on_admit(snapshot, parent=None)
    away = np.repeat(np.arange(2, 2 + snapshots), 10)
    outcome = np.where(rng.random(len(away)) < 0.6, Outcome.WIN, Outcome.LOSS).astype(np.int8)
    standings.payoff.record(np.zeros_like(away), away, outcome)
    home = rng.integers(2, 2 + snapshots, size=20 * snapshots)
    standings.payoff.record(home, np.roll(home, 1), rng.choice(3, size=len(home)).astype(np.int8))
    return player, roster, standings


def matches_per_second(preset: str, snapshots: int, request: int) -> float:
    player, roster, standings = crowd(snapshots)
    roles = LeagueSettings(preset=preset).resolve()
    maker = Matchmaker(roles, MatchmakingSettings(), num_seats=2, env="benchmark", seed=0)
    rng, drawn = np.random.default_rng(0), 0
    maker.next_matches(player, request, roster, standings, rng, 0)  # mixtures of the pool are found once
    began = time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        maker.next_matches(player, request, roster, standings, rng, drawn)
        drawn += request
    return drawn / (time.perf_counter() - began)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--snapshots", type=int, default=1000)
    parser.add_argument("--request", type=int, default=256)
    arguments = parser.parse_args()
    print(f"{'preset':<22}{'matches/s':>12}{'of the goal':>14}")
    for preset in PRESETS:
        rate = matches_per_second(preset, arguments.snapshots, arguments.request)
        print(f"{preset:<22}{rate:>12,.0f}{rate / GOAL:>14.1f}")


if __name__ == "__main__":
    main()
