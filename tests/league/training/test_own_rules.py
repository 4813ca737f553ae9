"""A user's own rules in training: a bug in them is one message, and the run is kept."""

import re

import pytest
import yaml

import analysis
import league
from league.import_paths import OwnCodeFailed
from storage.archive import open_reader

MODULE = """
import numpy as np
from league.extend import Add, Branch, Freeze, LeagueBuilder

class Late(LeagueBuilder):
    def decide(self, roster, standings, clocks, rng):
        if clocks["main-0"].since_freeze > 600:
            return clocks["main-9"]
        return []

class Scouting(LeagueBuilder):
    def __init__(self, roles, after):
        super().__init__(roles)
        self.after = after
    def decide(self, roster, standings, clocks, rng):
        if clocks["main-0"].env_steps > self.after and "scout-0" not in roster:
            return [Add(player="scout-0", role="scout", reason="due")]
        return super().decide(roster, standings, clocks, rng)

def first_snapshot(view, n, rng):
    if view.roster.snapshots()[-1] > 4:
        return ["nobody"] * n
    return np.full(n, view.roster.snapshots()[0])

class Faulty(Branch):
    def candidates(self, view):
        return view.roster.snapshot()
"""


@pytest.fixture
def train_with(tiny, tmp_path, own_module):
    """Trains a small league of one main with a part of the user's own."""
    own_module("own_rules", MODULE)

    def train(**own):
        settings = tiny(stop={"env_steps": 12_000})
        settings["league"] = {"preset": "self_play", "freeze_every": 500, "players": {"main": 1}, **own}
        return league.train(settings, tmp_path / "run")

    return train


FAULTY = {
    "branches": {
        "self_play": {"share": 0.0},
        "window": {"share": 0.0},
        "Faulty": {"use": "own_rules:Faulty", "share": 1.0},
    }
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            {"matchmaker": "own_rules:first_snapshot"},
            r"league\.matchmaker own_rules:first_snapshot: returned 'nobody', which is no competitor",
        ),
        pytest.param(
            {"roles": {"main": {"opponents": FAULTY}}},
            r"league\.roles\.main\.opponents\.branches\.Faulty own_rules:Faulty: .*line 27, in cand",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_bug_is_one_message_with_file_and_line_and_the_run_goes_on(train_with, tmp_path, own, message):
    with pytest.raises(OwnCodeFailed, match=message) as failed:
        train_with(**own)
    assert "The run is kept: correct the code and go on with --resume" in str(failed.value)
    before = max(s.env_steps for s in open_reader(tmp_path / "run").snapshots())
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    settings["league"] |= {"builder": "default", "matchmaker": "default", "roles": {}}
    settings["stop"]["env_steps"] = 9_000
    run = league.train(settings, tmp_path / "run", resume=True)
    assert max(s.env_steps for s in open_reader(run).snapshots()) > before


@pytest.mark.slow
def test_the_command_ends_with_1_for_a_bug_while_training_and_with_2_before(
    league_here, train_with, tiny, tmp_path
):
    config = tmp_path / "config.yaml"
    for builder, code, said in (
        ("own_rules:Late", 1, "KeyError: 'main-9'"),
        ("own_rules:Scouting", 2, "has no __init__(roles)"),
    ):
        config.write_text(yaml.safe_dump(tiny(league={"builder": builder})))
        done = league_here("train", config, "--run", tmp_path / f"run{code}")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        assert said in re.sub(r"\s+", " ", done.stderr)
        assert (tmp_path / f"run{code}").exists() is (code == 1)


@pytest.mark.slow
def test_a_builder_adds_players_of_a_role_that_had_none(train_with):
    scout = {"opponents": {"branches": {"pfsp": {"share": 1.0}}}, "freeze": {"max_steps": 300}}
    run = train_with(
        players={"main": 1, "scout": 0},
        roles={"scout": scout},
        builder={"use": "own_rules:Scouting", "after": 2_000},
    )
    with analysis.open_run(run) as history:
        frozen = history.sql("SELECT reason FROM decisions WHERE player = 'scout-0' AND kind = 'freeze'")
    assert (frozen["reason"] == "schedule").sum() >= 1
