"""Recorded settings of older versions mean the same as they are written today."""

import pytest
import yaml

import league
from league.config.file import as_read_now
from league.config.loading import load
from league.config.settings import Settings
from league.learning.settings import LearnerSettings
from league.models.spec import PolicySettings
from league.moved_keys import learner_of, policy_of, ratings_of, translated
from league.rules.rating.rating import RatingSettings
from league.training.resume import branch, changed_settings, newest_settings
from storage.errors import Mistake

# every key of a learner was recorded, also of losses and optimizers that were not chosen
LEARNER = {
    "loss": "appo",
    "loss_options": {},
    "clip": 0.2,
    "vtrace_lambda": 0.95,
    "vtrace_clip_rho": 1.0,
    "vtrace_clip_c": 1.0,
    "gae_lambda": 0.95,
    "normalise_advantage": True,
    "optimizer": "adam",
    "betas": [0.9, 0.999],
    "epsilon": 1e-05,
    "rms_decay": 0.99,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "stacked": "off",
    "ring": {"batches": 1, "passes": 1},
    "compile": False,
    "lr": 0.01,
    "kl": 0.0,
    "value_lr": None,
    "gradient_value": None,
}
SHARED = {"processes": 2, "shards": None, "aggregators": 1, "replay": {"proportion": 0.1}, "max_backlog": 3}
POLICY = {
    "architecture": "mlp",
    "hidden": [8],
    "channels": [32, 64],
    "kernel": 3,
    "memory": "none",
    "memory_size": 128,
    "context": 16,
    "heads": 4,
    "squash": True,
    "options": {},
}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"loss": "appo", "lr": 0.01}),
        ({"vtrace_lambda": 1.0}, {"loss": {"kind": "appo", "vtrace_lambda": 1.0}, "lr": 0.01}),
        ({"loss": "ppo", "clip": 0.1}, {"loss": {"kind": "ppo", "clip": 0.1}, "lr": 0.01}),
        (
            {"loss": "impala", "loss_options": {"clip_rho": 0.5}},
            {"loss": {"kind": "impala", "clip_rho": 0.5}, "lr": 0.01},
        ),
        (
            {"optimizer": "rmsprop", "momentum": 0.9},
            {"optimizer": {"kind": "rmsprop", "momentum": 0.9}, "lr": 0.01},
        ),
        ({"terms": {"upgo": {"weight": 0.5}}}, {"terms": {"upgo": {"weight": 0.5}}, "lr": 0.01}),
    ],
)
def test_a_learner_that_was_recorded_whole_learns_the_same(old, new):
    found = LearnerSettings.model_validate(learner_of({**LEARNER, **old}))
    assert found == LearnerSettings.model_validate(new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        ({"architecture": "resnet", "channels": [4]}, {"torso": {"kind": "resnet", "channels": [4]}}),
        ({"architecture": "a:B", "options": {"x": 1}}, {"torso": {"use": "a:B", "x": 1}}),
        ({"memory": "gru", "memory_size": 4}, {"memory": {"kind": "gru", "size": 4}}),
        ({"memory": "transformer", "heads": 2}, {"memory": {"kind": "transformer", "heads": 2}}),
        ({"squash": False}, {"squash": False}),
        ({"connectors": [{"kind": "a:B", "by": 2}]}, {"connectors": [{"use": "a:B", "by": 2}]}),
        ({"learner_connectors": ["a:b"]}, {"learner_connectors": [{"use": "a:b"}]}),
    ],
)
def test_a_policy_that_was_recorded_whole_is_the_same(old, new):
    found = PolicySettings.model_validate(policy_of({**POLICY, **old}))
    assert found == PolicySettings.model_validate({"hidden": [8], **new})


def config(**roles):
    return {
        "env": {"id": "rock_paper_scissors"},
        "policy": POLICY,
        "learner": {**LEARNER, **SHARED},
        "league": {"preset": "pfsp", "roles": roles, "builder": "default", "builder_options": {}},
        "runners": 2,
    }


