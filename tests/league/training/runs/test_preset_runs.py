"""Every preset trains for real, past several freezes, and plays what it says it plays."""

from pathlib import Path

import pytest
import yaml

import analysis
import league
from league.config.file import ConfigError
from league.config.loading import load
from league.rules.presets import PRESETS
from storage.archive import open_reader

CONFIGS = Path(__file__).parents[4] / "configs"
PLAYED = {  # match types that must occur, once there are snapshots; no others may
    "alphastar_paper": {"self_play", "pfsp", "forgotten", "current_main", "past_main"},
    "alphastar_pseudocode": {"self_play", "pfsp", "verification", "current_main", "past_main"},
    "win_rate_threshold": {"window"},
    "self_play": {"self_play", "window"},
    "fictitious": {"window"},
    "pfsp": {"pfsp"},
    "psro": {"nash", "evaluation"},
    "population": {"peers"},
    "none": {"self_play"},
}
RARE = {"forgotten", "verification", "past_main"}  # only when a player loses to another


@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS)
def test_a_run_of_each_preset_freezes_and_plays_its_own_branches(preset, tiny, tmp_path):
    roles = {}
    if preset == "win_rate_threshold":  # in rock-paper-scissors no player beats all of its past by far
        roles = {"main": {"freeze": {"win_rate": 0.4, "min_games": 5}}}
    steps = 60_000 if preset == "alphastar_pseudocode" else 30_000  # its mains freeze half as often
    settings = tiny(stop={"env_steps": steps})
    settings["league"] = {"preset": preset, "freeze_every": 1000, "roles": roles}
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        frozen = history.sql("SELECT player, count(*) AS n FROM decisions WHERE kind = 'freeze' GROUP BY 1")
        mix = set(history.sql("SELECT DISTINCT match_type FROM match_mix")["match_type"])
        ratings = history.leaderboard()
    mains = frozen.set_index("player")["n"].filter(like="main-")
    assert (mains >= (2 if preset == "none" else 3 + 2)).all()  # the first and the last are the run's own
    assert PLAYED[preset] - RARE <= mix
    assert mix <= PLAYED[preset] | {"self_play"}
    assert ratings["mu"].notna().all()


@pytest.mark.slow
def test_every_preset_has_a_config_of_its_own_that_loads():
    leagues = [path for path in CONFIGS.glob("*.yaml") if path.stem != "tournament"]
    shown = {load(path).league.preset for path in leagues}
    assert shown == set(PRESETS)


@pytest.mark.slow
def test_bots_are_seated_and_rated_like_anybody(tiny, tmp_path):
    settings = tiny("tic_tac_toe", stop={"env_steps": 20_000})
    branches = {"self_play": {"share": 0.5}, "bots": {"share": 0.5}}
    rules = {"main": {"opponents": {"branches": branches, "bots": {"random": 3, "one_ply": 1}}}}
    settings["league"] = {"preset": "none", "roles": rules}
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        learned = history.sql("SELECT opponent, share FROM learned_from").set_index("opponent")["share"]
        rated = history.leaderboard().set_index("competitor")["mu"]
    assert learned["random"] == pytest.approx(0.375, abs=0.05)
    assert learned["one_ply"] == pytest.approx(0.125, abs=0.05)
    assert rated["one_ply"] > rated["random"]
    league.train({**settings, "stop": {"env_steps": 25_000}}, run, resume=True)
    assert sorted(bot.name for bot in open_reader(run).bots()) == ["one_ply", "random"]


@pytest.mark.long
def test_evaluation_matches_are_recorded_and_never_learned_from(tiny, tmp_path):
    settings = tiny(stop={"env_steps": 30_000})
    rules = {"main": {"opponents": {"evaluation": 0.3}}}
    settings["league"] = {"preset": "fictitious", "freeze_every": 1000, "roles": rules}
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        by_purpose = history.sql(
            "SELECT purpose, count(DISTINCT seq) AS n, bool_or(learning) AS learned, "
            "sum(learning::INT) AS seats FROM matches JOIN seats USING (seq) GROUP BY purpose"
        ).set_index("purpose")
        trained = history.sql("SELECT max(env_steps) AS n FROM snapshots")["n"][0]
    share = by_purpose.loc["evaluation", "n"] / by_purpose["n"].sum()
    assert share == pytest.approx(0.3, abs=0.12)
    assert not by_purpose.loc["evaluation", "learned"]
    assert trained <= by_purpose.loc["training", "seats"]  # of rock-paper-scissors: a step for each seat


@pytest.mark.slow
def test_the_example_of_a_builder_of_ones_own_freezes_by_its_own_rule(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(CONFIGS.parent))
    settings = yaml.safe_load((CONFIGS / "own_builder.yaml").read_text())
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        frozen = history.sql(
            "SELECT reason, evidence FROM decisions WHERE kind = 'freeze' AND reason NOT IN "
            "('initial weights', 'end of training')"
        )
    assert (frozen["reason"] == "progress").sum() >= 2
    assert (frozen["reason"] == "progress").mean() > 0.5
    with pytest.raises(ConfigError, match=r"league\.builder: .*nobody"):
        load({**settings, "league": {"builder": "nobody:Builder"}})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"bots": {"one_pl": 1}}, "one_pl"),
        ({"branches": {"self_play": {"share": 0}, "bots": {"share": 1}}}, "name some"),
    ],
)
def test_bots_that_are_missing_or_unknown_are_refused(tiny, changes, expected):
    settings = tiny("tic_tac_toe")
    settings["league"] = {"preset": "none", "roles": {"main": {"opponents": changes}}}
    with pytest.raises(ConfigError, match=expected):
        load(settings)


@pytest.mark.long
def test_players_of_a_role_of_ones_own_play_and_learn_by_rules_of_their_own(tiny, tmp_path):
    settings = tiny(stop={"env_steps": 30_000})
    specialist = {
        "share": 2.0,
        "opponents": {"branches": {"current_main": {"share": 1.0}}},
        "freeze": {"max_steps": 2000},
        "learner": {"batch_steps": 64},
    }
    settings["league"] = {
        "preset": "none",
        "players": {"main": 1, "specialist": 1},
        "roles": {"specialist": specialist},
    }
    run = league.train(settings, tmp_path / "run")
    with analysis.open_run(run) as history:
        updates = history.sql(
            "SELECT player, max(updates) AS n, max(env_steps) AS steps FROM updates GROUP BY 1"
        )
        frozen = history.sql("SELECT player, role FROM snapshots WHERE env_steps > 0")
    updates = updates.set_index("player")
    per_update = updates["steps"] / updates["n"]
    assert per_update["main-0"] > 2 * per_update["specialist-0"]
    assert set(frozen[frozen["player"] == "specialist-0"]["role"]) == {"specialist"}
