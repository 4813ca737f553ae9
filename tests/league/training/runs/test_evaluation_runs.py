"""Runners of evaluation: they play beside training, for the record, and bring no experience."""

import pytest

import analysis
import league
from league.config.file import ConfigError
from league.config.loading import load


def config(**changes):
    fields = {
        "env": {"id": "tic_tac_toe"},
        "policy": {"hidden": [16]},
        "league": {"preset": "pfsp", "freeze_every": 4_000},
        "rollout": {"slots": 64, "matches_per_request": 64},
        "evaluation": {"runners": 1, "matches_per_request": 32},
        "runners": 1,
        "stop": {"env_steps": 60_000},
    }
    return {**fields, **changes}


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    return analysis.open_run(league.train(config(), tmp_path_factory.mktemp("runs") / "run"))


@pytest.mark.long
@pytest.mark.alone
def test_runners_of_evaluation_play_beside_training_and_never_train(history):
    played = history.sql(
        "SELECT purpose, count(DISTINCT seq) AS matches, count(*) FILTER (learning) AS learning, "
        "sum(env_steps) FILTER (seat = 0) AS env_steps FROM matches JOIN seats USING (seq) GROUP BY purpose"
    ).set_index("purpose")
    assert played.loc["evaluation", "matches"] >= 32
    assert played.loc["evaluation", "learning"] == 0
    assert played.loc["training", "learning"] >= played.loc["training", "matches"]
    learned = history.sql("SELECT max(env_steps) AS steps FROM updates")["steps"].item()
    assert 0 < learned <= played.loc["training", "env_steps"]


@pytest.mark.long
@pytest.mark.alone
def test_they_measure_players_against_the_snapshots_of_the_league(history):
    seated = history.sql(
        "SELECT DISTINCT competitor FROM matches JOIN seats USING (seq) WHERE purpose = 'evaluation'"
    )["competitor"]
    assert "main-0" in set(seated)
    assert {"main-0@0"} < set(seated)


def test_without_ray_there_is_nobody_to_evaluate():
    with pytest.raises(ConfigError, match=r"evaluation\.runners is 1, but runners is 0"):
        load(config(runners=0))
