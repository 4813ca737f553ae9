"""Memories: sequences taken whole give what steps give, and windows end where they say."""

import math

import pytest
import torch

from league.models.networks.encoders import BadNetwork
from league.models.networks.memory import Packed, Recurrent, TransformerBlock, build_memory
from league.models.spec import PolicySettings

pytestmark = pytest.mark.slow

FEATURES = 6
KINDS = ["gru", "lstm", "transformer", "transformer of one step"]


def memory(kind, size=8, context=4, heads=2, seed=0):
    if kind == "transformer of one step":
        kind, context = "transformer", 1
    settings = PolicySettings(
        memory={"kind": kind, "size": size, "context": context, "heads": heads}
        if kind == "transformer"
        else {"kind": kind, "size": size}
        if kind != "none"
        else "none"
    )
    made = build_memory(settings, FEATURES)
    made.initialise(torch.Generator().manual_seed(seed))
    with torch.no_grad():  # fresh ones would hide a mistake in what is zero or one
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    return made


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layout_of(lengths, shuffle_seed=None, longest=None):
    """Rows of sequences of these lengths, one after the other or in any order; [T, B]."""
    rows = torch.arange(sum(lengths))
    if shuffle_seed is not None:
        rows = torch.randperm(len(rows), generator=torch.Generator().manual_seed(shuffle_seed))
    layout = torch.full((longest or max(lengths), len(lengths)), len(rows))
    for column, part in enumerate(rows.split(lengths)):
        layout[: len(part), column] = part
    return layout


def lived_in(made, num_sequences, steps=2):
    """Memories of seats that have taken a few steps: the first none, so its row is zero."""
    rows = torch.zeros(num_sequences, made.memory_size)
    for step in range(steps):
        _, after = made.step(random(num_sequences, FEATURES, seed=100 + step), rows)
        rows = torch.cat([rows[:1], after[1:]])
    return rows.detach()


def by_steps(made, features, layout, rows):
    """What `unroll` should give, one sequence and step at a time."""
    outputs = [None] * len(features)
    lasts = []
    for column in range(layout.shape[1]):
        row = rows[column : column + 1]
        for place in layout[:, column].tolist():
            if place < len(features):
                outputs[place], row = made.step(features[place : place + 1], row)
        lasts.append(row)
    return torch.cat(outputs), torch.cat(lasts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[5, 1, 9, 3], [4, 4, 4], [1], [1, 1], [12]])
