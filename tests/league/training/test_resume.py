"""A run is resumed with settings that fit it, also if the run is older than some of them."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml

import analysis
from league.config.file import ConfigError
from league.config.loading import load
from league.envs.trial.trial import GameBroken
from league.training.resume import (
    ResumeRefused,
    branch,
    changed_settings,
    newest_settings,
    open_archive,
    try_games,
)
from storage.archive import Archive
from storage.ends import End


@pytest.mark.parametrize("missing", ["value_sees", "learner_connectors"])
def test_a_run_from_before_a_setting_of_the_policy_is_resumed(tiny, tmp_path, missing):
    settings = load(tiny())
    older = settings.model_dump(mode="json")
    del older["policy"][missing]
    row = {"name": settings.name, "env": settings.env.id, "seed": settings.seed, "most_lead": None}
    Archive.create(tmp_path / "run", yaml.safe_dump(older), row).close()
    open_archive(settings, tmp_path / "run", resume=True).close()
    other = load(tiny(policy={"hidden": [8]}))
    with pytest.raises(ResumeRefused, match="a run keeps its network"):
        open_archive(other, tmp_path / "run", resume=True)


def test_a_run_that_ended_a_little_before_its_time_has_reached_it(tiny, tmp_path):
    settings = load(tiny(stop={"env_steps": None, "minutes": 1.0}))
    row = {"name": settings.name, "env": settings.env.id, "seed": settings.seed, "most_lead": None}
    with contextlib.closing(Archive.create(tmp_path / "run", settings.to_yaml(), row)) as archive:
        archive.append_end(End(state="trained", seconds=59.0, of_seconds=60.0, env_steps=9, ended_at=1e9))
    with pytest.raises(ResumeRefused, match="already trained for 59 s of 60 s"):
        open_archive(settings, tmp_path / "run", resume=True)


@pytest.mark.parametrize("stacked", ["off", "auto"])
def test_a_run_that_has_recorded_a_setting_that_is_gone_opens_and_is_resumed(tiny, tmp_path, stacked):
    run, older = tmp_path / "run", load(tiny()).model_dump(mode="json")
    older["learner"]["stacked"] = stacked
    row = {"name": older["name"], "env": older["env"]["id"], "seed": older["seed"], "most_lead": None}
    Archive.create(run, yaml.safe_dump(older), row).close()
    settings = newest_settings(run)
    assert settings == load(run / "config.yaml") == load(tiny())
    open_archive(settings, run, resume=True).close()
    assert changed_settings(run) == []
    with pytest.raises(ConfigError, match=r"found stacked, which was removed; .* set learners\.shards"):
        load(older)


@pytest.mark.slow
def test_a_run_that_has_recorded_a_setting_that_is_gone_is_branched(tmp_path):
    example = Path(analysis.__file__).parent / "examples" / "kuhn_league"
    assert "stacked" in (example / "config.yaml").read_text()
    branch(example, tmp_path / "branch")
    assert "stacked" not in (tmp_path / "branch" / "config.yaml").read_text()
    assert newest_settings(tmp_path / "branch").learner == newest_settings(example).learner


@pytest.mark.slow
def test_what_a_resumed_run_sets_otherwise_is_named_and_stored(tiny, tmp_path):
    run = tmp_path / "run"
    open_archive(load(tiny(), ["learner.lr=0.01"]), run, resume=False).close()
    assert changed_settings(run) == []
    open_archive(load(tiny(), ["learner.lr=0.002", "stop.minutes=3"]), run, resume=True).close()
    assert sorted(changed_settings(run)) == ["learner.lr 0.01 -> 0.002", "stop.minutes null -> 3.0"]
    assert yaml.safe_load((run / "config.yaml").read_text())["learner"]["lr"] == 0.002
    open_archive(newest_settings(run), run, resume=True).close()
    assert changed_settings(run) == []
    assert newest_settings(run).learner.lr == 0.002


@pytest.mark.slow
def test_a_remote_knows_its_run_by_the_settings_it_was_begun_with(tiny, tmp_path):
    run, remote = tmp_path / "run", f"storage.remote=file://{tmp_path}/remote"
    open_archive(load(tiny(), [remote, "learner.lr=0.01"]), run, resume=False).close()
    begun = (run / "config.yaml").read_text()
    open_archive(load(tiny(), [remote, "learner.lr=0.002"]), run, resume=True).close()
    assert (run / "config.yaml").read_text() == begun
    assert newest_settings(run).learner.lr == 0.002


def test_a_session_with_other_runners_and_gpus_is_told_what_has_changed_since(tiny, tmp_path):
    run = tmp_path / "run"
    open_archive(load(tiny(runners=4)), run, resume=False).close()
    other = load(tiny(), ["runners={min: 2, max: 8}", "learners.aggregators=1"])
    open_archive(other, run, resume=True).close()
    changed = changed_settings(run)
    assert "learners.aggregators 0 -> 1" in changed
    assert {"runners.min null -> 2", "runners.max null -> 8"} <= set(changed)
    open_archive(other, run, resume=True).close()
    assert changed_settings(run) == []


def test_a_game_that_never_pays_random_play_is_trained_on_with_a_warning(tiny, capsys):
    """Where rewards are rare, no random play may find one in a second."""
    pytest.importorskip("pettingzoo")
    broken = "tests.league.envs.trial.broken_batched"
    cost = try_games(load(tiny(f"{broken}:PaysNothing")))
    assert cost is not None
    assert cost.match_steps  # its sizes are chosen as those of any other
    said = capsys.readouterr().err
    assert said.startswith("league: warning: env ")
    assert "no seat got a reward" in said
    with pytest.raises(GameBroken, match=r"reward is nan.* Nothing was trained: correct the game"):
        try_games(load(tiny(f"{broken}:PaysNaN")))


def test_a_trial_that_goes_on_and_on_is_one_line_as_nothing_else_says_that_a_step_hangs(
    tiny, capsys, monkeypatch
):
    monkeypatch.setattr("league.training.resume.LONG_TRIAL", 0.0)
    with pytest.raises(GameBroken):
        try_games(load(tiny("tests.league.envs.trial.broken_batched:PaysNaN")))
    assert re.fullmatch(r"league: the trial of env .* takes over 0 s: .*\n", capsys.readouterr().err)


def test_a_game_of_long_and_quick_matches_gets_sizes_though_no_match_ends_in_the_trial(
    tiny, capsys, monkeypatch
):
    """Two lines of YAML played 1,024 whole matches of 20,000 steps, and learned nothing."""
    monkeypatch.setattr("league.envs.trial.trial.MOST_DECISIONS", 400)
    monkeypatch.setattr("league.envs.trial.matches.MOST_COST_SECONDS", 0.1)
    settings = load(tiny("tests.league.envs.trial.broken_batched:NeverEnds"), ["rollout.fragment_steps=auto"])
    cost = try_games(settings)
    assert cost is not None
    assert cost.match_steps is None
    assert "no match ends" in capsys.readouterr().err
