"""The state of a league is a fold: the same facts, in the same order, make the same league."""

import numpy as np
import pytest

from league.rules.presets import LeagueSettings
from league.rules.rating.rating import RatingSettings
from league.training.state.state import LeagueState
from storage.records import (
    IMPORTED,
    MAIN,
    MAIN_EXPLOITER,
    Add,
    Bot,
    Freeze,
    LivePlayer,
    Outcome,
    Remove,
    Reset,
    Retire,
    Snapshot,
)
from tests import made_up

FRIEND = Snapshot("main-0@5", "main-0@5", IMPORTED, 5, 9000, None, "hash", 1, "mlp", 0.0, "imported")


def snapshot(player, role, env_steps):
    return Snapshot(f"{player}@{env_steps}", player, role, env_steps, 1, None, "hash", 1, "mlp", 0.0, "test")


def results(home, away, games=8, first_id=0):
    """`home` wins all."""
    ids, learning = np.arange(first_id, first_id + games), [True, False]
    matches = made_up.matches((home, away), [[0, 1]] * games, learning=learning, match_id=ids)
    return made_up.results(matches, [[Outcome.WIN, Outcome.LOSS]] * games, score=[1.0, -1.0], env_steps=5)


FACTS = [
    LivePlayer("main-0", MAIN),
    LivePlayer("main_exploiter-0", MAIN_EXPLOITER),
    snapshot("main-0", MAIN, 0),
    Freeze(player="main-0", reason="initial weights"),
    snapshot("main_exploiter-0", MAIN_EXPLOITER, 0),
    results("main-0", "main_exploiter-0"),
    snapshot("main_exploiter-0", MAIN_EXPLOITER, 40),
    Reset(player="main_exploiter-0", reason="initial", target="main_exploiter-0@0"),
    results("main-0", "main_exploiter-0@40", first_id=8),
    Bot("random"),
]


@pytest.fixture
def fold():
    def make(facts=FACTS):
        state = LeagueState(LeagueSettings().resolve(), RatingSettings(), 0.99)
        for fact in facts:
            state.apply(fact)
        return state

    return make


def test_the_same_facts_make_the_same_league(fold):
    first, again = fold(), fold()
    assert first.standings.leaderboard() == again.standings.leaderboard()
    assert first.members == again.members
    assert first.totals == again.totals
    assert first.roster.ids == again.roster.ids


def test_facts_are_counted_and_players_know_where_they_come_from(fold):
    state = fold()
    assert (state.totals.env_steps, state.totals.matches, dict(state.match_mix)) == (80, 16, {"pfsp": 16})
    exploiter = state.members["main_exploiter-0"]
    assert (exploiter.initial, exploiter.parent) == ("main_exploiter-0@0", "main_exploiter-0@0")
    assert (exploiter.generation, exploiter.frozen_at) == (1, 40)
    assert state.tally.opponents == {("main-0", "main_exploiter-0"): 8, ("main-0", "main_exploiter-0@40"): 8}
    assert list(state.news) == [
        ("reset main_exploiter-0 to main_exploiter-0@0", "initial"),
        ("freeze main-0@0", "initial weights"),
    ]
    assert [s.snapshot_id for s in state.newest] == ["main_exploiter-0@40", "main_exploiter-0@0", "main-0@0"]
    assert state.standings.rating("main-0").games == 16


def test_a_removed_player_leaves_and_a_newcomer_starts_level_with_the_others(fold):
    state = fold()
    state.members["main-0"].matches_asked = 1000
    state.members["main_exploiter-0"].matches_asked = 900
    state.apply(Remove(player="main-0", reason="test"))
    assert list(state.members) == ["main_exploiter-0"]
    assert not len(state.roster.mains())
    state.apply(Add(player="main-1", role=MAIN, reason="test"))  # its player is a fact of its own
    state.apply(LivePlayer("main-1", MAIN))
    assert state.members["main-1"].matches_asked == 900
    assert state.roster.is_retired("main-0")
    assert state.roster.id(int(state.roster.mains()[0])) == "main-1"


def test_a_retired_snapshot_is_seated_no_more(fold):
    state = fold([*FACTS, Retire(player="main_exploiter-0", reason="test", target="main_exploiter-0@40")])
    assert [state.roster.id(i) for i in state.roster.snapshots()] == ["main-0@0", "main_exploiter-0@0"]


def test_results_give_the_ratings_that_changed(fold):
    changes = fold().apply(results("main-0", "main_exploiter-0@0", first_id=16))
    assert sorted(change.competitor for change in changes) == ["main-0", "main_exploiter-0@0"]


def test_an_imported_snapshot_is_seated_with_a_fresh_rating_and_touches_nobody(fold):
    before, state = fold(), fold([*FACTS, FRIEND])
    assert state.members == before.members
    assert state.totals == before.totals
    rows = state.standings.leaderboard()
    assert [row for row in rows if row.competitor != "main-0@5"] == before.standings.leaderboard()
    fresh = state.standings.rating("main-0@5")
    assert (fresh.mu, fresh.games) == (RatingSettings().mu, 0)
    assert fresh.sigma == pytest.approx(RatingSettings().sigma)
    assert state.standings.anchors == before.standings.anchors
    assert state.newest[0] == FRIEND
    assert [state.roster.id(i) for i in state.roster.snapshots_of("main-0")] == ["main-0@0"]
    assert "main-0@5" in [state.roster.id(i) for i in state.roster.snapshots()]


def test_an_imported_snapshot_is_rated_by_its_games_and_may_be_retired(fold):
    state = fold([*FACTS, FRIEND, results("main-0", "main-0@5", first_id=16)])
    rating = state.standings.rating("main-0@5")
    assert (rating.games, rating.mu < RatingSettings().mu) == (8, True)
    state.apply(Retire(player="main-0@5", reason="test", target="main-0@5"))
    assert state.roster.is_retired("main-0@5")


def test_a_player_frozen_behind_an_import_still_comes_from_its_own(fold):
    own = Snapshot("main-0@5-2", "main-0", MAIN, 5, 1, "main-0@0", "hash", 1, "mlp", 0.0, "due")
    state = fold([*FACTS, FRIEND, own, Freeze(player="main-0", reason="due")])
    assert (state.members["main-0"].parent, state.members["main-0"].frozen_at) == ("main-0@5-2", 5)
    assert state.news[0] == ("freeze main-0@5-2", "due")
