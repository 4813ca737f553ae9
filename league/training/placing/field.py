"""The field of the round robin, and the pairs of it that have played least."""

from __future__ import annotations

import itertools

import numpy as np

from league.rules.roster import Roster
from league.rules.standings import Standings
from league.training.placing.placed import Placed, pair_of
from storage.records import MAIN

NEWEST = 6  # snapshots that are placed, or two of each main
BEST = 2  # other snapshots that they meet, by their ratings
BOTS = 2  # that they meet, beside the oldest snapshot
ENOUGH = 256  # matches of a pair


def next_pairs(roster: Roster, standings: Standings, placed: Placed, most: int) -> list[tuple[str, str]]:
    """Return up to `most` pairs that have played least, none that has played enough, the newest first.

    At least one of each pair is among the newest snapshots of mains (of a league without mains: of all
    players). The others are those, the best rated, the oldest, and bots.
    """
    snapshots = roster.snapshots(MAIN)
    if not len(snapshots):
        snapshots = roster.snapshots()
    if not len(snapshots):
        return []
    placing = max(NEWEST, 2 * len(roster.mains()))
    newest, older = snapshots[-placing:], snapshots[:-placing]
    best = older[np.argsort(-standings.ratings.mu[older], kind="stable")[:BEST]]
    others = dict.fromkeys([*best.tolist(), *snapshots[:1].tolist()])
    fixed = [roster.id(i) for i in others if i not in newest] + [bot.name for bot in roster.bots[:BOTS]]
    names = [roster.id(i) for i in newest.tolist()[::-1]]
    pairs = [*itertools.combinations(names, 2), *itertools.product(names, fixed)]
    found = [pair for pair in pairs if placed.of(*pair) < ENOUGH]
    lacking = {name: sum(placed.games[pair_of(name, other)] for other in [*names, *fixed]) for name in names}
    found.sort(key=lambda pair: (placed.of(*pair), min(lacking.get(name, ENOUGH**2) for name in pair)))
    return found[:most]
