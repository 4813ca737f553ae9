"""Memories: layers that connect the steps of one seat in one match.

    gru, lstm      recurrent (Cho et al. 2014, https://arxiv.org/abs/1406.1078;
                   Hochreiter and Schmidhuber 1997)
    transformer    attention over the last `context` steps, with the present one

The memory of a seat is a row of floats, all zero when a match begins. `step` advances every seat by
one step; `unroll` computes whole sequences, with the same result as repeated steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from league.models import torsos
from league.models.networks.encoders import ACTIVATIONS, BadNetwork, orthogonal
from league.models.spec import PolicySettings


class Memory(nn.Module, ABC):
    """Base of all memories. In shapes: n, M rows; T steps; B sequences."""

    memory_size: int  # floats per seat
    width: int  # of the output

    @abstractmethod
    def step(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [n, width] and the memory after one step.

        `features` [n, F], `memory` [n, memory_size].
        """

    @abstractmethod
    def unroll(self, features: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs [M, width] of whole sequences, and the memory after each [B, memory_size].

        `features` [M, F]; `layout` [T, B] int64: the row of each step, M where a sequence has ended;
        `memory` [B, memory_size].
        """

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights in place."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The rows of a layout by time, the longest sequence first, without padding.

    To find it on a GPU would take a wait. So the host packs a layout before that is sent, and the layout
    brings its packed form along.
    """

    rows: Tensor  # [M] the row at each packed place
    places: Tensor  # [M] the packed place of each row
    sizes: Tensor  # [T'] on the CPU: number of sequences that have this step, one or more
    order: Tensor  # [B] the sequences, longest first
    rank: Tensor  # [B] place of each sequence in that order

    @staticmethod
    def of(layout: Tensor, num_rows: int) -> Packed:
        """Return the packed form of `layout` [T, B] of `num_rows` rows: the one that it brings, if any."""
        if (brought := getattr(layout, "packed", None)) is not None:
            return brought
        present = layout < num_rows
        order = present.sum(0).argsort(descending=True)
        rows = layout[:, order][present[:, order]]
        sizes = present.sum(1).cpu()
        # a step without a sequence, as the last one of matches that all ended: cuDNN refuses it
        return Packed(rows, _inverse(rows), sizes[sizes > 0], order, _inverse(order))

    def brought_by(self, layout: Tensor) -> Tensor:
        """Return `layout`, which brings its packed form to all networks that unroll along it."""
        layout.packed = self  # type: ignore[attr-defined]
        return layout

    def tensors(self) -> dict[str, Tensor]:
        """Return all that goes to a GPU, by name; `with_tensors` is the inverse."""
        return {f"packed.{name}": getattr(self, name) for name in ("rows", "places", "order", "rank")}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Packed:
        """Return the same with those of its tensors that are in `tensors`, among others."""
        own = {name.removeprefix("packed."): tensors[name] for name in self.tensors()}
        return replace(self, **own)


def _inverse(permutation: Tensor) -> Tensor:
    places = torch.empty_like(permutation)
    places[permutation] = torch.arange(len(permutation), device=permutation.device)
    return places


class Recurrent(Memory):
    """A GRU, or an LSTM. The memory row of an LSTM is its output and its cell, side by side.

    Each call passes the present weights to the kernels. torch's own modules keep a separate list of
    weights, which would miss the tensors that policies lend.

    Under autocast (`learner.precision: bfloat16`) it computes in float32 nevertheless: a memory carries its
    rounding errors on from step to step, and torch's kernels take one type for features and memory.
    """

    def __init__(self, kind: str, num_features: int, size: int) -> None:
        super().__init__()
        self.kind = kind
        self.cell = (nn.GRU if kind == "gru" else nn.LSTM)(num_features, size)
        self.memory_size = size if kind == "gru" else 2 * size
        self.width = size

    def step(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_autocast_enabled(features.device.type):
            with torch.autocast(features.device.type, enabled=False):
                return self.step(features.float(), memory.float())
        if self.kind == "gru":
            output = torch.gru_cell(features, memory, *self._weights())
            return output, output.float()
        output, cell = torch.lstm_cell(features, memory.chunk(2, 1), *self._weights())
        return output, torch.cat([output, cell], 1).float()

    def step_by_formula(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same as `step`, by operators that any format of networks has (ONNX knows no cells)."""
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights()
        advance = _gru_step if self.kind == "gru" else _lstm_step
        state = memory.chunk(self.memory_size // self.width, 1)
        state = advance(F.linear(features, weight_ih, bias_ih), state, weight_hh.t(), bias_hh)
        return state[0], torch.cat(state, 1)

    def unroll(self, features: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_autocast_enabled(features.device.type):
            with torch.autocast(features.device.type, enabled=False):
                return self.unroll(features.float(), layout, memory.float())
        packed = Packed.of(layout, len(features))
        data, first = features.index_select(0, packed.rows), memory.index_select(0, packed.order)
        # on the CPU, the gradient of torch's packed kernels takes T passes over all M rows
        run = self._by_kernel if data.is_cuda else self._by_loop
        output, last = run(data, packed.sizes, first)
        return output.index_select(0, packed.places), last.index_select(0, packed.rank).float()

    def _by_kernel(self, data: Tensor, sizes: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return packed outputs [M, size] and memory, for packed rows [M, F] and memory [B, memory_size]."""
        weights = self._weights()
        if len({weight.untyped_storage().data_ptr() for weight in weights}) > 1:
            self.cell.flatten_parameters()  # a copied module has separate tensors, which is slow in cuDNN
            weights = self._weights()
        # has_biases, num_layers, dropout, train, bidirectional
        options = (True, 1, 0.0, self.training, False)
        if self.kind == "gru":
            output, last = torch.gru(data, sizes, memory.unsqueeze(0), weights, *options)
            return output, last[0]
        both = tuple(part.contiguous().unsqueeze(0) for part in memory.chunk(2, 1))
        output, hidden, cell = torch.lstm(data, sizes, both, weights, *options)
        return output, torch.cat([hidden[0], cell[0]], 1)

    def _by_loop(self, data: Tensor, sizes: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the same as `_by_kernel`, step by step."""
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights()
        advance = _gru_step if self.kind == "gru" else _lstm_step
        state = memory.chunk(self.memory_size // self.width, 1)
        outputs, lasts = [], []  # lasts: states of the sequences that ended, shortest first
        for gates in F.linear(data, weight_ih, bias_ih).split(sizes.tolist()):
            if len(gates) < len(state[0]):
                lasts.append(torch.cat([part[len(gates) :] for part in state], 1))
                state = tuple(part[: len(gates)] for part in state)
            state = advance(gates, state, weight_hh.t(), bias_hh)
            outputs.append(state[0])
        lasts.append(torch.cat(state, 1))
        return torch.cat(outputs), torch.cat(lasts[::-1])

    def _weights(self) -> list[Tensor]:
        """Return weight_ih, weight_hh, bias_ih, bias_hh."""
        return [*self.cell.all_weights[0]]

    def initialise(self, generator: torch.Generator) -> None:
        """Make gates orthogonal, biases zero, forget gates of an LSTM open (Jozefowicz et al. 2015)."""
        weight_ih, weight_hh, *biases = self._weights()
        with torch.no_grad():
            for gate in (*weight_ih.split(self.width), *weight_hh.split(self.width)):
                nn.init.orthogonal_(gate, 1.0, generator=generator)
            for bias in biases:
                bias.zero_()
            if self.kind == "lstm":
                biases[0][self.width : 2 * self.width] = 1.0


def _gru_step(gates: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    """Return hidden after a step. `gates` [n, 3 size]: input part of the gates; `state`: hidden [n, size]."""
    (hidden,) = state
    size = hidden.shape[1]
    own = torch.addmm(bias, hidden, weight)
    reset, update = (gates[:, : 2 * size] + own[:, : 2 * size]).sigmoid().chunk(2, 1)
    new = torch.addcmul(gates[:, 2 * size :], reset, own[:, 2 * size :]).tanh()
    return (torch.lerp(new, hidden, update),)


def _lstm_step(gates: Tensor, state: tuple[Tensor, ...], weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    """Return hidden, cell after a step. `gates` [n, 4 size]: input part; `state`: hidden, cell [n, size]."""
    hidden, cell = state
    enter, forget, new, leave = (torch.addmm(gates, hidden, weight) + bias).chunk(4, 1)
    cell = torch.addcmul(forget.sigmoid() * cell, enter.sigmoid(), new.tanh())
    return leave.sigmoid() * cell.tanh(), cell


class TransformerBlock(Memory):
    """One pre-norm block with attention to the last `context` steps.

    The window slides with every step, so a step costs the same in long and short sequences. The score
    between two steps is their product plus a learned number for each head and age (Raffel et al. 2020,
    https://arxiv.org/abs/1910.10683, 2.1).

    Each window has one query only. So keys and values are not computed: the query is mapped to the space
    of the features instead, and the weighted sum of features is mapped to the output.

    A memory row: the features of the last context - 1 steps, oldest first, and their number.
    """

    def __init__(self, num_features: int, width: int, context: int, heads: int, activation: str) -> None:
        super().__init__()
        if width % heads:
            raise BadNetwork(
                f"policy.memory.size is {width}, policy.memory.heads {heads}; expected a size that is a "
                f"multiple of heads, such as {-(-width // heads) * heads}"
            )
        self.width = width
        self.context = context
        self.heads = heads
        self.memory_size = (context - 1) * width + 1
        self.enter = nn.Linear(num_features, width)
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        # a bias would add the same to all scores, without effect
        self.key = nn.Linear(width, width, bias=False)
        self.content = nn.Linear(width, width, bias=False)  # its bias would be redundant with that of `leave`
        self.age = nn.Parameter(torch.empty(heads, context))  # oldest first, the present last
        self.leave = nn.Linear(width, width)
        self.dense_norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(
            nn.Linear(width, 2 * width), ACTIVATIONS[activation](), nn.Linear(2 * width, width)
        )
        self.output_norm = nn.LayerNorm(width)

    def step(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        x = self.enter(features)
        kept, count = self._kept(memory)
        present = self.attention_norm(x)
        window = torch.cat([kept, present.unsqueeze(1)], 1)
        count = count + 1
        output = self._attend(x, present, window, self._ages(x) < count.unsqueeze(1))
        return output, self._row(window[:, 1:], count)

    def unroll(self, features: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        num_rows, (num_steps, num_sequences) = len(features), layout.shape
        x = self.enter(features)
        present = self.attention_norm(x)
        kept, count = self._kept(memory)
        # row of each step in the pool, with the remembered steps in front: [context - 1 + T, B]
        pool = torch.cat([present, kept.flatten(0, 1)])
        before = torch.arange(num_rows, len(pool), device=layout.device).view(num_sequences, self.context - 1)
        places = torch.cat([before.T, layout])
        windows = places.unfold(0, self.context, 1).flatten(0, 1)  # [T B, context]
        known = count + torch.arange(1, num_steps + 1, device=layout.device).unsqueeze(1)  # [T, B]
        # the place of each row in the layout; padding goes behind the last, so that no mask is waited for
        place = layout.new_empty(num_rows + 1)
        place[layout.flatten()] = torch.arange(layout.numel(), device=layout.device)
        place = place[:-1]
        window = pool[windows[place]]
        output = self._attend(x, present, window, self._ages(x) < known.flatten()[place].unsqueeze(1))
        length = (layout < num_rows).sum(0)
        last = places.gather(0, length + torch.arange(self.context - 1, device=layout.device).unsqueeze(1))
        return output, self._row(pool[last.T], count + length)

    def _kept(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the remembered features [n, context - 1, width], and their number [n]."""
        return memory[:, :-1].unflatten(1, (self.context - 1, self.width)), memory[:, -1]

    def _row(self, kept: Tensor, count: Tensor) -> Tensor:
        count = count.clamp(max=self.context - 1).unsqueeze(1)
        return torch.cat([kept.flatten(1), count], 1).float()

    def _ages(self, like: Tensor) -> Tensor:
        return torch.arange(self.context - 1, -1, -1, device=like.device)

    def _attend(self, x: Tensor, present: Tensor, window: Tensor, known: Tensor) -> Tensor:
        """Return the output [n, width].

        `x`, `present` [n, width]; `window` [n, context, width]; `known` [n, context].
        """
        shape = (self.heads, self.width // self.heads)
        query = self.query(present).unflatten(1, shape)
        question = torch.einsum("nhd,hdw->nhw", query, self.key.weight.unflatten(0, shape))
        score = question @ window.transpose(1, 2) / math.sqrt(shape[1]) + self.age  # [n, heads, context]
        weight = score.masked_fill(~known.unsqueeze(1), -torch.inf).softmax(2)
        answer = torch.einsum("nhw,hdw->nhd", weight @ window, self.content.weight.unflatten(0, shape))
        x = x + self.leave(answer.flatten(1))
        return self.output_norm(x + self.dense(self.dense_norm(x)))

    def initialise(self, generator: torch.Generator) -> None:
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                orthogonal(layer, math.sqrt(2.0) if layer is self.dense[0] else 1.0, generator)
            elif isinstance(layer, nn.LayerNorm):
                layer.reset_parameters()  # ones and zeros
        nn.init.zeros_(self.age)


def build_memory(settings: PolicySettings, num_features: int) -> Memory | None:
    """Return the memory that `settings` describe, on features of a torso, or `None`. Raise BadNetwork."""
    memory = settings.memory
    if isinstance(memory, torsos.NoMemory):
        return None
    if isinstance(memory, torsos.Transformer):
        return TransformerBlock(num_features, memory.size, memory.context, memory.heads, settings.activation)
    return Recurrent(memory.kind, num_features, memory.size)