@pytest.mark.parametrize("shuffle_seed", [None, 3])
def test_a_sequence_taken_whole_gives_what_its_steps_give(kind, lengths, shuffle_seed):
    made = memory(kind)
    layout = layout_of(lengths, shuffle_seed)
    features, rows = random(sum(lengths), FEATURES), lived_in(made, len(lengths))
    assert rows[1:].any() or len(lengths) == 1 or kind == "transformer of one step"
    output, last = made.unroll(features, layout, rows)
    wanted, wanted_last = by_steps(made, features, layout, rows)
    assert output.shape == (sum(lengths), made.width)
    torch.testing.assert_close(output, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(last, wanted_last, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_sequences_are_those_of_their_steps(kind):
    made = memory(kind)
    layout = layout_of([5, 1, 7], 2)
    rows = lived_in(made, 3)
    found = []
    for run in (made.unroll, lambda *arguments: by_steps(made, *arguments)):
        features, first = random(13, FEATURES).requires_grad_(), rows.clone().requires_grad_()
        output, last = run(features, layout, first)
        loss = (output.sin() * random(13, made.width, seed=4)).sum() + last.cos().sum()
        wanted = [features, first, *made.parameters()]
        found.append(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True))
    for whole, stepped in zip(*found, strict=True):
        torch.testing.assert_close(whole, stepped, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_torchs_kernels_and_our_loop_give_the_same(kind):
    made = memory(kind)
    data, first = random(11, FEATURES), random(3, made.memory_size)
    sizes = torch.tensor([3, 3, 2, 2, 1])
    for kernel, loop in zip(
        made._by_kernel(data, sizes, first), made._by_loop(data, sizes, first), strict=True
    ):
        torch.testing.assert_close(kernel, loop, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_company_change_nothing(kind):
    made = memory(kind)
    lengths = [3, 8, 2]
    features, rows = random(13, FEATURES), lived_in(made, 3)
    output, last = made.unroll(features, layout_of(lengths), rows)
    padded, padded_last = made.unroll(features, layout_of(lengths, longest=20), rows)
    torch.testing.assert_close(padded, output)
    torch.testing.assert_close(padded_last, last)
    alone, alone_last = made.unroll(features[11:], layout_of([2]), rows[2:])
    torch.testing.assert_close(alone, output[11:])
    torch.testing.assert_close(alone_last, last[2:])


def test_steps_that_no_sequence_has_are_not_among_those_of_the_packed_form():
    """cuDNN refuses a step of no sequence, such as the last one of a batch whose matches all ended."""
    packed = Packed.of(layout_of([3, 1, 3], longest=6), 7)
    assert packed.sizes.tolist() == [3, 2, 2]
    assert len(packed.rows) == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_memory_that_is_handed_on_goes_on_where_it_was(kind):
    made = memory(kind)
    features, rows = random(10, FEATURES), lived_in(made, 1)
    whole, last = made.unroll(features, layout_of([10]), rows)
    first, between = made.unroll(features[:6], layout_of([6]), rows)
    second, after = made.unroll(features[6:], layout_of([4]), between)
    torch.testing.assert_close(torch.cat([first, second]), whole, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after, last, atol=1e-5, rtol=1e-5)


def test_sizes_of_memory_rows():
    sizes = {kind: memory(kind).memory_size for kind in KINDS}
    assert sizes == {"gru": 8, "lstm": 16, "transformer": 3 * 8 + 1, "transformer of one step": 1}


def test_gru_follows_its_equations():
    made = memory("gru", size=3)
    x, h = random(2, FEATURES), random(2, 3, seed=1)
    w_ih, w_hh, b_ih, b_hh = (
        getattr(made.cell, name) for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    )
    gates_x, gates_h = (x @ w_ih.T + b_ih).chunk(3, 1), (h @ w_hh.T + b_hh).chunk(3, 1)
    reset, update = (torch.sigmoid(gates_x[i] + gates_h[i]) for i in (0, 1))
    new = torch.tanh(gates_x[2] + reset * gates_h[2])
    wanted = (1 - update) * new + update * h
    output, row = made.step(x, h)
    torch.testing.assert_close(output, wanted)
    torch.testing.assert_close(row, wanted)


def test_lstm_follows_its_equations():
    made = memory("lstm", size=3)
    x, row = random(2, FEATURES), random(2, 6, seed=1)
    h, c = row.chunk(2, 1)
    cell = made.cell
    gates = x @ cell.weight_ih_l0.T + cell.bias_ih_l0 + h @ cell.weight_hh_l0.T + cell.bias_hh_l0
    enter, forget, new, leave = gates.chunk(4, 1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(new)
    h = torch.sigmoid(leave) * torch.tanh(c)
    output, after = made.step(x, row)
    torch.testing.assert_close(output, h)
    torch.testing.assert_close(after, torch.cat([h, c], 1))


def reference_attention(made, features):
    """The last step's output of one sequence [T, F] (T at most the context), head by head."""
    x = made.enter(features)
    y = made.attention_norm(x)
    query, keys, contents = made.query(y[-1]), made.key(y), made.content(y)
    width, answers = made.width // made.heads, []
    for head in range(made.heads):
        part = slice(head * width, (head + 1) * width)
        ages = made.age[head, made.context - len(y) :]
        weight = (keys[:, part] @ query[part] / math.sqrt(width) + ages).softmax(0)
        answers.append(weight @ contents[:, part])
    x = x[-1] + made.leave(torch.cat(answers))
    return made.output_norm(x + made.dense(made.dense_norm(x)))


@pytest.mark.parametrize("num_steps", [1, 3, 4])
def test_the_transformer_is_scaled_dot_product_attention_with_numbers_by_age(num_steps):
    made = memory("transformer", context=4)
    features = random(num_steps, FEATURES)
    output, _ = made.unroll(features, layout_of([num_steps]), torch.zeros(1, made.memory_size))
    torch.testing.assert_close(output[-1], reference_attention(made, features), atol=1e-5, rtol=1e-5)


def test_the_window_of_the_transformer_ends_exactly_at_its_context():
    made = memory("transformer", context=4)
    features = random(12, FEATURES)
    before, _ = made.unroll(features, layout_of([12]), torch.zeros(1, made.memory_size))
    features[5] += 1.0
    after, _ = made.unroll(features, layout_of([12]), torch.zeros(1, made.memory_size))
    moved = (before - after).abs().amax(1) > 1e-4
    assert moved.tolist() == [False] * 5 + [True] * 4 + [False] * 3


def test_a_recurrent_memory_reaches_further_back_than_any_window():
    made = memory("gru")
    features = random(12, FEATURES)
    before, _ = made.unroll(features, layout_of([12]), torch.zeros(1, made.memory_size))
    features[0] += 1.0
    after, _ = made.unroll(features, layout_of([12]), torch.zeros(1, made.memory_size))
    assert ((before - after).abs().amax(1) > 0).all()


def test_a_long_match_does_not_overflow_the_count_of_the_window():
    made = memory("transformer", context=4)
    row = torch.zeros(1, made.memory_size)
    counts = []
    for step in range(6):
        _, row = made.step(random(1, FEATURES, seed=step), row)
        counts.append(row[0, -1].item())
    assert counts == [1, 2, 3, 3, 3, 3]


def test_fresh_recurrent_weights_are_orthogonal_and_forget_gates_open():
    for kind, gates in (("gru", 3), ("lstm", 4)):
        made = Recurrent(kind, 8, 8)
        made.initialise(torch.Generator().manual_seed(0))
        for weight in (made.cell.weight_ih_l0, made.cell.weight_hh_l0):
            for gate in weight.split(8):
                torch.testing.assert_close(gate @ gate.T, torch.eye(8), atol=1e-5, rtol=0)
        bias = (made.cell.bias_ih_l0 + made.cell.bias_hh_l0).view(gates, 8)
        assert bias.tolist() == [[1.0 if kind == "lstm" and gate == 1 else 0.0] * 8 for gate in range(gates)]


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(BadNetwork, match=r"policy.memory.size is 10, policy.memory.heads 4; .* such as 12"):
        TransformerBlock(FEATURES, 10, 4, 4, "relu")


@pytest.mark.parametrize("kind", ["gru", "lstm"])
@pytest.mark.parametrize("way", ["_by_loop", "_by_kernel"])
def test_a_recurrent_memory_computes_in_float32_whatever_autocast_makes_of_features(kind, way, monkeypatch):
    """As on a GPU with learner.precision bfloat16; the kernel is what runs there."""
    made = memory(kind)
    monkeypatch.setattr(made, "_by_loop", getattr(made, way))
    layout, features = layout_of([5, 1, 9], 2), random(15, FEATURES).bfloat16().requires_grad_()
    rows = lived_in(made, 3)
    wanted = made.unroll(features.float(), layout, rows)
    with torch.autocast("cpu", torch.bfloat16):
        found = made.unroll(features, layout, rows)
        stepped = made.step(features[:3], rows)
    for a, b in zip((*found, *stepped), (*wanted, *made.step(features[:3].float(), rows)), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, atol=0, rtol=0)
    found[0].sum().backward()
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_memory_learns_under_autocast(kind):
    made, layout = memory(kind), layout_of([5, 1, 9], 2)
    rows, torso = lived_in(made, 3), torch.nn.Linear(FEATURES, FEATURES)
    with torch.autocast("cpu", torch.bfloat16):
        output, last = made.unroll(torso(random(15, FEATURES)), layout, rows)
    assert last.dtype == torch.float32
    output.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in (*made.parameters(), *torso.parameters()))
