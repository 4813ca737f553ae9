"""The table of branches, and a user's own."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

import analysis
import league
from league.config.file import ConfigError
from league.config.loading import load
from league.import_paths import OwnCodeFailed
from league.rules.matchmaking.branches import BRANCHES, MATCH_TYPES, Branch, OpponentSettings
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.presets import LeagueSettings
from league.rules.roles import RoleSettings
from storage.records import MAIN

ROOT = Path(__file__).parents[5]
OWN = "own_branches:Upstairs"
MODULE = """
import numpy as np
from pydantic import Field
from league.rules.matchmaking.branches import Branch, WeightedBranch

class Upstairs(Branch):
    most: int = Field(default=5, ge=1)
    def candidates(self, view):
        snapshots = view.roster.snapshots()
        mu = view.standings.ratings.mu
        above = snapshots[mu[snapshots] > mu[view.home]]
        return above[np.argsort(-mu[above])][: self.most]

class Rivals(WeightedBranch):
    def candidates(self, view):
        return view.other_mains()

class Retired(Branch):
    def candidates(self, view):
        return view.roster.snapshots_of("main-0")

class Names(Branch):
    def candidates(self, view):
        return list(view.roster.ids)

class Beyond(Branch):
    def candidates(self, view):
        return [len(view.roster)]

class Empty(Branch):
    def candidates(self, view):
        return []

class Idle(Branch):
    pass

class window(Empty):
    pass

class NoBranch:
    pass
