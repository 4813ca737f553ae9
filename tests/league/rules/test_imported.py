"""An imported snapshot is an opponent for snapshots_and_bots, and of no player of the league."""

import numpy as np
import pytest

from league.rules.building.builder import Clock, LeagueBuilder
from league.rules.building.resets import ResetSettings, reset_of
from league.rules.building.retirement import KeepSettings, retirements
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.pools import newcomers, rarest_pairs, snapshots_and_bots
from league.rules.presets import LeagueSettings
from league.rules.rating.rating import RatingSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import IMPORTED, MAIN, LivePlayer, Outcome, Snapshot

FRIEND = "main-0@9"  # its name is like those of main-0's own


@pytest.fixture
def it(make):
    """Two players with three snapshots each, and an imported one."""
    league = make.crowd("main-0", {}, snapshots={"main-0": 3, "x-0": 3})
    friend = Snapshot(FRIEND, FRIEND, IMPORTED, 9, 5000, None, "", 0, "mlp", 0.0, "imported")
    league.roster.admit(friend)
    league.standings.on_admit(friend, None)
    return league


def drawn(it, branch, **fields):
    view = it.view(branch, **fields)
    pool = view.branches[branch].pool(view)
    return {it.roster.id(i) for i in pool.candidates.tolist()}


@pytest.mark.parametrize("branch", ["pfsp", "nash"])
def test_who_draws_from_all_snapshots_draws_it(it, branch):
    assert FRIEND in drawn(it, branch)


@pytest.mark.parametrize("branch", ["past_main", "latest", "window", "forgotten", "peers"])
def test_it_is_nobodys_past(it, make, branch, monkeypatch):
    for limit in ("EXPLOITED_BELOW", "UNSAFE_BELOW"):
        monkeypatch.setattr(f"league.rules.matchmaking.branches.live_opponents.{limit}", 1.0)
    it.standings.record(make.games(*[("main-0", FRIEND, Outcome.LOSS)] * 20))
    assert FRIEND not in drawn(it, branch)
    main = it.roster.index("main-0")
    view = it.view("verification")
    pool = view.branches["verification"].unverified(main, view)
    assert it.roster.index(FRIEND) not in pool.candidates
    assert it.roster.index(FRIEND) not in view.snapshots_of("main-0")


def test_it_is_placed_and_played_for_the_record_as_any_newcomer(it):
    friend = it.roster.index(FRIEND)
    assert friend in newcomers(it.roster, it.standings).candidates
    assert friend in snapshots_and_bots(it.roster).candidates
    assert rarest_pairs(it.roster, it.standings)[-1].sum() == pytest.approx(1 / 7)


def test_the_matchmaker_seats_it_and_it_does_not_learn(it):
    roles = LeagueSettings(preset="pfsp").resolve()
    maker = Matchmaker(roles, num_seats=2, env="made-up", seed=0)
    batch = maker.next_matches(it.player, 500, it.roster, it.standings, np.random.default_rng(0), 0)
    seated = np.array(batch.competitors)[batch.seat] == FRIEND
    assert seated.any()
    assert not batch.learning[seated].any()


def test_its_updates_widen_nobodys_sigma_not_even_its_own(it):
    settings = RatingSettings(update_drift=0.1, anchors={FRIEND: 0})
    roster = Roster([LivePlayer("main-0", MAIN)])
    standings = Standings(roster, settings)
    first = Snapshot("main-0@0", "main-0", MAIN, 0, 0, None, "", 0, "mlp", 0.0, "due")
    friend = it.roster[FRIEND]
    for snapshot, parent in ((first, "main-0"), (friend, None)):
        roster.admit(snapshot)
        standings.on_admit(snapshot, parent)
    assert standings.anchors == [FRIEND]
    assert standings.ratings.sigma.tolist() == [settings.sigma, settings.sigma, settings.anchor_sigma]


def test_rules_of_how_many_stay_leave_it_alone(it):
    for role in (MAIN, "x"):
        rule = KeepSettings(snapshots=1, initial=False, newest=False)
        assert FRIEND not in [r.target for r in retirements(role, rule, it.roster, it.standings)]
    assert (
        it.roster.snapshots_of("main-0").tolist()
        == it.roster.indices([f"main-0@{i}" for i in range(3)]).tolist()
    )


@pytest.mark.parametrize("target", ["latest_main", "inherit", "initial"])
def test_nobody_is_reset_to_it_unless_it_is_named(it, target):
    rule = ResetSettings(probability=1.0, target=target)
    assert reset_of(it.player, rule, it.roster, it.standings, 0.0).target != FRIEND
    named = ResetSettings(probability=1.0, target="named", snapshot=FRIEND)
    assert reset_of(it.player, named, it.roster, it.standings, 0.0).target == FRIEND


def test_the_builder_takes_decisions_beside_it(it):
    builder = LeagueBuilder(LeagueSettings(freeze_every=10).resolve())
    clock = Clock(env_steps=100, updates=10, since_freeze=100, since_reset=100)
    clocks = {"main-0": clock, "x-0": clock}
    decisions = builder.decide(it.roster, it.standings, clocks, np.random.default_rng(0))
    assert {decision.player for decision in decisions} <= {"main-0", "x-0"}
    assert decisions
