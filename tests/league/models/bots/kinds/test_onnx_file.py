"""A network in an ONNX file chooses as the one it was written from; a file that does not fit is refused."""

import builtins

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from league.envs import registry
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import BadChoice, Look
from league.models.bots.bot import UnknownBot
from league.models.bots.scripted import make_bot
from league.models.bots.settings import OnnxSettings
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec

torch.set_num_threads(1)
FLOAT = TensorProto.FLOAT


def write(path, nodes, inputs, outputs=("out",), constants=None, types=None):
    """An ONNX file. `inputs`: shapes by name; `types`: those that are no floats."""
    types = types or {}
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info(name, types.get(name, FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(name, FLOAT, [None, None]) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def write_policy(policy, path):
    """The torso and the policy head of an MLP."""
    layers = [name.removesuffix(".weight") for name in policy.tensors if name.endswith(".weight")]
    layers = [name for name in layers if "value" not in name]
    nodes, last = [], "observation"
    for number, layer in enumerate(layers):
        given, last = last, f"linear{number}"
        nodes.append(helper.make_node("Gemm", [given, f"{layer}.weight", f"{layer}.bias"], [last], transB=1))
        if layer != layers[-1]:
            given, last = last, f"relu{number}"
            nodes.append(helper.make_node("Relu", [given], [last]))
    nodes.append(helper.make_node("Identity", [last], ["out"]))
    constants = {
        name: tensor.numpy() for name, tensor in policy.tensors.items() if name.rpartition(".")[0] in layers
    }
    return write(path, nodes, {"observation": ["n", policy.spec.seen.size]}, constants=constants)


def bot_of(path, action, observation=None, mode="sample"):
    settings = {"net": OnnxSettings(kind="onnx", file=str(path), mode=mode)}
    return make_bot("net", "tic_tac_toe", action, settings, observation or ObservationSpec((3,), "int8"))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["connect_four", "kuhn_poker"])
def test_a_network_in_a_file_chooses_as_the_network_does(env_id, tmp_path):
    game = registry.make(env_id, 64)
    spec = PolicySpec.for_game(PolicySettings(hidden=(16, 8)), game)
    weights = {name: 3.0 * tensor for name, tensor in initial_weights(spec, 0).items()}
    policy = Policy(spec, weights)
    path = write_policy(policy, tmp_path / "net.onnx")
    bot = bot_of(path, spec.action, spec.observation)
    always = bot_of(path, spec.action, spec.observation, "greedy")
    game.reset(np.arange(64), np.arange(64))
    while game.active.any():
        (block,) = game.due()
        seen, mask = block.observation, block.mask
        look = Look(seen, mask)
        for temperature in (0.0, 0.5, 1.0):
            ours, theirs = (
                actor.decide(look, np.random.default_rng(1), temperature) for actor in (bot, policy)
            )
            assert ours.action.tolist() == theirs.action.tolist()
            np.testing.assert_allclose(ours.log_prob, theirs.log_prob, atol=1e-5)
            assert ours.certain.tolist() == theirs.certain.tolist()
        likeliest = policy.act(seen, mask, np.random.default_rng(2), greedy=True)[0].tolist()
        assert bot.act(seen, mask, np.random.default_rng(3), greedy=True)[0].tolist() == likeliest
        forever = always.decide(Look(seen, mask), np.random.default_rng(4))
        assert forever.action.tolist() == likeliest
        assert forever.certain.all()
        game.step([ours.action])


def test_several_choices_at_once_are_drawn_each_from_its_own_logits(tmp_path):
    logits = np.log(np.array([[1, 3, 5, 1, 4]], np.float32))
    path = write(
        tmp_path / "net.onnx",
        [
            helper.make_node("MatMul", ["seen", "none"], ["zeros"]),
            helper.make_node("Add", ["zeros", "logits"], ["out"]),
        ],
        {"seen": [None, 3]},
        constants={"none": np.zeros((3, 5), np.float32), "logits": logits},
    )
    mask = np.tile([True, True, True, False, True], (20_000, 1))
    chosen = bot_of(path, ActionSpec("multi_discrete", (2, 3))).decide(
        Look(np.zeros((20_000, 3), np.int8), mask), np.random.default_rng(0)
    )
    assert (chosen.action.shape, chosen.action.dtype) == ((20_000, 2), np.int64)
    assert chosen.action[:, 0].mean() == pytest.approx(3 / 4, abs=0.02)
    assert np.bincount(chosen.action[:, 1], minlength=3) / 20_000 == pytest.approx(
        [5 / 9, 0, 4 / 9], abs=0.02
    )
    expected = (
        np.log(np.array([[1, 3]]) / 4)[0, chosen.action[:, 0]]
        + np.log(np.array([5, 0.1, 4]) / 9)[chosen.action[:, 1]]
    )
    np.testing.assert_allclose(chosen.log_prob, expected, rtol=1e-4)


def test_choices_and_real_numbers_are_logits_and_numbers_of_one_output(tmp_path):
    numbers = np.array([[0, 9, 1, 2.5, 7]], np.float32)
    path = write(
        tmp_path / "net.onnx",
        [
            helper.make_node("MatMul", ["seen", "none"], ["zeros"]),
            helper.make_node("Add", ["zeros", "numbers"], ["out"]),
        ],
        {"seen": [None, 3]},
        constants={"none": np.zeros((3, 5), np.float32), "numbers": numbers},
    )
    bot = bot_of(path, ActionSpec("joint", (3,), (-np.inf, 0.0), (np.inf, 1.0)), mode="greedy")
    mask = np.array([[True, True, True], [True, False, True]])
    chosen = bot.decide(Look(np.zeros((2, 3), np.int8), mask), np.random.default_rng(0))
    assert chosen.action.tolist() == [[1.0, 2.5, 1.0], [2.0, 2.5, 1.0]]


def test_a_graph_that_asks_for_the_mask_gets_it(tmp_path):
    path = write(
        tmp_path / "net.onnx",
        [helper.make_node("Cast", ["mask"], ["out"], to=FLOAT)],
        {"mask": ["n", 4], "seen": ["n", 3]},
        types={"mask": TensorProto.BOOL, "seen": TensorProto.INT64},
    )
    bot = bot_of(path, ActionSpec("discrete", (4,)))
    mask = np.array([[False, True, False, True], [True, False, False, False]])
    assert bot.bot.output(np.zeros((2, 3), np.int8), mask).tolist() == mask.astype(float).tolist()


def test_continuous_actions_are_taken_as_they_come_but_within_their_bounds(tmp_path):
    path = write(tmp_path / "net.onnx", [helper.make_node("Identity", ["seen"], ["out"])], {"seen": ["n", 2]})
    bot = bot_of(
        path, ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 0.5)), ObservationSpec((2,), "float64")
    )
    chosen = bot.decide(
        Look(np.array([[0.25, 0.25], [-7.0, 7.0]]), np.ones((2, 0), bool)), np.random.default_rng(0)
    )
    assert chosen.action.tolist() == [[0.25, 0.25], [-1.0, 0.5]]
    assert chosen.certain.all()
    assert chosen.action.dtype == np.float32


