"""Settings that are chosen by kind: keys of another kind are refused, and so are old spellings."""

import pytest

from league.config.file import ConfigError
from league.config.loading import load

GAME = {"env": {"id": "kuhn_poker"}}


def mistake(*overrides, **sections):
    with pytest.raises(ConfigError) as refused:
        load({**GAME, **sections}, overrides)
    return str(refused.value)


@pytest.mark.parametrize(
    ("override", "key", "kind", "remedy"),
    [
        (
            "learner.loss={kind: ppo, vtrace_lambda: 1.0}",
            "learner.loss.vtrace_lambda",
            "ppo",
            "only with appo, impala",
        ),
        ("learner.loss={kind: impala, clip: 0.1}", "learner.loss.clip", "impala", "only with appo, ppo"),
        ("learner.optimizer={rms_decay: 0.9}", "learner.optimizer.rms_decay", "adam", "only with rmsprop"),
        ("policy.torso={channels: [8]}", "policy.torso.channels", "mlp", "only with cnn, resnet, nature or"),
        ("policy.torso={kernel: 3}", "policy.torso.kernel", "mlp", "only with cnn or resnet"),
        ("policy.memory={heads: 2}", "policy.memory.heads", "none", "only with transformer"),
        ("policy.memory={kind: gru, context: 2}", "policy.memory.context", "gru", "only with transformer"),
    ],
)
def test_a_key_of_another_kind_is_refused_with_the_kinds_that_have_it(override, key, kind, remedy):
    said = mistake(override)
    assert f"unknown key '{key}' of kind {kind}, expected" in said
    assert remedy in said
    assert (" or one of your own; leave it out" in said) == key.startswith("learner.loss")


def test_options_of_a_network_of_ones_own_are_refused_for_one_of_ours():
    assert "unknown key 'policy.torso.width'" in mistake("policy.torso={kind: mlp, width: 8}")


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_setting_of_continuous_actions_is_refused_where_actions_are_choices(value):
    said = mistake(f"policy.squash={value}")
    assert f"policy.squash: found {value}, but actions are discrete, expected a game with continuous" in said


def test_a_misspelt_key_comes_with_the_nearest_of_its_kind():
    assert "unknown key 'learner.loss.clp'; did you mean 'clip'?" in mistake(
        "learner.loss={kind: ppo, clp: 1}"
    )


def test_settings_of_advantages_that_ones_own_loss_does_not_take_are_refused():
    said = mistake("learner.loss={use: 'configs.own_loss:KEPT_CLOSE', gae_lambda: 0.5}")
    assert "loss.gae_lambda: found 0.5, but 'configs.own_loss:KEPT_CLOSE' has targets 'vtrace'" in said


@pytest.mark.parametrize(
    ("short", "section", "name", "whole"),
    [
        ("learner.loss=ppo", "learner", "loss", "{kind: ppo}"),
        ("learner.optimizer=adamw", "learner", "optimizer", "{kind: adamw}"),
        ("policy.torso=mlp", "policy", "torso", "{kind: mlp}"),
        ("policy.memory=none", "policy", "memory", "{kind: none}"),
        ("league.builder=configs.own_builder:ByProgress", "league", "builder", None),
    ],
)
def test_a_name_is_short_for_its_kind_and_what_is_written_down_says_the_same(short, section, name, whole):
    settings = load(GAME, [short])
    if whole is not None:
        assert load(GAME, [f"{section}.{name}={whole}"]) == settings
    assert load(settings.model_dump(mode="json")) == settings


def test_one_key_of_a_kind_can_be_set_beside_a_name_and_by_a_role():
    fields = {**GAME, "learner": {"loss": "ppo"}}
    settings = load(fields, ["learner.loss.clip=0.1", "league.roles.main.learner={loss: {gae_lambda: 0.5}}"])
    own = settings.learner_of("main-0", "main").loss
    assert (own.kind, own.clip, own.gae_lambda) == ("ppo", 0.1, 0.5)
    assert settings.learner_of("main_exploiter-0", "main_exploiter").loss == settings.learner.loss
    assert settings.learner.loss.clip == 0.1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "learner.clip=0.1",
            "learner: found clip, which has moved to loss.clip; write loss: {kind: appo, clip:",
        ),
        ("learner.loss_options={a: 1}", "which has moved to loss; write loss: {use: module:Name, ...}"),
        (
            "learner.rms_decay=0.9",
            "moved to optimizer.rms_decay; write optimizer: {kind: rmsprop, rms_decay:",
        ),
        ("learner.aggregators=2", "moved to learners.aggregators; write learners: {aggregators: ...}"),
        (
            "policy.architecture=cnn",
            "policy: found architecture, which has moved to torso; write torso: {kind: cnn, ...}",
        ),
        ("policy.architecture='mine:Net'", "moved to torso; write torso: {use: mine:Net, ...}"),
        (
            "policy.memory_size=8",
            "policy: found memory_size, which has moved to memory.size; write memory: {kind",
        ),
        ("policy.options={a: 1}", "moved to torso; write torso: {use: module:Name, ...}"),
        ("league.builder_options={a: 1}", "moved to builder; write builder: {use: module:Name, ...}"),
        (
            "league.roles={main: {learner: {clip: 0.1}}}",
            "league.roles.main.learner: found clip, which has moved",
        ),
        (
            "league.roles={main: {opponents: {branches: {'mine:Own': {share: 0.1}}}}}",
            "found 'mine:Own' as a name; choose one of your own: Own: {use: mine:Own, ...}",
        ),
        (
            "learner.terms={'mine:T': {weight: 1}}",
            "found 'mine:T' as a name; choose a name of your own: mine: {use",
        ),
        ("bots={a: {kind: function, function: 'mine:f'}}", "found 'function'; expected mcts"),
        ("policy.connectors=[{kind: 'mine:C'}]", "(or {use: module:Name} for your own)"),
        (
            "league.roles={main: {opponents: {exploited_below: 0.2}}}",
            "found exploited_below, which was removed; leave it out: it is 0.3, a constant of branch",
        ),
        (
            "league.roles={main: {reset: {inherit_above: 0.2}}}",
            "found inherit_above, which was removed; leave it out: it is 0.2",
        ),
    ],
)
def test_an_old_spelling_is_refused_with_the_new_one(override, message):
    assert message in mistake(override)
