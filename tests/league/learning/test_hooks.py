"""The hook after each update sees its statistics, and one that raises ends the training, named."""

import sys

import pytest
import torch
from pydantic import ValidationError

from league.import_paths import OwnCodeFailed
from league.learning.learner.learner import Learner, LearnerSettings

HOOKS = """
seen = []

def note(player, statistics, learner):
    seen.append((player, statistics, learner.updates, learner.rank))

def keep(player, statistics, learner, as_name):
    seen.append((as_name, player))

def scale(player, statistics, learner):
    learner.reset({name: 0.5 * tensor for name, tensor in learner.weights().items()})

def fail(player, statistics, learner):
    if learner.updates == 3:
        raise RuntimeError("no more, please\\nand a second line")

NUMBER = 3
"""


@pytest.fixture
def hooks(own_module, tmp_path, monkeypatch):
    own_module("my_hooks", HOOKS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def learner(hooks, make_spec):
    def make(hook):
        settings = LearnerSettings(batch_steps=16, after_update=hook)
        return Learner("main-0", make_spec(), settings, 1)

    return make


def test_a_hook_is_called_after_each_update_with_its_statistics(learner, make_episodes):
    player = learner("my_hooks:note")
    metrics = player.update_from_episodes(make_episodes([8] * 4))
    seen = sys.modules["my_hooks"].seen
    assert [(name, updates, rank) for name, _, updates, rank in seen] == [("main-0", 1, 0), ("main-0", 2, 0)]
    statistics = [found for _, found, _, _ in seen]
    assert set(statistics[0]) == set(metrics)
    assert sum(found["entropy"] for found in statistics) / 2 == pytest.approx(metrics["entropy"])


def test_a_hook_may_change_its_learner(learner, make_episodes):
    player, plain = learner("my_hooks:scale"), learner(None)
    for each in (player, plain):
        each.update_from_episodes(make_episodes([8, 8]))
    for name, tensor in plain.weights().items():
        assert torch.equal(player.weights()[name], 0.5 * tensor)


def test_a_hook_that_raises_is_named_with_its_player_and_update(learner, make_episodes):
    player = learner("my_hooks:fail")
    message = (
        r"^learner.after_update, update 3 of player main-0: my_hooks:fail: RuntimeError: no more, please "
        r"and a second line \(.*my_hooks.py, line \d+, in fail\)$"
    )
    with pytest.raises(OwnCodeFailed, match=message):
        player.update_from_episodes(make_episodes([8] * 8))


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("my_hooks:notes", "module 'my_hooks' has no 'notes'; did you mean 'note'?"),
        ("no_such_module:f", "module 'no_such_module' cannot be imported"),
        ("my_hooks:NUMBER", "is 3, expected a function of player, statistics and learner"),
        ("note", "expected 'module:Name'"),
        ({"use": "my_hooks:note", "loud": 1}, "cannot be called as (player, statistics, learner, loud)"),
    ],
)
def test_an_unknown_hook_is_refused_by_name(hooks, hook, message):
    with pytest.raises(ValidationError, match="after_update") as refused:
        LearnerSettings(after_update=hook)
    assert message in str(refused.value)


@pytest.mark.slow
def test_a_training_ends_by_its_hook_in_one_line_and_goes_on_without_it(hooks, league_here, tiny_config):
    train = ("train", tiny_config, "--run", "run", "--set")
    unknown = league_here(*train, "learner.after_update=my_hooks:fale")
    assert unknown.returncode == 2
    assert "did you mean 'fail'?" in unknown.stderr
    assert not (hooks / "run").exists()
    raised = league_here(*train, "learner.after_update=my_hooks:fail")
    assert raised.returncode == 1
    assert "my_hooks:fail: RuntimeError" in raised.stderr
    assert "The run is kept: correct the code and go on with --resume" in raised.stderr
    assert "Traceback" not in raised.stderr
    resumed = league_here("train", tiny_config, "--run", "run", "--resume")
    assert resumed.returncode == 0, resumed.stderr


def test_a_hook_takes_the_options_that_stand_beside_its_path(learner, make_episodes):
    player = learner({"use": "my_hooks:keep", "as_name": "mine"})
    player.update_from_episodes(make_episodes([8] * 4))
    assert sys.modules["my_hooks"].seen[0][:2] == ("mine", "main-0")
