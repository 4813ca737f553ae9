"""A learner takes bfloat16 where it is faster and as good, and keeps in float32 what needs its digits."""

import numpy as np
import pytest
import torch

from league.config.loading import load
from league.learning.data.batching import minibatches
from league.learning.learner import precision
from league.learning.learner.learner import Learner
from league.learning.learner.precision import ERROR, GAIN, Trial, settled, tried
from league.learning.settings import LearnerSettings
from league.models.policies import products
from storage.errors import Mistake
from storage.records import MAIN
from tests.made_up import memory_of

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch):
    monkeypatch.setattr(precision, "_trials", {})


def measured(monkeypatch, gain, error):
    calls = []
    monkeypatch.setattr(precision, "tried", lambda *given: (calls.append(given), Trial(gain, error))[1])
    return calls


@pytest.mark.parametrize(
    ("gain", "error", "chosen"),
    [(2.0, 0.01, "bfloat16"), (GAIN, 0.01, "float32"), (2.0, ERROR, "float32"), (0.0, 0.0, "float32")],
)
def test_auto_is_bfloat16_where_it_is_faster_and_its_gradients_agree(
    gain, error, chosen, make_spec, monkeypatch
):
    measured(monkeypatch, gain, error)
    learner = Learner("main-0", make_spec(), LearnerSettings(precision="auto", batch_steps=64), seed=1)
    assert learner.settings.precision == chosen


def test_tf32_is_refused_where_no_card_computes(make_spec):
    with pytest.raises(Mistake, match=r"learner\.precision: found tf32 on the CPU, expected float32"):
        settled(make_spec(), LearnerSettings(precision="tf32"), CPU)


@pytest.mark.slow
def test_what_was_measured_is_reported_with_every_update(make_spec, make_episodes, monkeypatch):
    measured(monkeypatch, 1.7, 0.01)
    learner = Learner("main-0", make_spec(), LearnerSettings(precision="auto", batch_steps=64), seed=1)
    for _ in range(2):
        assert learner.update_from_episodes(make_episodes([64]))["bfloat16_speedup"] == 1.7


def test_players_of_one_kind_in_a_process_are_tried_once_and_agree(make_spec, monkeypatch):
    calls = measured(monkeypatch, 2.0, 0.01)
    settings = LearnerSettings(precision="auto", batch_steps=64)
    for player in "ab":
        assert Learner(player, make_spec(), settings, 0).settings.precision == "bfloat16"
    assert len(calls) == 1
    settled(make_spec(hidden=(8,)), settings, CPU)
    assert len(calls) == 2


@pytest.mark.parametrize("chosen", ["float32", "bfloat16"])
def test_a_precision_of_ones_own_is_not_tried(chosen, make_spec, monkeypatch):
    calls = measured(monkeypatch, 9.0, 0.0)
    settings = LearnerSettings(precision=chosen)
    assert settled(make_spec(), settings, CPU) == (settings, None)
    assert not calls


def test_a_processor_without_bfloat16_is_not_kept_waiting(make_spec, monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: False)
    monkeypatch.setattr(precision, "build_network", lambda spec: pytest.fail("it was tried"))
    assert tried(make_spec(), 64, CPU) == Trial(0.0, 0.0)


def test_a_disturbance_while_it_is_tried_does_not_decide(make_spec, monkeypatch):
    """bfloat16 takes half of the time, and something else takes the processor for half of the trial."""
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    now, calls = [0.0], [0]

    def gradient(network, forward, *_):
        calls[0] += 1
        now[0] += (1.0 if forward._bfloat16 else 2.0) + (5.0 if calls[0] > 1 + precision.REPEATS else 0.0)
        return torch.ones(3)

    monkeypatch.setattr(precision, "_gradient", gradient)
    monkeypatch.setattr(products, "clock_of", lambda device: lambda: now[0])
    assert tried(make_spec(), 64, CPU) == Trial(2.0, 0.0)


def test_a_layer_that_does_not_know_bfloat16_leaves_the_learner_in_float32(make_spec, monkeypatch):
    def refuse(*_):
        raise RuntimeError("not implemented for 'BFloat16'")

    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    monkeypatch.setattr(precision, "_gradient", refuse)
    learner = Learner("main-0", make_spec(), LearnerSettings(precision="auto"), seed=1)
    assert learner.settings.precision == "float32"


@pytest.mark.parametrize("memory", ["none", "gru", "transformer"])
def test_gradients_in_bfloat16_agree_with_those_in_float32(memory, make_spec, monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)
    trial = tried(make_spec(hidden=(32, 32), memory=memory_of(memory, 8)), 128, CPU)
    assert 0 < trial.error < ERROR
    assert trial.gain > 0


@pytest.mark.slow
def test_logits_values_and_weights_keep_the_digits_of_float32(make_spec, make_episodes):
    learner = Learner("main-0", make_spec(), LearnerSettings(precision="bfloat16", batch_steps=64), seed=1)
    batch = next(iter(minibatches(make_episodes([64]), 64, 64, None)))
    for numbers in learner._forward(batch):
        assert numbers.dtype is torch.float32
        assert not torch.equal(numbers, numbers.bfloat16().float())
    plain = Learner("main-0", make_spec(), LearnerSettings(batch_steps=64), seed=1)
    with torch.no_grad():
        pairs = list(zip(learner._forward(batch), plain._forward(batch), strict=True))
    for low, full in pairs:
        scale = float(full.abs().max())
        assert 0 < float((low - full).abs().max()) < 0.05 * scale
    learner.update_from_episodes(make_episodes([64]))
    for name, tensor in learner.weights().items():
        assert tensor.dtype is torch.float32, name
        assert np.isfinite(tensor.numpy()).all(), name


def test_without_runners_auto_is_float32_as_such_runs_can_be_repeated():
    config = {"env": {"id": "kuhn_poker"}, "learner": {"precision": "auto"}, "stop": {"env_steps": 1000}}
    chosen = [load({**config, "runners": runners}).learner_of("main-0", MAIN).precision for runners in (0, 2)]
    assert chosen == ["float32", "auto"]
