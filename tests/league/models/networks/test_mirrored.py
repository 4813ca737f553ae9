"""A mirrored policy takes an observation and its mirror image for one position, fresh and trained."""

import copy

import numpy as np
import pytest
import torch

from league.envs import registry
from league.models.networks.encoders import BadNetwork
from league.models.networks.networks import build_network
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec

FOUR = {"observation": [2, 7, 6], "axis": 1, "actions": [7]}
BOARDS = {"kind": "reshape", "shape": [2, 7, 6]}
TOE = {"observation": [2, 3, 3], "axis": 2, "actions": [3, 3], "action_axis": 1}


def spec(env="connect_four", mirror=FOUR, **settings):
    given = {"hidden": (12, 9), "mirror": mirror, **settings}
    return PolicySpec.for_game(PolicySettings.model_validate(given), registry.make(env, 1))


def network(wanted):
    built = build_network(wanted)
    built.load_state_dict(initial_weights(wanted, 3))
    return built


def rows(wanted, n=40):
    return torch.from_numpy(np.random.default_rng(1).integers(0, 2, (n, wanted.seen.size)).astype(np.float32))


def images(mirror, observation):
    return observation[:, torch.from_numpy(mirror.observation_order)]


def assert_mirrored(net, wanted):
    mirror, seen = wanted.settings.mirror, rows(wanted)
    logits, value = net(seen)
    of_images, value_of_images = net(images(mirror, seen))
    torch.testing.assert_close(of_images, logits[:, torch.from_numpy(mirror.action_order)])
    torch.testing.assert_close(value_of_images, value)
    assert value.std() > 0.01
    assert (logits.std(0) > 0).all()


@pytest.mark.parametrize("separate", [False, True])
def test_a_fresh_policy_treats_a_position_and_its_image_alike(separate):
    wanted = spec(separate_value=separate)
    assert_mirrored(network(wanted), wanted)
    toe = spec("tic_tac_toe", TOE)
    assert_mirrored(network(toe), toe)


def test_averaged_gradients_are_those_of_the_batch_and_its_mirror_image():
    wanted = spec()
    net, mirror = network(wanted), wanted.settings.mirror
    seen, action = rows(wanted), torch.arange(40) % 7

    def gradients(observation, action):
        net.zero_grad()
        logits, value = net(observation)
        (torch.nn.functional.cross_entropy(logits, action) + (value - 0.3).square().mean()).backward()
        return {name: p.grad.clone() for name, p in net.named_parameters()}

    of_images = gradients(images(mirror, seen), torch.from_numpy(mirror.action_order)[action])
    of_batch = gradients(seen, action)
    net.mirrored.average_gradients()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(parameter.grad, (of_batch[name] + of_images[name]) / 2, msg=name)


def test_projected_weights_are_mirrored_and_those_that_are_stay():
    wanted = spec()
    net = network(wanted)
    before = copy.deepcopy(net.state_dict())
    net.mirrored.project()
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    net.load_state_dict(initial_weights(spec(mirror=None), 5))
    net.mirrored.project()
    assert_mirrored(net, wanted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": "cnn", "connectors": [BOARDS]}, "found torso 'cnn'"),
        ({"memory": "gru"}, "memory 'gru'"),
        ({"separate_value": True, "value_sees": "all"}, "value_sees all, expected an mlp"),
        ({"mirror": {**FOUR, "observation": [2, 6, 6]}}, "it has 72 numbers and 7 actions"),
    ],
)
def test_a_mirror_that_the_network_cannot_have_is_refused(settings, message):
    with pytest.raises(BadNetwork, match=message):
        build_network(spec(**settings))
