"""Learner: one player's network, optimizer and update. A plain class; groups make it remote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from league.episode import Episodes
from league.learning.batching import Batch, minibatches
from league.learning.losses import LOSSES, entropy
from league.learning.schedules import Linear, Schedule, value_at
from league.learning.vtrace import vtrace
from league.models.policy import PolicySpec, build_network, check_tensors, initial_weights
from storage.errors import Failure


class LearnerSettings(BaseModel):
    """How players learn."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    loss: Literal["impala", "appo"] = Field(
        default="appo", description="V-trace policy gradient, or PPO's clipped surrogate on V-trace errors"
    )
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] | Linear = Field(
        default=5e-4,
        description="Adam's step size; {start, end}: a line over the whole run",
    )
    batch_steps: int = Field(default=4096, ge=1, description="Steps in one update (whole sequences: about)")
    sequence_length: int = Field(
        default=128, ge=1, description="Longer episodes are cut and bootstrapped here"
    )
    epochs: int = Field(default=1, ge=1, description="Passes over the same experience")
    discount: float = Field(default=1.0, ge=0, le=1, description="Gamma, per own decision")
    vtrace_lambda: float = Field(default=0.95, ge=0, le=1, description="Lambda of V-trace; 1: as published")
    clip: float = Field(default=0.2, gt=0, lt=1, description="appo: how far the ratio may move")
    entropy: Schedule = Field(
        default=0.01, description="Weight of the entropy bonus; a number or {start, end}, as for lr"
    )
    value: float = Field(default=0.5, ge=0, description="Weight of the value loss")
    gradient_norm: float = Field(default=1.0, gt=0, description="Gradients are clipped to this norm")
    max_backlog: int = Field(
        default=2, ge=1, description="Rollouts of one player that may wait for its learner before play pauses"
    )


class NonFiniteLoss(Failure, ArithmeticError):
    """A loss became NaN or infinite; the weights of before that update are kept."""


@dataclass(frozen=True, slots=True)
class LearnerState:
    """All that a learner needs to go on. Tensors are copies on the CPU, never the live ones."""

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]  # "step", "exp_avg.<name>", "exp_avg_sq.<name>": Adam's own names
    updates: int
    env_steps: int

    def to_tensors(self) -> dict[str, Tensor]:
        """Weights and moments in one mapping, to be stored; `from_tensors` takes them apart again."""
        return {
            f"{part}/{name}": tensor
            for part, tensors in (("weights", self.weights), ("optimizer", self.optimizer))
            for name, tensor in tensors.items()
        }

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], updates: int, env_steps: int) -> LearnerState:
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimizer": {}}
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            parts[part][name] = tensor
        return LearnerState(parts["weights"], parts["optimizer"], updates, env_steps)


