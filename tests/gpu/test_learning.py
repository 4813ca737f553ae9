"""Learning on a GPU beside the CPU: kernels, copies ahead, compiling, bfloat16."""

import numpy as np
import pytest
import torch

from league.config.card_memory import of_learner
from league.envs.spaces import ActionSpec, ObservationSpec
from league.extend import Loss
from league.learning.data.batching import minibatches, preload
from league.learning.learner.learner import Learner, LearnerSettings, NonFiniteLoss
from league.models.spec import PolicySettings, PolicySpec
from tests.bench.learners import ACTIONS, INPUTS, LENGTH, experience
from tests.gpu import kinds
from tests.gpu.cards import CARD, needs_cards, needs_double
from tests.gpu.kinds import NETWORKS, SEEN
from tests.made_up import memory_of

pytestmark = [pytest.mark.alone, needs_cards()]

MEMORIES = ["none", "gru", "lstm", "transformer"]
# steps in proportion to gradients: adam's have the size of lr, whatever rounding makes of a small gradient
SETTINGS = {
    "batch_steps": 1024,
    "optimizer": {"kind": "rmsprop", "epsilon": 1.0},
    "lr": 0.05,
    "gradient_norm": None,
}


def spec_of(memory="none"):
    policy = PolicySettings(hidden=(64, 64), memory=memory_of(memory, 32))
    return PolicySpec(policy, ObservationSpec((INPUTS,), "float32"), ActionSpec("discrete", (ACTIONS,)))


def learned(device, memory="none", seed=0, **settings):
    """A learner after an update of each of four batches, and its metrics."""
    learner = Learner("main-0", spec_of(memory), LearnerSettings(**{**SETTINGS, **settings}), seed, device)
    metrics = learner.update_from_episodes(experience("main-0", seed))
    assert learner.updates == 4
    return learner, metrics


