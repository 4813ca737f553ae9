"""State dicts of other libraries play as their networks do; pickles and other networks are refused."""

import itertools

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.bots.bot import UnknownBot
from league.models.bots.scripted import make_bot
from league.models.bots.settings import StateDictSettings, nearest_file, settings_in

torch.set_num_threads(1)
SEEN = ObservationSpec((4,), "float32")
THREE = ActionSpec("discrete", (3,))
REAL = ActionSpec("continuous", low=(-1.0, -2.0), high=(1.0, 2.0))
ROWS = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def stack(activation, *widths):
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


def named(network, prefix, **renamed):
    """The state dict of `network` with `prefix`, but for layers that another name is given for."""
    found = {}
    for name, tensor in network.state_dict().items():
        number, part = name.split(".")
        found[f"{renamed.get('layer' + number, prefix + number)}.{part}"] = tensor
    return found


def sb3_ppo(action):
    network = stack(nn.Tanh, 4, 8, 6, action)
    beside = named(stack(nn.Tanh, 4, 5, 1), "mlp_extractor.value_net.", layer2="value_net")
    return network, named(network, "mlp_extractor.policy_net.", layer4="action_net") | beside


def sb3_dqn(action):
    network = stack(nn.ReLU, 4, 8, action)
    return network, named(network, "q_net.q_net.") | named(
        stack(nn.ReLU, 4, 8, action), "q_net_target.q_net."
    )


def cleanrl_ppo(action):
    network = stack(nn.Tanh, 4, 8, 8, action)
    return network, named(network, "actor.") | named(stack(nn.Tanh, 4, 8, 8, 1), "critic.")


def cleanrl_continuous(action):
    network = stack(nn.Tanh, 4, 8, 8, action)
    more = {"actor_logstd": torch.full((1, action), -0.5)}
    return network, more | named(network, "actor_mean.") | named(stack(nn.Tanh, 4, 8, 1), "critic.")


def cleanrl_dqn(action):
    network = stack(nn.ReLU, 4, 12, 8, action)
    return network, named(network, "network.")


@pytest.mark.parametrize(
    ("library", "make"),
    [("sb3", sb3_ppo), ("sb3", sb3_dqn), ("cleanrl", cleanrl_ppo), ("cleanrl", cleanrl_dqn)],
)
def test_choices_are_those_of_the_network(library, make, tmp_path):
    network, tensors = make(3)
    save_file(tensors, tmp_path / "agent.safetensors")
    bot = make_bot(f"{library}:{tmp_path}/agent.safetensors", "any", THREE, {}, SEEN)
    mask = np.ones((50, 3), bool)
    mask[:25, 0] = False
    with torch.no_grad():
        logits = network(torch.from_numpy(ROWS)).numpy()
    expected = np.where(mask, logits, -np.inf).argmax(1)
    rng = np.random.default_rng(0)
    assert bot.act(ROWS, mask, rng, greedy=True)[0].tolist() == expected.tolist()
    drawn = bot.act(ROWS, mask, rng)[0].tolist()
    assert (drawn == expected.tolist()) == (make in (sb3_dqn, cleanrl_dqn))  # values are not sampled from


def test_real_numbers_are_the_mean_within_the_bounds(tmp_path):
    network, tensors = cleanrl_continuous(2)
    save_file(tensors, tmp_path / "agent.safetensors")
    bot = make_bot(f"cleanrl:{tmp_path}/agent.safetensors:greedy", "any", REAL, {}, SEEN)
    with torch.no_grad():
        mean = network(torch.from_numpy(9 * ROWS)).numpy()
    found = bot.act(9 * ROWS, np.ones((50, 0), bool), np.random.default_rng(0))[0]
    np.testing.assert_allclose(found, np.clip(mean, [-1, -2], [1, 2]), atol=1e-6)


def test_a_config_may_name_another_activation(tmp_path):
    _, tensors = sb3_ppo(3)
    save_file(tensors, tmp_path / "agent.safetensors")
    found = [
        make_bot(
            "theirs",
            "any",
            THREE,
            {
                "theirs": StateDictSettings(
                    kind="sb3", file=str(tmp_path / "agent.safetensors"), activation=activation
                )
            },
            SEEN,
        ).act(ROWS, np.ones((50, 3), bool), np.random.default_rng(0))[1]
        for activation in ("auto", "tanh", "relu")
    ]
    assert found[0].tolist() == found[1].tolist() != found[2].tolist()


@pytest.mark.parametrize(
    ("write", "action", "message"),
    [
        (lambda path: torch.save({"a": torch.ones(1)}, path), THREE, "cannot be read as safetensors"),
        (lambda path: path, THREE, "no such file, expected a state dict as safetensors"),
        (
            lambda path: save_file({"actor.0.weight": torch.ones(4, 3, 8, 8)}, path),
            THREE,
            r"found tensors actor.0.weight, ..., expected fully connected layers mlp_extractor.*as ONNX",
        ),
        (
            lambda path: save_file(sb3_ppo(5)[1], path),
            THREE,
            r"\(PPO or A2C\): .*'policy_head.weight' is \(5, 6\), policy wants \(3, 6\)",
        ),
        (lambda path: save_file(sb3_ppo(2)[1], path), REAL, "for other actions than the continuous ones"),
    ],
)
def test_what_is_no_such_state_dict_is_refused_in_one_sentence(write, action, message, tmp_path):
    path = tmp_path / "agent.pth"
    write(path)
    with pytest.raises(UnknownBot, match=f"^bot 'sb3:{path}': {path}.*{message}") as told:
        make_bot(f"sb3:{path}", "any", action, {}, SEEN)
    assert "\n" not in str(told.value)


def test_a_file_is_named_by_its_kind_and_plays_in_a_mode():
    greedy = settings_in("onnx:some/agent.onnx:greedy")
    assert (greedy.kind, greedy.mode, greedy.file.endswith("/some/agent.onnx")) == ("onnx", "greedy", True)
    assert settings_in("export:some/folder").mode == "sample"
    assert [settings_in(name) for name in ("main-0:greedy", "my_bots:Own", "onnx:")] == [None] * 3


def test_a_bot_of_a_module_called_export_is_no_folder(tmp_path, monkeypatch):
    assert settings_in("export:MyBot").kind == "export"
    (tmp_path / "export.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert settings_in("export:MyBot") is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("onx:agent.onnx", "onnx:agent.onnx"),
        ("cleanlr:runs/a", "cleanrl:runs/a"),
        ("onnx:", "onnx:FILE"),
        ("main-0:gredy", None),
        ("onx:Agent", None),
    ],
)
def test_the_kind_of_a_file_that_is_misspelt_is_found(name, meant):
    assert nearest_file(name) == meant
