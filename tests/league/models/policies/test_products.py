"""Products in bfloat16 are near those in float32, are used where they are faster, and are said to be."""

import time

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from league.config.loading import load
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies import dense, products
from league.models.policies.dense import DenseGroup, describe
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.policy_group import PolicyGroup
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake

CHOICE = ActionSpec("discrete", (7,))


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def spec_of(dtype="int8", **settings):
    return PolicySpec(
        PolicySettings(**{"hidden": (64, 32), **settings}), ObservationSpec((20,), dtype), CHOICE
    )


def policies_of(spec, count=2):
    weights = [initial_weights(spec, seed) for seed in range(count)]
    return [Policy(spec, {**w, "policy_head.weight": 100 * w["policy_head.weight"]}) for w in weights]


def rows_of(spec, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 3, (n, 20)).astype(spec.observation.dtype)


def logits(policies, counts, seen, precision):
    with torch.no_grad():
        return DenseGroup(policies, precision)(np.array(counts), torch.from_numpy(seen)).numpy()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_logits_in_bfloat16_are_those_in_float32_up_to_its_eight_bits(dtype, activation):
    spec = spec_of(dtype, activation=activation)
    policies, seen = policies_of(spec), rows_of(spec, 200)
    exact = logits(policies, [140, 60], seen, "float32")
    near = logits(policies, [140, 60], seen, "bfloat16")
    scale = np.abs(exact).max()
    assert 0 < np.abs(near - exact).max() < 2 * 2.0**-8 * scale  # two layers are rounded
    assert np.abs(near - exact).mean() < 2.0**-9 * scale


def test_recorded_log_probabilities_are_those_of_the_logits_that_acted():
    spec = spec_of()
    policies, seen = policies_of(spec, 1), rows_of(spec, 64)
    mask = np.ones((64, 7), dtype=np.bool_)
    group = PolicyGroup(policies, "bfloat16")
    chosen = group.decide(np.array([64]), Look(seen, mask), np.random.default_rng(0))
    acted = torch.from_numpy(logits(policies, [64], seen, "bfloat16")).log_softmax(1).numpy()
    np.testing.assert_allclose(chosen.log_prob, acted[np.arange(64), chosen.action], atol=1e-6)
    plain = torch.from_numpy(logits(policies, [64], seen, "float32")).log_softmax(1).numpy()
    assert np.abs(chosen.log_prob - plain[np.arange(64), chosen.action]).max() > 1e-4


def test_few_rows_are_computed_in_float32():
    spec = spec_of()
    policies, n = policies_of(spec), products.LEAST_ROWS - 1
    seen = rows_of(spec, 2 * n)
    np.testing.assert_array_equal(
        logits(policies, [n, n], seen, "bfloat16"), logits(policies, [n, n], seen, "float32")
    )


def test_inputs_that_are_no_small_whole_numbers_keep_their_digits():
    spec = spec_of("float32")
    layers = [
        tuple(policies_of(spec, 1)[0].tensors[f"{n}.{p}"] for p in ("weight", "bias"))
        for n in ("torso.0", "torso.2", "policy_head")
    ]
    types = [[weight.dtype for weight, _ in products.lowered(layers, exact=exact)] for exact in (True, False)]
    assert types == [
        [torch.bfloat16, torch.bfloat16, torch.float32],
        [torch.float32, torch.bfloat16, torch.float32],
    ]


@pytest.mark.parametrize(("gain", "same"), [(0.0, True), (products.GAIN, True), (1.5, False)])
def test_auto_takes_bfloat16_only_where_it_is_measured_to_be_faster(gain, same, monkeypatch):
    asked = []
    monkeypatch.setattr(
        products, "gain", lambda sizes, rows, *_, **__: (asked.append((sizes, rows)), gain)[1]
    )
    spec = spec_of()
    policies, seen = policies_of(spec), rows_of(spec, 100)
    found = logits(policies, [60, 40], seen, "auto")
    assert np.array_equal(found, logits(policies, [60, 40], seen, "float32")) is same
    assert asked == [((20, 64, 32, 7), 60), ((20, 64, 32, 7), 40)]
    assert ("in float32" if same else "in bfloat16") in describe(spec, "auto", 60)


