"""Updates of several players in one pass are those that each would have made alone."""

import dataclasses

import numpy as np
import pytest
import torch

from league.envs import registry
from league.envs.spaces import ActionSpec, ObservationSpec
from league.learning.learner import Learner, LearnerSettings
from league.learning.maths.losses import Loss, ppo
from league.learning.shared_pass.stacked import _apart
from league.learning.shared_pass.together import Choice, Together
from league.models.spec import PolicySettings, PolicySpec

RAMP = {"start": 0.5, "end": 0.1}
BOARD = ObservationSpec((2, 3, 3), "float32")


def masked(episodes, rng):
    """The same with some choices forbidden, none that was taken."""
    mask = rng.random(episodes.mask.shape) < 0.7
    mask[np.arange(len(mask)), episodes.action] = True
    return dataclasses.replace(episodes, mask=mask, log_prob=-rng.random(len(mask)).astype(np.float32))


def experience(make_episodes, spec, player, seed):
    """Episodes of uneven lengths and number, some of them truncated."""
    rng = np.random.default_rng([seed, 7])
    lengths = rng.integers(1, 9, size=rng.integers(3, 9)).tolist()
    truncated = rng.random(len(lengths)) < 0.3
    seen = {"shape": spec.learned.shape, "seed": seed, "version": seed % 3, "player": player}
    if spec.action.kind == "discrete":
        return masked(make_episodes(lengths, truncated, actions=spec.action.sizes[0], **seen), rng)
    episodes = make_episodes(lengths, truncated, **seen)
    n, width = episodes.num_steps, spec.action.mask_width
    mask = np.ones((n, width), bool)
    if spec.action.kind == "multi_discrete":
        mask[:, 2] = rng.random(n) < 0.5  # never taken
        action = rng.integers(0, 2, (n, *spec.action.shape))
    else:
        action = rng.normal(size=(n, *spec.action.shape)).astype(np.float32)
    return dataclasses.replace(episodes, action=action, mask=mask)


@pytest.fixture(params=["joined", "stacked"])
def way(request, monkeypatch):
    """Updates of several players are made in this way, whatever is faster."""
    monkeypatch.setattr(
        "league.learning.shared_pass.together.choose", lambda seconds: Choice(request.param, 2.0)
    )
    return request.param


def assert_close(a, b):
    assert set(a) == set(b)
    for name in a:
        torch.testing.assert_close(
            a[name], b[name], atol=1e-5, rtol=0, msg=lambda m, name=name: f"{name}: {m}"
        )


def assert_the_same_updates(spec, make_episodes, rounds=3, **settings):
    """Three players learn side by side what three others learn alone; progress, sizes, ages differ."""
    settings = LearnerSettings(**{"lr": 3e-3, "batch_steps": 12, "sequence_length": 6, **settings})
    alone, others = ([Learner(f"main-{i}", spec, settings, seed=i) for i in range(3)] for _ in range(2))
    together = Together(spec, settings)
    assert together.promising
    for turn in range(rounds):
        episodes = [experience(make_episodes, spec, p.player, 10 * turn + i) for i, p in enumerate(alone)]
        assert len({e.num_steps for e in episodes}) > 1
        progress = [0.1 * i + 0.3 * turn for i in range(3)]
        results = together.update_from_episodes(list(zip(others, episodes, progress, strict=True)))
        for learner, mine, at, found in zip(alone, episodes, progress, results, strict=True):
            metrics = learner.update_from_episodes(mine, at)
            assert found.pop("stacked_speedup") == 2.0
            assert found == pytest.approx(metrics, rel=1e-3, abs=1e-5)
    assert len({learner.updates for learner in alone}) > 1
    for a, b in zip(alone, others, strict=True):
        assert (a.updates, a.env_steps) == (b.updates, b.env_steps)
        for part in ("weights", "optimizer", "target"):
            assert_close(getattr(a.state(), part), getattr(b.state(), part))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "appo"},
        {"loss": "impala", "optimizer": "rmsprop"},
        {"loss": "ppo", "epochs": 2},
        {"loss": "ppo", "normalise_advantage": False, "shuffle": True},
        {"loss": "appo", "clip": RAMP, "entropy": RAMP, "lr": {"start": 5e-3, "end": 0.0}},
        {"loss": "appo", "target_updates": 2, "kl": 0.1},
        {"loss": "ppo", "target_updates": 3, "kl": 0.1, "value_lr": 1e-3, "optimizer": "adamw"},
        {"loss": "appo", "replay": {"proportion": 0.3}, "gradient_value": 0.01},
        {"loss": "impala", "ring": {"batches": 2, "passes": 2}, "gradient_norm": None},
    ],
    ids=str,
)
def test_every_loss_makes_the_updates_of_before(make_spec, make_episodes, way, settings):
    assert_the_same_updates(make_spec(), make_episodes, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multi_discrete", "continuous"])
def test_every_kind_of_action_is_learned_as_before(make_spec, make_episodes, way, kind):
    assert_the_same_updates(make_spec(kind), make_episodes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        {"architecture": "mlp", "separate_value": True, "connectors": [{"kind": "normalise"}]},
        {"architecture": "cnn", "channels": (4,), "hidden": (8,)},
        {"architecture": "resnet", "channels": (4, 6), "hidden": (8,), "activation": "tanh"},
    ],
    ids=lambda policy: policy["architecture"],
)
def test_every_network_is_learned_as_before(make_episodes, way, policy):
    spec = PolicySpec(PolicySettings(**policy), BOARD, ActionSpec("discrete", (3,)))
    assert_the_same_updates(spec, make_episodes)


@pytest.mark.slow
def test_a_value_that_sees_all_seats_is_learned_as_before(make_episodes, way):
    settings = PolicySettings(hidden=(8,), separate_value=True, value_sees="all")
    spec = PolicySpec.for_game(settings, registry.make("kuhn_poker", 1))
    assert len(spec.others) == 1
    assert_the_same_updates(spec, make_episodes)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["gru", "transformer"])
def test_networks_that_remember_are_joined_though_not_stacked(make_spec, make_episodes, monkeypatch, memory):
    ways = []

    def choose(seconds):
        ways.append(list(seconds))
        return Choice("joined", 2.0)

    monkeypatch.setattr("league.learning.shared_pass.together.choose", choose)
    assert_the_same_updates(make_spec(memory=memory, memory_size=4, heads=2, context=3), make_episodes)
    assert ways[0] == ["separate", "joined"]


def centred(log_probs, advantage, clip):
    """A loss that looks at all steps of its batch, which are to be one player's."""
    return ppo(log_probs, advantage - advantage.mean(), float(clip))


CENTRED = Loss(centred, "vtrace")


@pytest.mark.slow
def test_a_loss_of_your_own_is_shown_one_player_at_a_time(make_spec, make_episodes, monkeypatch, way):
    monkeypatch.setattr("league.learning.maths.losses.CENTRED", CENTRED, raising=False)
    assert_the_same_updates(
        make_spec(), make_episodes, loss="league.learning.maths.losses:CENTRED", clip=RAMP
    )


def test_gradients_lie_in_memory_as_their_weights_do_also_for_the_fused_optimizers_of_gpus():
    stacked = torch.arange(24.0).reshape(2, 4, 3).transpose(1, 2)
    apart = [gradient for gradient in _apart([stacked, None], 2) if gradient is not None]
    assert [gradient.shape for gradient in apart] == [(3, 4)] * 2
    assert all(gradient.is_contiguous() for gradient in apart)
    assert torch.equal(torch.stack(apart), stacked)
