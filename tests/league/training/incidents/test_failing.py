"""A bot that fails as an opponent forfeits; one that fails too often is drawn no more."""

import pytest

import league
from league.models.bots.settings import OwnBotSettings
from league.rules.roster import Roster
from league.training.incidents.incident_log import Failing
from storage import query
from storage.incidents import MOST_CAUSES
from storage.records import Bot

SOURCE = """
def choose(observation, mask, rng):
    raise ValueError("not today")
"""
CONFIG = {
    "env": {"id": "tic_tac_toe"},
    "policy": {"hidden": [8]},
    "league": {
        "preset": "self_play",
        "roles": {
            "main": {
                "opponents": {
                    "branches": {
                        "self_play": {"share": 0.5},
                        "window": {"share": 0.0},
                        "bots": {"share": 0.5},
                    },
                    "bots": {"mine": 1},
                }
            }
        },
    },
    "rollout": {"slots": 32, "matches_per_request": 32},
    "learner": {"batch_steps": 128},
    "evaluation": {"placing": 0},
    "runners": 0,
    "stop": {"env_steps": 1500},
}


@pytest.mark.slow
def test_a_league_trains_on_beside_a_bot_that_fails_and_withdraws_it(own_module, tmp_path):
    own_module("failing_opponent", SOURCE)
    bots = {"mine": {"use": "failing_opponent:choose", "limits": {"failures": 20}}}
    run = league.train(CONFIG | {"bots": bots}, run=tmp_path / "run")
    forfeits, steps = (
        query(
            run,
            "SELECT (SELECT count(*) FROM seats JOIN matches USING (seq) WHERE competitor = 'mine' "
            "AND outcome = 'forfeit' AND reason = 'error') AS forfeits, max(env_steps) AS steps FROM updates",
        )
        .to_pylist()[0]
        .values()
    )
    assert forfeits >= 20
    assert steps >= 1000
    (forfeit, withdrawal) = query(run, "SELECT * FROM incidents ORDER BY happened_at").to_pylist()
    assert (forfeit["kind"], forfeit["who"]) == ("forfeit", "mine")
    assert "ValueError: not today (" in forfeit["cause"]
    assert "failing_opponent.py, line 3" in forfeit["cause"]
    assert (withdrawal["kind"], withdrawal["who"]) == ("withdrawn", "mine")
    played = query(run, "SELECT count(*) AS n FROM seats WHERE competitor = 'mine'").to_pylist()[0]["n"]
    assert played < 200  # of about a thousand


def test_each_cause_is_one_incident_and_very_many_are_only_counted():
    failing = Failing({}, Roster())
    assert [i.cause for i in failing.note({("a", "x"): 3, ("b", "x"): 1})] == ["x", "x"]
    assert failing.note({("a", "x"): 3}) == []
    assert len(failing.note({("a", str(n)): 1 for n in range(100)})) == MOST_CAUSES - 1
    assert [i.who for i in failing.note({("a", "y"): 1, ("c", "y"): 1})] == ["c"], "others are still noted"


def test_a_bot_is_withdrawn_once_and_again_when_its_run_goes_on():
    settings = {"mine": OwnBotSettings(use="a:b", limits={"failures": 3})}
    roster = Roster([Bot("mine"), Bot("random")])
    failing = Failing(settings, roster)
    assert [i.kind for i in failing.note({("mine", "x"): 2})] == ["forfeit"]
    withdrawal = failing.note({("mine", "x"): 2, ("random", "y"): 9})[-1]
    assert (withdrawal.kind, withdrawal.cause) == ("withdrawn", "after 4 forfeits")
    assert failing.note({("mine", "x"): 2}) == []
    assert [bot.name for bot in roster.bots] == ["random"]
    later = Roster([Bot("mine"), Bot("random")])
    Failing(settings, later).recall([withdrawal])
    assert [bot.name for bot in later.bots] == ["random"]
    assert later.is_retired("mine")