def test_the_gain_is_measured_once_for_about_so_many_rows(monkeypatch):
    monkeypatch.setattr(products, "has_bfloat16", lambda: True)
    products._measured.cache_clear()
    measured = [products.gain((20, 64, 7), rows, "relu", exact=True) for rows in (64, 100, 127)]
    assert measured[0] > 0.0
    assert len(set(measured)) == 1
    assert products._measured.cache_info().misses == 1
    products._measured.cache_clear()


def test_a_processor_without_bfloat16_measures_nothing(monkeypatch):
    monkeypatch.setattr(products, "has_bfloat16", lambda: False)
    assert products.gain((20, 64, 7), 64, "relu", exact=True) == 0.0
    assert describe(spec_of(), "auto", 64) == "policies play in float32: this processor has no bfloat16"
    spec = spec_of()
    policies, seen = policies_of(spec), rows_of(spec, 80)
    exact, near = (logits(policies, [40, 40], seen, p) for p in ("float32", "bfloat16"))
    assert 0 < np.abs(near - exact).max() < 2 * 2.0**-8 * np.abs(exact).max()  # torch's own, slowly


def test_copies_in_bfloat16_are_kept_up_to_a_limit_and_made_anew_beyond_it(monkeypatch):
    spec = spec_of()
    policies, seen = policies_of(spec, 3), rows_of(spec, 90)
    size = 2 * (20 * 64 + 64 * 32)
    monkeypatch.setattr(dense, "LOWERED_BYTES", 2 * size)
    group = DenseGroup(policies, "bfloat16")
    with torch.no_grad():
        first, second = (group(np.full(3, 30), torch.from_numpy(seen)) for _ in range(2))
    assert set(group._lowered) == {0, 1}
    assert torch.equal(first, second)


def test_without_runners_auto_is_float32_as_such_runs_can_be_repeated():
    config = {"env": {"id": "kuhn_poker"}, "stop": {"env_steps": 1000}}
    assert load({**config, "runners": 0}).precision_of_play == "float32"
    assert load({**config, "runners": 2}).precision_of_play == "auto"
    chosen = load({**config, "runners": 0, "rollout": {"precision": "bfloat16"}})
    assert chosen.precision_of_play == "bfloat16"


@pytest.mark.parametrize(
    ("precision", "device", "expected"),
    [("bfloat16", "cuda", "float32 or tf32"), ("tf32", "cpu", "float32, bfloat16 or auto")],
)
def test_a_precision_that_the_device_of_play_lacks_is_refused(precision, device, expected):
    config = {"env": {"id": "kuhn_poker"}, "runners": 0}
    config["rollout"] = {"precision": precision, "device": device}
    with pytest.raises(
        Mistake, match=f"precision: found {precision} with device {device}, expected {expected}"
    ):
        load(config)


def test_the_line_about_precision_is_about_the_device_that_plays():
    assert describe(spec_of(), "auto", 4096, "cuda") == "policies play in float32, on GPUs"
    assert describe(spec_of(), "tf32", 4096, "cuda") == "policies play in tf32, on GPUs"
    assert describe(spec_of(), "float32", 4096) == "policies play in float32"