def test_infinite_logits_are_very_large_ones_and_nan_is_told(tmp_path):
    path = write(tmp_path / "net.onnx", [helper.make_node("Identity", ["seen"], ["out"])], {"seen": ["n", 3]})
    bot = bot_of(path, ActionSpec("discrete", (3,)), ObservationSpec((3,), "float32"))
    mask, rng = np.ones((1, 3), bool), np.random.default_rng(0)
    assert bot.act(np.array([[-np.inf, np.inf, 0]], np.float32), mask, rng)[0].tolist() == [1]
    assert bot.act(np.full((1, 3), -np.inf, np.float32), np.array([[False, False, True]]), rng)[
        0
    ].tolist() == [2]
    with pytest.raises(
        BadChoice, match=r"^bot 'net': .*net.onnx: its first output holds NaN, expected numbers$"
    ):
        bot.act(np.full((1, 3), np.nan, np.float32), mask, rng)


def one_node(path, kind, shape, seen=FLOAT, **attributes):
    node = helper.make_node(kind, ["seen"], ["out"], **attributes)
    return write(path, [node], {"seen": shape}, types={"seen": seen})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, "no such file, expected an ONNX file"),
        (lambda path: path.write_bytes(b"not a graph"), "cannot be read as an ONNX file: "),
        (
            lambda path: one_node(path, "Identity", ["n", 4]),
            r"of observations \[1, 3\] it raised InvalidArgument: .*dimensions",
        ),
        (
            lambda path: one_node(path, "Identity", [1, 3]),
            r"of observations \[2, 3\] it raised InvalidArgument: ",
        ),
        (
            lambda path: one_node(path, "ReduceSum", ["n", 3], keepdims=1),
            r"output is \[1, 1\] of float32, expected \[1, 3\] of floats for discrete actions$",
        ),
        (
            lambda path: one_node(path, "Cast", ["n", 3], TensorProto.STRING, to=FLOAT),
            r"input 'seen' is a tensor\(string\), expected one of tensor\(bool\), tensor\(float\)",
        ),
        (
            lambda path: write(
                path, [helper.make_node("Add", ["a", "b"], ["out"])], {"a": ["n", 3], "b": ["n", 3]}
            ),
            "its inputs are a, b, expected one for the observation, and 'mask' if",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_sentence_when_the_bot_is_made(make, message, tmp_path):
    path = tmp_path / "net.onnx"
    make(path)
    with pytest.raises(UnknownBot, match=f"^bot 'net': {path}: .*{message}") as told:
        bot_of(path, ActionSpec("discrete", (3,)))
    assert "\n" not in str(told.value)


def test_without_onnxruntime_the_remedy_is_told(monkeypatch, tmp_path):
    real = builtins.__import__

    def without(name, *rest):
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnknownBot, match=r"not installed; pip install '\.\[onnx\]'"):
        bot_of(tmp_path / "net.onnx", ActionSpec("discrete", (3,)))