def assert_close(found, wanted, atol=1e-4, rtol=1e-3):
    assert found.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(
            found[name], wanted[name], atol=atol, rtol=rtol, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("loss", ["appo", "ppo"])
def test_updates_on_a_card_come_to_the_weights_of_those_on_the_cpu(memory, loss):
    (here, mine), (there, theirs) = learned("cpu", memory, loss=loss), learned(CARD, memory, loss=loss)
    assert there.device.type == "cuda"
    assert_close(there.weights(), here.weights())
    assert theirs["value_loss"] == pytest.approx(mine["value_loss"], rel=1e-3)


@pytest.mark.parametrize("memory", MEMORIES)
def test_in_bfloat16_every_memory_learns_about_the_same_and_has_float32_weights(memory):
    _, wanted = learned(CARD, memory)
    learner, found = learned(CARD, memory, precision="bfloat16")
    assert found["value_loss"] == pytest.approx(wanted["value_loss"], rel=0.05)
    assert found["entropy"] == pytest.approx(wanted["entropy"], rel=0.05)
    for name, tensor in learner.weights().items():
        assert tensor.dtype == torch.float32, name
        assert tensor.isfinite().all(), name


@needs_double
def test_a_batch_that_a_card_has_no_room_for_is_learned_from_in_parts(monkeypatch):
    """The most bytes beside the learner's own: each part has its observations and activations alone."""
    most = {}
    for micro_steps in (None, 128):
        learner, _ = learned(CARD, micro_steps=micro_steps)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        learner.update_from_episodes(experience("main-0", 1))
        most[micro_steps] = torch.cuda.max_memory_allocated() - before
    assert most[128] < 0.5 * most[None]
    block = experience("main-0", 2)
    monkeypatch.setenv("DOUBLE_BYTES", str(torch.cuda.memory_allocated() + (most[128] + most[None]) // 2))
    learner.update_from_episodes(block)
    with pytest.raises(torch.OutOfMemoryError):
        learned(CARD)[0].update_from_episodes(block)


@needs_double
@pytest.mark.parametrize("settings", [{}, {"ema": {}, "micro_steps": 256}], ids=["whole", "parts"])
@pytest.mark.parametrize(
    ("network", "actions"),
    [
        ("resnet", ActionSpec("discrete", (7,))),
        ("lstm", ActionSpec("discrete", (7,))),
        ("mlp", ActionSpec("discrete", (4672,))),  # as in chess: the loss keeps more than the network
        ("mlp", ActionSpec("continuous", low=(-1.0,) * 8, high=(1.0,) * 8)),
    ],
    ids=["resnet", "lstm", "many actions", "squashed"],
)
def test_a_learner_takes_the_memory_that_is_planned(network, actions, settings):
    spec = PolicySpec(PolicySettings(**NETWORKS[network]), SEEN, actions)
    settings = LearnerSettings(batch_steps=1024, **settings)
    before = torch.cuda.memory_allocated()
    learner = Learner("main-0", spec, settings, 0, CARD)
    torch.cuda.reset_peak_memory_stats()
    learner.update_from_episodes(kinds.experience(spec, 0, 2048))
    found = torch.cuda.max_memory_allocated() - before
    assert found == pytest.approx(sum(of_learner(spec, settings)), rel=0.15)


def test_a_state_goes_from_the_cpu_to_a_card_and_back():
    here, _ = learned("cpu")
    there, _ = learned(CARD, seed=5)
    there.load_state(here.state())
    assert_close(there.weights(), here.weights(), atol=0, rtol=0)
    for learner in (here, there):
        learner.update_from_episodes(experience("main-0", 9))
    assert_close(there.state().to_tensors(), here.state().to_tensors())


def _raises_for_nan(log_probs, advantage, clip):
    """A loss of somebody's own that looks at its numbers: it may meet those that a refused update spoiled."""
    if not log_probs.now.isfinite().all():
        raise ValueError("found no number")
    return -advantage * log_probs.now


RAISES = Loss(_raises_for_nan, targets="vtrace")


@pytest.mark.parametrize(
    "settings",
    [
        {"target_updates": 1, "ema": {"decay": 0.9}, "magnet": {"kind": "copy", "every": 1, "weight": 0.1}},
        {"optimizer": "adam", "lr": 1e-3, "loss": "ppo"},
        {"loss": {"use": f"{__name__}:RAISES"}},
    ],
    ids=["companions", "adam", "own loss"],
)
def test_an_update_that_is_refused_on_a_card_leaves_those_before_it(settings):
    block = experience("main-0", 0)
    block.reward[2500] = float("nan")  # in the third of four batches
    states = []
    for device in ("cpu", CARD):
        learner = Learner("main-0", spec_of(), LearnerSettings(**{**SETTINGS, **settings}), 0, device)
        with pytest.raises(NonFiniteLoss, match="player main-0, update 3: the loss is nan") as caught:
            learner.learn_from(block)
        assert caught.value.update == 3
        assert np.isnan(caught.value.tensors["reward"]).sum() == 1
        assert learner.updates == 2
        states.append(learner.state().to_tensors())
    assert_close(*states, atol=1e-4)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("depth", [1, 64])
def test_batches_that_are_copied_ahead_arrive_whole_and_in_order(depth, shuffled, monkeypatch):
    monkeypatch.setattr("league.models.sending.PINNED_BYTES", 2**10)
    monkeypatch.setattr("league.learning.data.batching.PINNED_BYTES", 2**10)
    episodes = experience("main-0", 3)

    def made(**how):
        rng = np.random.default_rng(0) if shuffled else None
        return list(minibatches(episodes, 256, LENGTH, rng, own={"size": episodes.reward * 2.0}, **how))

    wanted, batches = made(), made(pinned=True)
    assert len(wanted) == 16
    assert all(batch.observation.is_pinned() for batch in batches)
    for found, batch in zip(preload(batches, torch.device(CARD), depth), wanted, strict=True):
        torch.cuda._sleep(10_000_000)  # the copy of the next one is done long before this batch is read
        for name, tensor in batch.tensors().items():
            assert found.tensors()[name].is_cuda, name
            assert torch.equal(found.tensors()[name].cpu(), tensor), name


def test_the_normaliser_takes_a_block_in_parts_that_need_little_memory(monkeypatch):
    """A whole block in float64 would take nine times its bytes, beside everything else."""
    monkeypatch.setattr("league.learning.learner.learner.STATISTICS_BYTES", 2**19)
    normal = PolicySettings(hidden=(8,), connectors=({"kind": "normalise"},))
    spec = PolicySpec(normal, ObservationSpec((INPUTS,), "float32"), ActionSpec("discrete", (ACTIONS,)))
    learners = [Learner("main-0", spec, LearnerSettings(batch_steps=256), 0, on) for on in ("cpu", CARD)]
    block = experience("main-0", 0)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for learner in learners:
        with learner._statistics_of(block):
            pass
    assert torch.cuda.max_memory_allocated() - before < block.observation.nbytes
    mine, theirs = (learner.weights() for learner in learners)
    for name in ("mean", "variance"):
        (found,) = [tensor for key, tensor in theirs.items() if key.endswith(f".{name}")]
        (wanted,) = [tensor for key, tensor in mine.items() if key.endswith(f".{name}")]
        torch.testing.assert_close(found, wanted, atol=1e-12, rtol=1e-12)