def test_work_of_one_thread_is_timed_by_its_own_clock(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert products.clock_of("cpu") is time.thread_time
    assert products.clock_of("cuda") is time.perf_counter
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert products.clock_of("cpu") is time.perf_counter


MANY = 40  # policies, with a few rows each


@pytest.fixture
def large(monkeypatch):
    """Networks are too large for stacks in float32; no processor is asked."""
    monkeypatch.setattr(dense, "FEW_BYTES", 0)
    monkeypatch.setattr(products, "has_bfloat16", lambda: True)


def stacks_of(precision, rows=3, dtype="int8"):
    """Return the stacks that a group of policies made, its logits, and those in float32."""
    spec = spec_of(dtype)
    policies, seen = policies_of(spec, MANY), rows_of(spec, MANY * rows)
    group, counts = DenseGroup(policies, precision), np.full(MANY, rows)
    with torch.no_grad():
        return group._stacks, group(counts, torch.from_numpy(seen)), logits(policies, counts, seen, "float32")


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_many_policies_with_few_rows_each_are_computed_side_by_side_in_bfloat16(dtype, large):
    stacks, found, exact = stacks_of("bfloat16", dtype=dtype)
    types = [weight.dtype for weight, _ in stacks[0, True]]
    assert types == [torch.bfloat16 if dtype == "int8" else torch.float32, torch.bfloat16, torch.float32]
    error = np.abs(found.numpy() - exact)
    assert 0 < error.max() < 2 * 2.0**-8 * np.abs(exact).max()


@pytest.mark.parametrize(("gain", "made"), [(products.GAIN, set()), (1.5, {(0, True)})])
def test_that_is_done_where_it_is_measured_to_be_faster_and_rows_are_few(gain, made, large, monkeypatch):
    asked = []
    monkeypatch.setattr(products, "gain_beside", lambda *given, **_: (asked.append(given), gain)[1])
    monkeypatch.setattr(products, "gain", lambda *_, **__: 0.0)
    assert set(stacks_of("auto")[0]) == made
    assert asked == [((20, 64, 32, 7), dense.BLOCK, 3, "relu")]
    assert set(stacks_of("auto", rows=dense.FEW_ROWS_LOW + 1)[0]) == set()
    assert set(stacks_of("float32")[0]) == set()
    assert len(asked) == 1
    monkeypatch.setattr(dense, "FEW_BYTES", 2**17)  # where that does not pay, small ones go in float32
    assert set(stacks_of("auto")[0]) == (made or {(0, False)})


def test_what_side_by_side_gains_is_measured_once_for_about_so_many_rows(large):
    products._measured_beside.cache_clear()
    found = [products.gain_beside((20, 64, 7), 4, rows, "relu", exact=True) for rows in (4, 5, 7)]
    assert found[0] > 0.0
    assert len(set(found)) == 1
    products._measured_beside.cache_clear()


class Shapes(TorchDispatchMode):
    """Notes the rows of each product in these operators."""

    def __init__(self, *names):
        super().__init__()
        self.names, self.rows = names, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(name in str(func) for name in self.names):
            self.rows.append(args[0].shape[0])
        return func(*args, **(kwargs or {}))


def test_rows_are_filled_up_to_few_lengths_by_a_sixteenth_at_most():
    lengths = np.array([products.even(rows) for rows in range(1, 5001)])
    more = lengths - np.arange(1, 5001)
    assert (more >= 0).all()
    assert (more[128:] * 16 < np.arange(129, 5001)).all()
    assert len(np.unique(lengths[1024:2048])) == 16
    assert lengths[0] == 1  # another kind of product


@pytest.mark.skipif(not products.has_fused_product(), reason="this torch has no product of oneDNN")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_of_onednn_have_few_shapes_and_rows_that_do_not_count_change_no_bit(precision, monkeypatch):
    monkeypatch.setattr(products, "MUCH_WORK", 2**16)
    monkeypatch.setattr(products, "has_bfloat16", lambda: True)
    spec = spec_of()
    policies, seen = policies_of(spec), rows_of(spec, 400)
    low = dense.DenseGroup(policies, precision)._in_precision(0, 100)
    with Shapes("_linear_pointwise") as shapes:
        found = [logits(policies, [n, 400 - n], seen, precision)[:n] for n in range(98, 129, 6)]
    assert set(shapes.rows) == {104, 112, 120, 128, 272, 288, 304}
    for n, each in zip(range(98, 129, 6), found, strict=True):
        rows = torch.from_numpy(seen[:n]).float()
        for weight, bias in low[:-1]:
            product = torch.ops.mkldnn._linear_pointwise
            rows = product(rows.to(weight.dtype), weight, bias, "relu", [], "")
        assert np.array_equal(each, torch.nn.functional.linear(rows.float(), *low[-1]).numpy())


@pytest.mark.parametrize(("gain", "used"), [(0.9, False), (1.1, True)])
def test_which_product_in_float32_is_faster_is_measured_where_bits_may_differ(gain, used, monkeypatch):
    monkeypatch.setattr(products, "gain", lambda *_, **__: 0.0)
    monkeypatch.setattr(products, "MUCH_WORK", 2**40 if used else 0)
    monkeypatch.setattr(products, "_measured_fused", lambda *_: gain)
    spec = spec_of()
    policies, seen = policies_of(spec), rows_of(spec, 200)
    for precision, fused in (("auto", used), ("float32", not used)):
        with Shapes("_linear_pointwise") as shapes:
            logits(policies, [200, 0], seen, precision)
        assert bool(shapes.rows) is (fused and products.has_fused_product())
