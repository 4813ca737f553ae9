"""The field of the round robin: the newest snapshots, and what they meet."""

from __future__ import annotations

from league.rules.roster import Roster
from league.rules.standings import Standings
from league.training.round_robin import ENOUGH, NEWEST, next_pairs
from league.training.state.tally import Placed, pair_of
from storage.records import MAIN, Bot, LivePlayer, Role, Snapshot


def league(snapshots: int, *bots: str) -> tuple[Roster, Standings]:
    players = [LivePlayer("main-0", MAIN), *(Bot(name) for name in bots)]
    frozen = [
        Snapshot(f"main-0@{i}", "main-0", Role("main"), i, i, None, "", 0, "mlp", 0.0, "")
        for i in range(snapshots)
    ]
    roster = Roster([*players, *frozen])
    return roster, Standings(roster)


def test_the_newest_snapshot_plays_first():
    pairs = next_pairs(*league(10, "random"), Placed(), 5)
    assert len(pairs) == 5
    placed = Placed()
    placed.games.update(dict.fromkeys(next_pairs(*league(9, "random"), Placed(), 100), 32))
    assert all("main-0@9" in pair for pair in next_pairs(*league(10, "random"), placed, 5))


def test_it_meets_other_new_ones_the_best_rated_the_oldest_and_bots():
    roster, standings = league(20, "random")
    standings.ratings.mu[roster.index("main-0@7")] = 40.0
    pairs = next_pairs(roster, standings, Placed(), 100)
    met = {name for pair in pairs if "main-0@19" in pair for name in pair}
    assert {f"main-0@{20 - i}" for i in range(1, NEWEST + 1)} <= met
    assert {"main-0@0", "main-0@7", "random"} <= met


def test_pairs_that_played_enough_play_no_more():
    roster, standings = league(4)
    placed = Placed()
    pairs = next_pairs(roster, standings, placed, 100)
    placed.games.update({pair_of(*pair): ENOUGH for pair in pairs})
    assert next_pairs(roster, standings, placed, 100) == []


def test_before_there_are_two_competitors_nothing_is_played():
    assert next_pairs(*league(0, "random"), Placed(), 8) == []
    assert next_pairs(*league(1), Placed(), 8) == []