class Learner:
    """Learns one player's policy from its episodes.

    `updates` counts optimizer steps and is the version of the weights; `env_steps` counts the
    steps trained on, each once however many epochs.
    """

    def __init__(
        self,
        player: str,
        spec: PolicySpec,
        settings: LearnerSettings,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self.player = player
        self.spec = spec
        self.settings = settings
        self.device = torch.device(device)
        self.updates = 0
        self.env_steps = 0
        self._network = build_network(spec)
        self._network.load_state_dict(initial_weights(spec, seed))
        self._network.to(self.device)
        self._parameters = dict(self._network.named_parameters())
        self._optimizer = self._fresh_optimizer()
        self._rng = np.random.default_rng(seed)
        self._waiting: list[Episodes] = []
        self._progress = 0.0

    def update_from_episodes(self, episodes: Episodes, progress: float = 0.0) -> dict[str, float] | None:
        """Learn from these episodes, and from those still waiting for a batch to fill.

        `progress` is the part of the run that is done, in [0, 1]: what schedules go by. Returns means
        over the updates made, with "lag" in updates; None when too few steps wait.
        """
        self._progress = progress
        self._waiting.append(episodes)
        if sum(part.num_steps for part in self._waiting) < self.settings.batch_steps:
            return None
        episodes = Episodes.concatenate(self._waiting)
        self._waiting = []
        reports = [
            self.update_from_batch(batch.to(self.device))
            for epoch in range(self.settings.epochs)
            for batch in minibatches(
                episodes,
                self.settings.batch_steps,
                self.settings.sequence_length,
                self._rng if epoch else None,  # the first pass takes the order of play
            )
        ]
        self.env_steps += episodes.num_steps
        return {key: float(np.mean([report[key] for report in reports])) for key in reports[0]}

    def update_from_batch(self, batch: Batch) -> dict[str, float]:
        """One optimizer step. Raises NonFiniteLoss, the weights untouched, if the loss is no number."""
        settings = self.settings
        n = batch.num_steps
        lag = self.updates - float(batch.lag_versions.double().mean())
        logits, value_all = self._network(batch.observation)
        log_probs = logits[:n].masked_fill(~batch.mask, -torch.inf).log_softmax(1)
        log_prob = log_probs.gather(1, batch.action.unsqueeze(1)).squeeze(1)
        value = value_all[:n]
        vs, error = self._targets(batch, log_prob.detach(), value_all.detach())
        policy_loss = LOSSES[settings.loss](log_prob, batch.log_prob, error, settings.clip)
        value_loss = 0.5 * (value - vs).square().mean()
        mean_entropy = entropy(log_probs).mean()
        entropy_weight = value_at(settings.entropy, self._progress)
        loss = policy_loss + settings.value * value_loss - entropy_weight * mean_entropy
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self._parameters.values(), settings.gradient_norm)
        if not bool(torch.isfinite(loss) & torch.isfinite(norm)):
            raise NonFiniteLoss(
                f"player {self.player}, update {self.updates + 1}: the loss is {float(loss.detach())} "
                f"and its gradient's norm {float(norm)}, expected finite numbers; "
                "the last good weights are kept: lower learner.lr"
            )
        for group in self._optimizer.param_groups:
            group["lr"] = value_at(settings.lr, self._progress)
        self._optimizer.step()
        self.updates += 1
        return {
            "policy_loss": float(policy_loss.detach()),
            "value_loss": float(value_loss.detach()),
            "entropy": float(mean_entropy.detach()),
            "gradient_norm": float(norm),
            "lag": lag,
        }

    def _targets(self, batch: Batch, log_prob: Tensor, value_all: Tensor) -> tuple[Tensor, Tensor]:
        """V-trace's value targets and errors of the batch's steps, [N] each."""
        present = batch.rows < batch.num_steps
        nothing = value_all.new_zeros(1)
        values = torch.cat([value_all[: batch.num_steps], nothing])
        following = torch.cat([value_all, nothing])
        reward = torch.cat([batch.reward, nothing])[batch.rows]
        rho = torch.cat([(log_prob - batch.log_prob).exp(), nothing])[batch.rows]
        discount = torch.where(batch.after < len(value_all), self.settings.discount, 0.0)
        result = vtrace(
            values[batch.rows],
            following[batch.after],
            reward,
            discount,
            rho,
            lambda_=self.settings.vtrace_lambda,
        )
        flat = batch.rows[present]
        vs, error = torch.empty_like(value_all[: batch.num_steps]), torch.empty_like(log_prob)
        vs[flat] = result.vs[present]
        error[flat] = result.error[present]
        return vs, error

    def weights(self) -> dict[str, Tensor]:
        """A deep copy on the CPU: what is frozen or broadcast never follows the live weights."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self._parameters.items()}

    def state(self) -> LearnerState:
        """A copy of everything that `load_state` needs to go on exactly here."""
        moments: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            for key, tensor in self._optimizer.state[parameter].items():
                moments[f"{key}.{name}"] = tensor.detach().to("cpu", copy=True)
        return LearnerState(self.weights(), moments, self.updates, self.env_steps)

    def load_state(self, state: LearnerState) -> None:
        """Go on from `state`. Raises WeightsMismatch if it belongs to another network."""
        self._load_weights(state.weights)
        self._optimizer = self._fresh_optimizer()
        for key, tensor in state.optimizer.items():
            moment, name = key.split(".", 1)
            self._optimizer.state[self._parameters[name]][moment] = (
                tensor.clone() if moment == "step" else tensor.to(self.device, copy=True)
            )
        self.updates, self.env_steps = state.updates, state.env_steps
        self._waiting = []

    def reset(self, weights: Mapping[str, Tensor]) -> None:
        """Start again from `weights`: fresh optimizer, waiting experience dropped, counters go on."""
        self._load_weights(weights)
        self._optimizer = self._fresh_optimizer()
        self._waiting = []

    def _load_weights(self, weights: Mapping[str, Tensor]) -> None:
        wanted = {name: tuple(tensor.shape) for name, tensor in self._parameters.items()}
        check_tensors(f"player {self.player}", weights, wanted)
        with torch.no_grad():
            for name, tensor in weights.items():
                self._parameters[name].copy_(tensor)

    def _fresh_optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam(self._parameters.values(), eps=1e-5)  # lr is set at each step
