"""A policy in a file decides as the policy does, whatever its network, connectors and actions."""

import numpy as np
import pytest
import torch

from league.competitors.decisions import difference, record
from league.envs import registry
from league.models.bots.kinds.onnx_file import open_file
from league.models.policies.mixture import MixtureActor, MixtureMember
from league.models.policies.policy import Policy, initial_weights
from league.models.portable.module import NotPortable, Portable, write
from league.models.spec import PolicySettings, PolicySpec
from tests.league.throw import ID as THROW

torch.set_num_threads(1)
MANY = "openspiel:leduc_poker"
BOARD = {"kind": "reshape", "shape": [2, 7, 6]}
KINDS = {
    "mlp": ("connect_four", {}),
    "cnn": ("connect_four", {"torso": {"kind": "cnn", "channels": [3]}}),
    "resnet": ("connect_four", {"torso": {"kind": "resnet", "channels": [3]}, "connectors": [BOARD]}),
    "impala": (
        "connect_four",
        {
            "torso": {"kind": "impala", "channels": [3]},
            "connectors": [{"kind": "reshape", "shape": [7, 6, 2]}, {"kind": "transpose"}, {"kind": "scale"}],
        },
    ),
    "gru": ("leduc_poker", {"memory": {"kind": "gru", "size": 5}, "connectors": [{"kind": "previous"}]}),
    "lstm": (
        "leduc_poker",
        {
            "memory": {"kind": "lstm", "size": 5},
            "separate_value": True,
            "connectors": [{"kind": "frame_stack", "frames": 3}, {"kind": "normalise"}],
        },
    ),
    "transformer": ("leduc_poker", {"memory": {"kind": "transformer", "size": 8, "context": 3}}),
    "continuous": (
        "gymnasium:MountainCarContinuous-v0",
        {"connectors": [{"kind": "flatten"}, {"kind": "previous"}, {"kind": "normalise"}]},
    ),
    "unsquashed": ("gymnasium:Pendulum-v1", {"squash": False}),
    "joint": (THROW, {"memory": {"kind": "gru", "size": 5}, "connectors": [{"kind": "previous"}]}),
}


def policy_of(env, settings, seed=0):
    spec = PolicySpec.for_game(
        PolicySettings.model_validate({"hidden": (8,)} | settings), registry.make(env, 1)
    )
    weights = {
        name: 1.5 * tensor if tensor.is_floating_point() else tensor
        for name, tensor in initial_weights(spec, seed).items()
    }
    return Policy(spec, weights, f"seed {seed}")


def differs(actor, env, path, decisions=200, temperature=1.0):
    module = Portable(actor, temperature)
    game = registry.make(env, 8)
    decided = record(actor, game, list(range(game.num_seats)), decisions, np.random.default_rng(1))
    fields = {name: [v._asdict() for v in getattr(module, name)] for name in ("inputs", "outputs")}
    write(module, path, fields)
    found = open_file(path)({value.name: decided.given[value.name] for value in module.inputs})
    assert {value.name for value in module.outputs} == set(found)
    for value in module.outputs:
        assert (found[value.name].shape, found[value.name].dtype) == ((decisions, *value.shape), value.dtype)
    return difference(module.action, decided.found, found)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_onnx_decides_as_the_policy_does(name, tmp_path):
    env, settings = KINDS[name]
    assert differs(policy_of(env, settings), env, tmp_path / "agent.onnx") < 1e-5


@pytest.mark.slow
def test_one_file_holds_all_members_of_a_mixture_and_draws_one_for_each_match(tmp_path):
    env, settings = KINDS["gru"]
    members = [
        MixtureMember(policy_of(env, settings | {"memory": memory}, seed), weight)
        for seed, (memory, weight) in enumerate([("gru", 0.5), ("none", 0.2), ("lstm", 0.3)])
    ]
    path = tmp_path / "agent.onnx"
    assert differs(MixtureActor(members), env, path, decisions=600) < 1e-5
    given = {
        value.name: np.zeros((20_000, *value.shape), value.dtype)
        for value in Portable(MixtureActor(members)).inputs
    }
    given |= {
        "mask": np.ones_like(given["mask"]),
        "draw": np.random.default_rng(0).random(20_000, np.float32),
    }
    who = open_file(path)(given)["next_state"][:, 0]
    assert np.bincount(who.astype(int), minlength=4) / 20_000 == pytest.approx([0, 0.5, 0.2, 0.3], abs=0.02)


@pytest.mark.slow
def test_noise_draws_actions_as_often_as_the_policy_does(tmp_path):
    env, settings = KINDS["mlp"]
    policy, n = policy_of(env, settings), 20_000
    module = Portable(policy)
    game = registry.make(env, 1)
    game.reset(np.zeros(1, int), np.zeros(1, int))
    (block,) = game.due()
    mask = np.array([[True, False, True, True, True, True, False]])
    given = {
        "observation": np.repeat(block.observation, n, 0),
        "mask": np.repeat(mask, n, 0),
        "noise": np.random.default_rng(0).gumbel(size=(n, 7)).astype(np.float32),
    }
    write(module, tmp_path / "agent.onnx", {})
    action = open_file(tmp_path / "agent.onnx")(given)["action"]
    expected = policy.evaluate(block.observation, mask)[0][0]
    assert np.bincount(action, minlength=7) / n == pytest.approx(expected, abs=0.015)


def test_a_connector_of_the_users_own_is_refused_by_name():
    env, settings = KINDS["mlp"]
    policy = policy_of(env, settings)
    own = PolicySettings.model_validate({"hidden": (8,), "connectors": ({"use": "my_module:Mine"},)})
    policy.spec = PolicySpec(own, policy.spec.observation, policy.spec.action)
    with pytest.raises(NotPortable, match=r"seed 0: policy\.connectors 'my_module:Mine' is code of your own"):
        Portable(policy)
