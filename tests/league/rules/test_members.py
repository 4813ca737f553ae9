"""Rules of single players on top of their role's, and roles that have no player yet."""

import numpy as np
import pytest

from league.config.file import ConfigError
from league.config.loading import load
from league.rules.building.builder import Clock, LeagueBuilder
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.presets import LeagueSettings
from league.rules.roster import Rules, rules_of
from storage.records import MAIN, LivePlayer, Role

FIRST, SECOND = LivePlayer("main-0", MAIN), LivePlayer("main-1", MAIN)


def league_of(members=None, **more):
    fields = {"preset": "self_play", "freeze_every": 1_000, "players": {"main": 2}, "members": members or {}}
    return LeagueSettings.model_validate(fields | more)


def test_settings_of_one_player_are_on_top_of_its_role():
    own = {"freeze": {"max_steps": 10}, "share": 3.0, "learner": {"lr": 1e-4}, "schedules": "freeze"}
    changed = {"main": {"learner": {"lr": 1e-3, "entropy": 0.1}, "freeze": {"min_steps": 5}}}
    rules = league_of({"main-1": own}, roles=changed).resolve()
    first, second = rules.of(FIRST), rules.of(SECOND)
    assert first == rules[MAIN]
    assert (first.freeze.max_steps, first.share, first.learner["lr"]) == (1_000, 1.0, 1e-3)
    assert (second.freeze.max_steps, second.freeze.min_steps, second.share) == (10, 5, 3.0)
    assert second.learner == {"lr": 1e-4, "entropy": 0.1}
    assert second.opponents == first.opponents


def test_a_player_is_frozen_by_its_own_condition(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1, "main-1": 1})
    builder = LeagueBuilder(league_of({"main-1": {"freeze": {"max_steps": 10}}}).resolve())
    clock = Clock(env_steps=20, updates=1, since_freeze=20, since_reset=20)
    clocks = {"main-0": clock, "main-1": clock}
    decided = builder.decide(it.roster, it.standings, clocks, np.random.default_rng(0))
    assert [decision.player for decision in decided] == ["main-1"]


def test_a_player_finds_opponents_by_its_own_branches(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1, "main-1": 1})
    own = {"opponents": {"branches": {"self_play": {"share": 1.0}, "window": {"share": 0.0}}}}
    kinds = {}
    for player in (FIRST, SECOND):
        rules = league_of({"main-1": own}).resolve()
        maker = Matchmaker(rules, num_seats=2, env="any", seed=1)
        rng = np.random.default_rng(0)
        batch = maker.next_matches(player, 200, it.roster, it.standings, rng, 0)
        kinds[player.player] = {batch.match_types[i] for i in np.unique(batch.match_type)}
    assert kinds == {"main-0": {"self_play", "window"}, "main-1": {"self_play"}}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"main-2": {"share": 2.0}}, r"members\.main-2: no such player; did you mean 'main-"),
        ({"main-1": {"freeze": {"max_stepz": 3}}}, r"members\.main-1\.freeze\.max_stepz.*max_steps"),
        ({"main-1": {"freese": {}}}, r"members\.main-1\.freese.*did you mean 'freeze'"),
        ({"main-1": {"share": 0}}, r"members\.main-1\.share: found 0"),
        ({"main-1": {"learner": {"lrr": 1.0}}}, r"league\.members\.main-1\.learner\.lrr.*did you mean 'lr'"),
        ({"main-1": {"opponents": {"branches": {"window": {"share": 0.9}}}}}, "members.main-1.*shares sum"),
        ({"main-1": {"keep": {"snapshots": 3}}}, r"members\.main-1\.keep"),
    ],
)
def test_a_mistake_in_a_players_own_settings_is_named(members, message):
    league = {"preset": "self_play", "players": {"main": 2}, "members": members}
    with pytest.raises(ConfigError, match=message):
        load({"env": {"id": "rock_paper_scissors"}, "league": league})


def test_a_role_without_players_has_rules_for_those_that_a_builder_adds():
    scout = {"opponents": {"branches": {"pfsp": {"share": 1.0}}}}
    league = league_of(players={"main": 1, "scout": 0}, roles={"scout": scout})
    assert league.resolve().of(LivePlayer("scout-7", Role("scout"))).opponents.share("pfsp") == 1.0
    assert list(league.player_names()) == [MAIN]
    preset = LeagueSettings(preset="alphastar_paper", players={"main": 1, "main_exploiter": 0})
    assert set(preset.resolve()) == {"main", "main_exploiter"}
    with pytest.raises(ValueError, match="or 'scout: 0' if your builder adds some"):
        league_of(players={"main": 1}, roles={"scout": scout})


def test_a_plain_mapping_has_rules_by_player_as_well():
    assert rules_of({MAIN: "all"}).of(FIRST) == "all"
    rules = Rules({MAIN: "all"}, {"main-1": "own"})
    assert rules_of(rules) is rules
    assert (rules.of(FIRST), rules.of(SECOND)) == ("all", "own")
    assert rules.places() == {"roles.main": "all", "members.main-1": "own"}
    with pytest.raises(KeyError):
        rules.of(LivePlayer("x-0", Role("x")))
