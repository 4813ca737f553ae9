"""The precision in which a network learns: float32, or bfloat16 where that is faster and as good.

In bfloat16 the hidden layers are computed forwards and backwards with 8 significant bits. Weights,
statistics, logits, values, losses and the optimizer stay in float32 (Micikevicius et al. 2018, Mixed
precision training, https://arxiv.org/abs/1710.03740; bfloat16 has float32's range, so losses need no scale).

`learner.precision: auto` tries both on a network of the policy's kind: bfloat16 has to be `GAIN` times as
fast, and its gradient may differ from float32's by `ERROR` of that one's norm.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.cluster.cards import require_precision, set_tf32
from league.learning.data.batching import lay_out
from league.learning.learner.forward import Forward
from league.learning.settings import LearnerSettings
from league.models.networks.networks import Network, build_network
from league.models.policies.policy import initial_weights
from league.models.policies.products import has_bfloat16, times_as_fast
from league.models.spec import PolicySpec

log = logging.getLogger(__name__)

GAIN = 1.1  # times as fast as float32
ERROR = 0.05  # of the gradient's norm
REPEATS = 8  # of each timing; the fastest counts
LENGTH = 16  # of the sequences that a network with memory is tried on
MOST_ROWS = 4096  # that are tried


class Trial(NamedTuple):
    """What bfloat16 is to float32 on this processor or GPU."""

    gain: float  # times as fast, forwards and backwards
    error: float  # norm of the gradients' difference, to that of float32's

    @property
    def passed(self) -> bool:
        """Whether to learn in bfloat16."""
        return self.gain > GAIN and self.error < ERROR


_trials: dict[tuple[PolicySpec, int, str], Trial] = {}  # of this process: players of one kind agree


def settled(
    spec: PolicySpec, settings: LearnerSettings, device: torch.device
) -> tuple[LearnerSettings, Trial | None]:
    """Return the settings with a precision in place of `auto`, and what was measured for that.

    Raise Mistake for one that the device lacks.
    """
    require_precision("learner.precision", settings.precision, str(device))
    if settings.precision != "auto":
        return settings, None
    rows = min(settings.batch_steps, MOST_ROWS)
    trial = _trials.get((spec, rows, device.type))
    if trial is None:
        trial = _trials[spec, rows, device.type] = tried(spec, rows, device)
    chosen = "bfloat16" if trial.passed else "float32"
    log.info(
        "learner.precision: bfloat16 is %.2f times as fast, gradients differ by %.3f; going on in %s",
        trial.gain,
        trial.error,
        chosen,
    )
    return settings.model_copy(update={"precision": chosen}), trial


def tried(spec: PolicySpec, rows: int, device: torch.device) -> Trial:
    """Try both precisions with so many rows; where oneDNN has no bfloat16, without a trial."""
    if device.type == "cpu" and not has_bfloat16():
        return Trial(0.0, 0.0)
    network = build_network(spec)
    network.load_state_dict(initial_weights(spec, 0))
    network.to(device)
    lengths = np.full(max(1, rows // LENGTH), min(LENGTH, rows))
    rng = np.random.default_rng(0)
    seen = rng.integers(0, 2, (int(lengths.sum()), *spec.learned.shape)).astype(spec.learned.dtype)
    inputs = (
        torch.from_numpy(seen).to(device),
        torch.from_numpy(lay_out(lengths)).to(device),
        torch.zeros(len(lengths), network.memory_size, device=device),
    )
    if device.type != "cpu":
        set_tf32(False)  # else float32's gradient would be another
    forwards = {bfloat16: Forward(network, bfloat16) for bfloat16 in (False, True)}
    gradients: dict[bool, Tensor] = {}

    def learn(bfloat16: bool) -> None:
        gradients[bfloat16] = _gradient(network, forwards[bfloat16], *inputs)

    try:
        gain = times_as_fast(lambda: learn(True), lambda: learn(False), device.type, REPEATS)
    except RuntimeError as error:  # a layer that does not know bfloat16
        log.info("learner.precision: %s", str(error).partition("\n")[0])
        return Trial(0.0, 0.0)
    plain, low = gradients[False], gradients[True]
    return Trial(gain, float((low - plain).norm() / plain.norm().clamp(min=1e-30)))


def _gradient(
    network: Network, forward: Forward, observation: Tensor, layout: Tensor, memory: Tensor
) -> Tensor:
    """Return all gradients of a sum in which rows weigh differently, as advantages do."""
    output, _ = forward.unroll(observation, layout, memory)
    weight = torch.linspace(-1.0, 2.0, len(output.value), device=output.value.device)
    loss = (output.parameters.square().sum(1) * weight).mean() + (output.value * weight).mean()
    network.zero_grad(set_to_none=True)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
