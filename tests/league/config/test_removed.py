"""Settings that were removed: old run folders open, and a new config is told."""

import pytest
import yaml

import league
from league.config.file import ConfigError
from league.config.loading import load
from league.config.removed import REMOVED, without_removed
from league.config.settings import Settings
from league.training.branching import branch, newest_settings
from league.training.resume import changed_settings


def written(key, value):
    """The settings of a small league with a removed setting: of a role, if roles have that section."""
    section, name = key
    inner = {section: {name: value}}
    league_ = {"preset": "self_play", "freeze_every": 1000, "roles": {"main": inner}}
    return {"env": {"id": "tic_tac_toe"}, "league": league_} | ({} if section == "opponents" else inner)


@pytest.mark.parametrize("key", REMOVED, ids=".".join)
def test_a_removed_setting_is_refused_with_what_to_do(key):
    fields = written(key, "live")
    with pytest.raises(ConfigError, match=rf"config: .*{key[0]}.{key[1]} was removed; leave it out: "):
        load(fields)
    assert load(without_removed(fields)) == load(without_removed(written(key, "player")))


def test_options_of_a_game_may_have_the_name_of_a_removed_setting():
    options = {"opponents": {"learning": "live"}}
    assert without_removed({"env": {"options": options}})["env"]["options"] == options


@pytest.mark.slow
def test_a_run_with_removed_settings_opens_and_goes_on(tiny, tmp_path, monkeypatch):
    def older(settings):
        fields = settings.model_dump(mode="json")
        fields["league"]["roles"]["main"] = {"opponents": {"learning": "live"}}
        return yaml.safe_dump(fields)

    with monkeypatch.context() as patch:
        patch.setattr(Settings, "to_yaml", older)
        run = league.train(tiny("tic_tac_toe", stop={"env_steps": 600}), tmp_path / "run")
    league.train(newest_settings(run, ("stop.env_steps=1200",)), run, resume=True)
    assert changed_settings(run)[0] == "stop.env_steps 600 -> 1200"
    assert branch(run, tmp_path / "branch").env_steps >= 1200