"""


@pytest.fixture(autouse=True)
def own_branches(own_module):
    own_module("own_branches", MODULE)


def opponents(branches, **fields):
    return OpponentSettings.model_validate({"branches": branches, **fields})


def made(branches, num_seats=2, **fields):
    roles = {MAIN: RoleSettings(opponents=opponents(branches, **fields))}
    return Matchmaker(roles, num_seats=num_seats, env="made-up", seed=0)


def drawn(it, branches, n=200, **fields):
    batch = made(branches, **fields).next_matches(
        it.player, n, it.roster, it.standings, np.random.default_rng(0), 0
    )
    kinds = {batch.match_types[kind] for kind in batch.match_type}
    seats = np.array(batch.competitors)[batch.seat]
    return kinds, set(seats[seats != "main-0"])


def test_every_branch_is_a_match_type():
    assert MATCH_TYPES[: len(BRANCHES)] == tuple(BRANCHES)
    assert len(set(MATCH_TYPES)) == len(MATCH_TYPES)


@pytest.mark.parametrize("name", BRANCHES)
def test_every_branch_alone_draws_and_is_recorded_by_a_match_type(make, name):
    it = make.crowd("main-0", {}, snapshots={"main-0": 2, "main-1": 2, "x-0": 2}, bots=("random",))
    kinds, _ = drawn(it, {name: {"share": 1.0}}, bots={"random": 1})
    assert kinds <= set(BRANCHES)
    assert name in kinds or name in {"mains", "verification", "forgotten"}


@pytest.mark.parametrize("name", BRANCHES)
def test_every_branch_explains_itself_and_its_settings(name):
    assert BRANCHES[name].__doc__ != Branch.__doc__
    assert all(field.description for field in BRANCHES[name].model_fields.values())


@pytest.mark.parametrize(
    ("branch", "message"),
    [
        ({"pfsp": {"share": 1.0, "window": 3}}, "window"),
        ({"pfsp": {"share": 1.0, "weighting": "uniform", "exponent": 7}}, "exponent: found 7, but weighting"),
        ({"pfsp": {"share": 1.0, "meta_strategy": "replicator"}}, "meta_strategy"),
        ({"self_play": {"share": 1.0, "weighting": "uniform"}}, "weighting"),
        ({"bots": {"share": 1.0, "exponent": 3.0}}, "exponent"),
        ({"latest": {"share": 1.0, "window": 3}}, "window"),
        ({"nash": {"share": 1.0, "weighting": "linear"}}, "weighting"),
        ({"nash": {"share": 1.0, "refresh_game": 5}}, "did you mean 'refresh_games'"),
        ({"window": {"share": 1.0, "widnow": 5}}, "did you mean 'window'"),
    ],
)
def test_keys_that_a_branch_does_not_have_are_refused(branch, message):
    with pytest.raises(ValidationError, match=message):
        opponents(branch)


def test_an_unknown_key_of_a_branch_is_named_with_its_whole_path():
    branches = "league.roles.main.opponents.branches"
    with pytest.raises(ConfigError) as refused:
        load({"env": {"id": "tic_tac_toe"}}, [f"{branches}.pfsp.expnent=3", f"{branches}.forgotten.window=3"])
    assert f"unknown key '{branches}.pfsp.expnent'; did you mean 'exponent'?" in str(refused.value)
    assert f"unknown key '{branches}.forgotten.window'; expected one of: " in str(refused.value)


@pytest.mark.parametrize(
    "roles",
    [
        {"main": {"share": 8, "opponents": {"branches": {"pfsp": {"weighting": "uniform"}}}}},
        {
            "main": {
                "share": 8,
                "opponents": {
                    "branches": {
                        "self_play": {"share": 1.0},
                        "pfsp": {"share": 0.0},
                        "forgotten": {"share": 0.0},
                    }
                },
            }
        },
    ],
    ids=["tic_tac_toe", "kuhn_poker"],
)
def test_the_roles_of_runs_that_were_recorded_before_still_load(roles):
    players = {"main": 1, "main_exploiter": 1, "league_exploiter": 1}
    settings = LeagueSettings(preset="alphastar_paper", freeze_every=400_000, players=players, roles=roles)
    again = LeagueSettings.model_validate(settings.model_dump(mode="json"))
    assert again.resolve() == settings.resolve()
    dumped = {role: rules.model_dump(mode="json") for role, rules in settings.resolve().items()}
    assert {role: RoleSettings.model_validate(rules) for role, rules in dumped.items()} == settings.resolve()


# ---------------------------------------------------------------- a branch of one's own


def test_a_branch_of_ones_own_draws_its_candidates_under_its_name(make):
    it = make.crowd("main-0", {"main-0@0": 0.3, "main-0@1": 0.2, "main-0@2": 0.7}, snapshots={"main-0": 3})
    assert drawn(it, {"Upstairs": {"use": OWN, "share": 1.0, "most": 1}}) == ({"Upstairs"}, {"main-0@1"})
    assert drawn(it, {"Upstairs": {"use": OWN, "share": 1.0}}) == ({"Upstairs"}, {"main-0@0", "main-0@1"})
    kinds, _ = drawn(it, {"Upstairs": {"use": OWN, "share": 0.5}, "window": {"share": 0.5}})
    assert kinds == {"Upstairs", "window"}


def test_a_weighted_branch_of_ones_own_takes_a_weighting_and_plays_live_mains(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1, "main-1": 1})
    branch = {"Rivals": {"use": "own_branches:Rivals", "share": 1.0, "weighting": "uniform"}}
    assert drawn(it, branch) == ({"Rivals"}, {"main-1"})


def test_a_branch_of_ones_own_without_candidates_falls_back(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1})
    assert drawn(it, {"Empty": {"use": "own_branches:Empty", "share": 1.0}}) == ({"self_play"}, set())


@pytest.mark.parametrize(
    ("branch", "message"),
    [
        ({"Upstairs": {"use": OWN, "share": 1.0, "mots": 3}}, "unknown key 'mots'; did you mean 'most'"),
        ({"Upstairs": {"use": OWN, "share": 1.0, "most": 0}}, "most: found 0; input should be greater"),
        ({"Upstair": {"use": "own_branches:Upstair", "share": 1.0}}, "did you mean 'Upstairs'"),
        ({"Upstairs": {"use": "own_branche:Upstairs", "share": 1.0}}, "cannot be imported"),
        ({"NoBranch": {"use": "own_branches:NoBranch", "share": 1.0}}, "expected a subclass of .*Branch"),
        ({"Idle": {"use": "own_branches:Idle", "share": 1.0}}, r"has no candidates\(view\)"),
        ({"window": {"use": "own_branches:window", "share": 1.0}}, "'window', which is one of ours"),
        (
            {"Rivals": {"use": "own_branches:Rivals", "share": 1.0, "weighting": "own_branches:none"}},
            "has no 'none'",
        ),
    ],
)
def test_a_branch_of_ones_own_that_cannot_be_used_is_refused(branch, message):
    with pytest.raises(ValueError, match=message):
        made(branch)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Retired", "candidate 'main-0@0' is retired"),
        ("Names", "expected indices of the roster"),
        ("Beyond", "expected indices of the roster, from 0 to 3"),
    ],
)
def test_candidates_that_cannot_be_played_are_refused(make, name, message):
    it = make.crowd("main-0", {}, snapshots={"main-0": 3})
    it.roster.retire("main-0@0")
    place = f"league.roles.main.opponents.branches.{name} own_branches:{name}"
    with pytest.raises(OwnCodeFailed, match=f"{place}: branch '{name}': .*{message}"):
        drawn(it, {name: {"use": f"own_branches:{name}", "share": 1.0}})


def test_settings_that_are_only_read_import_no_code():
    roles = {
        "main": {
            "opponents": {"branches": {"self_play": {"share": 0.0}, "Own": {"use": "gone:Own", "share": 1.0}}}
        }
    }
    read = LeagueSettings.model_validate({"preset": "none", "roles": roles})
    assert read.resolve()["main"].opponents.share("Own") == 1.0


@pytest.mark.long
def test_the_example_of_a_branch_of_ones_own_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    settings = load(ROOT / "configs/own_branch.yaml", ["stop.env_steps=20000", "league.freeze_every=5000"])
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        shares = history.sql(
            "SELECT match_type, count(*) AS n FROM matches WHERE purpose = 'training' GROUP BY 1"
        )
    counts = dict(zip(shares["match_type"], shares["n"], strict=True))
    assert set(counts) == {"self_play", "Nemesis"}
    assert counts["Nemesis"] / sum(counts.values()) == pytest.approx(0.5, abs=0.1)


def test_the_example_of_a_branch_of_ones_own_refuses_keys_that_it_does_not_have():
    fields = {
        "env": {"id": "rock_paper_scissors"},
        "league": {
            "preset": "none",
            "roles": {
                "main": {
                    "opponents": {
                        "branches": {
                            "self_play": {"share": 0.5},
                            "Nemesis": {"use": "configs.own_branch:Nemesis", "share": 0.5, "mots": 3},
                        }
                    }
                }
            },
        },
    }
    with pytest.raises(ConfigError, match=r"own_branch:Nemesis': unknown key 'mots'; did you mean 'most'"):
        load(fields)


def test_a_branch_is_weighted_as_befits_it_unless_told_otherwise():
    shares = {"pfsp": 0.25, "window": 0.25, "peers": 0.5}
    settings = OpponentSettings.model_validate({"branches": {b: {"share": s} for b, s in shares.items()}})
    assert {b: found.weighting for b, found in settings.branches.items()} == {
        "pfsp": "hard",
        "window": "uniform",
        "peers": "bell",
    }
    told = OpponentSettings.model_validate({"branches": {"window": {"share": 1.0, "weighting": "hard"}}})
    assert told.branches["window"].weighting == "hard"
    assert OpponentSettings.model_validate(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"branches": {"self_play": {"share": 0.5}}}, "shares sum to 0.5 .*expected 1"),
        ({"branches": {}}, "there are none"),
        ({"branches": {"self-play": {"share": 1.0}}}, "did you mean 'self_play'"),
        ({"branches": {"pfsp": {"share": 1.0, "weighting": "hrad"}}}, "did you mean 'hard'"),
        ({"branches": {"placement": {"share": 1.0}}}, "no branch is called 'placement'"),
        ({"branches": {"window": {"share": 1.0, "window": 0}}}, "greater than or equal to 1"),
        ({"branches": {"nash": {"share": 1.0, "meta_strategy": "nahs"}}}, "'nash', 'uniform'"),
        ({"branches": {"bots": {"share": 1.0}}}, "bots: there are none, .*such as bots: {random: 1}"),
        ({"branches": {"pfsp": {"share": 1.0}}, "bots": {"random": 0}}, "greater than 0"),
        ({"branches": {"pfsp": {"share": 1.0}}, "evaluation": 1.0}, "less than 1"),
        ({"branches": {"pfsp": {"share": 1.0}}, "placement": 1.1}, "less than or equal to 1"),
        ({"branches": {"pfsp": {"share": 1.0}}, "evaluate": "all"}, "'player' or 'pool'"),
    ],
)
def test_contradictory_branches_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        OpponentSettings.model_validate(fields)