def test_what_all_learners_share_has_its_own_section():
    settings = load(as_read_now(config()))
    assert settings.learners.model_dump(include=SHARED.keys() - {"replay"}) == {
        key: value for key, value in SHARED.items() if key != "replay"
    }
    assert settings.learner.replay.proportion == 0.1  # but each player has a replay of its own
    assert settings == load(as_read_now(config() | {"learner": LEARNER, "learners": SHARED}))


@pytest.mark.parametrize(("old", "new"), [(None, {}), ("main-0@0", {"main-0@0": 0})])
def test_one_anchor_that_was_recorded_is_one_of_several_and_ratings_are_the_same_rules(old, new):
    settings = RatingSettings(anchors=new)
    recorded = settings.model_dump(mode="json")
    del recorded["anchors"]
    assert ratings_of({**recorded, "anchor": old}) == settings.model_dump(mode="json")
    assert load(as_read_now(config() | {"ratings": {"anchor": old}})).ratings == settings


def test_what_is_written_as_today_stays_as_it_is():
    today = load(as_read_now(config())).model_dump(mode="json")
    assert translated(today) == today


def test_changes_of_a_role_are_changes_of_the_kind_that_the_run_has():
    settings = load(
        as_read_now(config(main={"learner": {"clip": 0.1, "gae_lambda": 0.5}, "policy": {"heads": 2}}))
    )
    assert settings.learner_of("main-0", "main").loss.clip == 0.1
    assert settings.policy_spec("main-0", "main").settings.memory.kind == "none"


@pytest.mark.parametrize(
    ("role", "message"),
    [
        ({"opponents": {"exploited_below": 0.1}}, r"opponents.exploited_below: .* with 0\.1, but it is 0\.3"),
        ({"learner": {"value_lr": 0.1}}, r"value_lr: the run was begun with 0\.1, but the value's own"),
    ],
)
def test_settings_without_a_choice_that_were_recorded_are_left_out_and_others_are_refused(role, message):
    load(as_read_now(config(main={"opponents": {"exploited_below": 0.3}, "reset": {"inherit_above": 0.2}})))
    with pytest.raises(Mistake, match=f"run: {message}"):
        as_read_now(config(main=role), "run")
    with pytest.raises(Mistake, match="which was removed; leave it out"):
        load({"env": {"id": "rock_paper_scissors"}, "league": {"roles": {"main": role}}})


def test_parts_of_ones_own_keep_their_names():
    roles = {
        "main": {"opponents": {"branches": {"pfsp": {"share": 0.5}, "mine:Own": {"share": 0.5, "most": 3}}}}
    }
    found = translated(
        config(**roles)
        | {"bots": {"one": {"kind": "function", "function": "mine:choose"}}}
        | {"league": {"roles": roles, "builder": "mine:Builder", "builder_options": {"rise": 2}}}
    )
    branches = found["league"]["roles"]["main"]["opponents"]["branches"]
    assert branches["Own"] == {"use": "mine:Own", "share": 0.5, "most": 3}
    assert found["bots"] == {"one": {"use": "mine:choose"}}
    assert found["league"]["builder"] == {"use": "mine:Builder", "rise": 2}


def test_a_squash_that_said_nothing_is_left_out_where_actions_are_choices():
    recorded = config() | {"policy": POLICY | {"squash": False}}
    assert load(as_read_now(recorded)).policy.squash is None


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


def test_a_sweep_that_an_older_version_has_planned_goes_on(tmp_path):
    (tmp_path / "configs").mkdir()
    planned = tmp_path / "configs" / "seed=3.yaml"
    planned.write_text(yaml.safe_dump(config() | {"seed": 3}))
    with pytest.raises(Mistake, match=r"found .*, which has moved to"):
        load(planned)  # as a file of the user's own
    (tmp_path / "sweep.json").write_text("{}")
    settings = load(planned, ["log.seconds=5"])
    assert settings.seed == 3
    assert settings.learners.aggregators == 1
