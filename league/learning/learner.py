"""Learner: one player's network, optimizer and update. A plain class; groups make it remote.

learner.update_from_episodes(episodes)      wait until a batch is full, mix in replayed episodes, and make
                                            all updates that are due
learner.update_from_batch(batch)            make one optimizer step
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from league.episode import Episodes
from league.learning.data.batching import Batch, Sequences, cut, minibatches, preload, tensor_of
from league.learning.data.replay import Replay, Ring, mix
from league.learning.forward import Forward, survey
from league.learning.groups.peers import ALONE, Peers
from league.learning.maths.gae import GAE, advantages
from league.learning.maths.losses import find_loss
from league.learning.maths.objective import Objective, Trainee
from league.learning.maths.optimizers import Optimizers
from league.learning.settings import LearnerSettings, ReplaySettings, RingSettings
from league.models.networks.networks import build_network
from league.models.policies.policy import check_tensors, initial_weights
from league.models.spec import PolicySpec
from storage.errors import Failure, Mistake

__all__ = ["Learner", "LearnerSettings", "LearnerState", "NonFiniteLoss", "ReplaySettings", "RingSettings"]


class NonFiniteLoss(Failure, ArithmeticError):
    """Refusal of an update whose loss is NaN or infinite; everything is as it was before."""

    def __init__(
        self, message: str, update: int = 0, tensors: Mapping[str, npt.NDArray] | None = None
    ) -> None:
        super().__init__(message)
        self.update = update  # its number, had it been made
        self.tensors = dict(tensors or {})  # the batch, by the names of its fields


PARTS = ("weights", "optimizer", "target", "reference")  # of a state, as its tensors are named

Turns = Generator[Batch, Tensor | NonFiniteLoss, dict[str, float] | None]


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Everything that a learner needs to go on. Tensors are copies on the CPU, never the live ones."""

    weights: dict[str, Tensor]  # parameters and buffers
    optimizer: dict[str, Tensor]  # "step.<name>", "exp_avg.<name>", ...: the optimizer's own names
    updates: int
    env_steps: int
    target: dict[str, Tensor] = field(default_factory=dict)  # weights of the target network, if there is one
    reference: dict[str, Tensor] = field(default_factory=dict)  # weights that terms of the loss compare with

    def to_tensors(self) -> dict[str, Tensor]:
        """Return all tensors in one mapping, to be stored; `from_tensors` is the inverse."""
        return {f"{part}/{name}": tensor for part in PARTS for name, tensor in getattr(self, part).items()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], updates: int, env_steps: int) -> LearnerState:
        """Return the state of which `to_tensors` returned `tensors`."""
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            parts[part][name] = tensor
        return LearnerState(**parts, updates=updates, env_steps=env_steps)


class Learner:
    """Learner of one player's policy, from its episodes.

    `updates` counts optimizer steps and is the version of the weights. `env_steps` counts the fresh
    steps trained on, each once however often it is used. Learners on several `peers` get the same calls
    in the same order, and reach the same weights as one alone would.
    """

    def __init__(
        self,
        player: str,
        spec: PolicySpec,
        settings: LearnerSettings,
        seed: int,
        device: str = "cpu",
        peers: Peers = ALONE,
        replay: Replay | None = None,
    ) -> None:
        self.player = player
        self.spec = spec
        self.settings = settings
        self.device = torch.device(device)
        self.updates = 0
        self.env_steps = 0
        bfloat16 = settings.precision == "bfloat16"
        if bfloat16 and self.device.type != "cuda":
            raise Mistake(
                f"learner.precision: found bfloat16 for player {player} on device '{device}', expected a "
                "GPU; set learner.precision to float32, or resources.gpus to 1 or more"
            )
        self._seed = seed
        self._peers = peers
        self._network = build_network(spec)
        self._network.load_state_dict(initial_weights(spec, seed))
        self._network.to(self.device)
        self._parameters = dict(self._network.named_parameters())
        self._forward = Forward(self._network, bfloat16)
        self._speedup: float | None = None  # of compiling; None: not tried yet
        self._target: Forward | None = None
        if settings.target_updates:
            target = copy.deepcopy(self._network).requires_grad_(False)
            self._target = Forward(target, bfloat16)
        self._reference: Forward | None = None
        if find_loss(settings.loss).needs_reference:
            self._reference = Forward(copy.deepcopy(self._network).requires_grad_(False), bfloat16)
        self._objective = Objective(spec, settings, peers)
        self._optimizers = Optimizers(self._parameters, settings)
        self._waiting: list[Episodes] = []
        self._ring = Ring(settings.ring.batches, settings.ring.passes)
        self._replay = replay
        if replay is None and settings.replay.proportion:
            self._replay = Replay(settings.replay.capacity_steps)
        self._progress = 0.0
        self._metrics = (*self._objective.names[1:], "gradient_norm")  # in the order of `_update`

    # ------------------------------------------------------------------ updates

    def update_from_episodes(self, episodes: Episodes, progress: float = 0.0) -> dict[str, float] | None:
        """Learn from these episodes, and from those still waiting for a batch to fill.

        `progress` is the part of the run that is done, in [0, 1], for schedules. Return means over the
        updates made, with "lag" in updates; None when too few steps wait. Raise NonFiniteLoss at the first
        update that is refused; those made before it stay.
        """
        turns = self.turns(episodes, progress)
        try:
            batch = next(turns)
            while True:
                batch = turns.send(self.try_update(batch))
        except StopIteration as finished:
            return finished.value

    def turns(self, episodes: Episodes, progress: float) -> Turns:
        """Yield each batch that `update_from_episodes` would learn from; the caller makes the updates.

        The caller sends the result of `try_update` for each.
        """
        self._progress = progress
        self._waiting.append(episodes)
        proportion = self.settings.replay.proportion
        if sum(part.num_steps for part in self._waiting) < self.settings.batch_steps * (1.0 - proportion):
            return None
        fresh = Episodes.concatenate(self._waiting)
        self._waiting = []
        rng = np.random.default_rng([self._seed, self.updates])
        used, replayed = fresh, 0.0
        if self._replay is not None and proportion:
            wanted = round(fresh.num_steps * proportion / (1.0 - proportion))
            old = self._replay.sample(self.player, wanted, rng)
            if old is not None:
                used, replayed = mix(fresh, old), old.num_steps / (fresh.num_steps + old.num_steps)
        with self._statistics_of(fresh):
            reports: list[Tensor] = []
            for batch in preload(self._batches(used, rng), self.device):
                for due in self._ring.turn(batch):
                    report = yield due
                    if isinstance(report, NonFiniteLoss):
                        raise report
                    reports.append(report)
        if self._replay is not None and proportion:
            self._replay.add(self.player, fresh)
        self.env_steps += fresh.num_steps
        means = torch.stack(reports).mean(0).tolist()  # the only numbers read back from a GPU
        metrics = dict(zip(self._metrics, means, strict=True))
        if self._replay is not None and proportion:
            metrics |= {"replayed": replayed, **self._replay.info().metrics()}
        if self.settings.compile:
            metrics["compile_speedup"] = self._speedup or 0.0
        return metrics

    def update_from_batch(self, batch: Batch) -> dict[str, float]:
        """Make one optimizer step. Raise NonFiniteLoss, with nothing changed, if the loss is not finite."""
        return dict(zip(self._metrics, self._update(batch).tolist(), strict=True))

    def _batches(self, episodes: Episodes, rng: np.random.Generator) -> Iterator[Batch]:
        """Yield the minibatches of all epochs."""
        settings = self.settings
        sequences = cut(episodes, settings.sequence_length)
        memory, targets = self._surveyed(episodes, sequences)
        for epoch in range(settings.epochs):
            yield from minibatches(
                episodes,
                settings.batch_steps,
                settings.sequence_length,
                rng if epoch or settings.shuffle else None,  # else in the order of play
                memory=memory,
                targets=targets,
                peers=self._peers,
            )

    def _surveyed(
        self, episodes: Episodes, sequences: Sequences
    ) -> tuple[npt.NDArray[np.float32], GAE | None]:
        """Return memories at the first step of each sequence, and GAE of all steps if the loss needs it."""
        wanted = find_loss(self.settings.loss).targets == "gae"
        found = survey(
            self._forward,
            episodes,
            sequences,
            self.settings.batch_steps,
            self.device,
            values=wanted,
            peers=self._peers,
        )
        if not wanted:
            return found.memory, None
        settings = self.settings
        return found.memory, advantages(
            episodes, found.value, discount=settings.discount, lambda_=settings.gae_lambda
        )

    @contextlib.contextmanager
    def _statistics_of(self, fresh: Episodes) -> Iterator[None]:
        """Update the normaliser with these observations; undo that if an update from them is refused."""
        normaliser = self._network.normaliser
        if normaliser is None:
            yield
            return
        before = copy.deepcopy(normaliser.state_dict())
        normaliser.update(tensor_of(fresh.observation).to(self.device))
        try:
            yield
        except NonFiniteLoss:
            normaliser.load_state_dict(before)
            raise

    def _update(self, batch: Batch) -> Tensor:
        """Make one optimizer step; return the figures of `self._metrics`, without waiting for a GPU."""
        return self._apply_gradients(batch, self._leave_gradients(batch))

    def try_update(self, batch: Batch, means: Tensor | None = None) -> Tensor | NonFiniteLoss:
        """Make one optimizer step and return its figures, or the reason why it was refused.

        If `means`, the objective's of the batch, are given, the network has its gradients already.
        """
        try:
            return self._apply_gradients(batch, self._leave_gradients(batch) if means is None else means)
        except NonFiniteLoss as refusal:
            return refusal

    def _leave_gradients(self, batch: Batch) -> Tensor:
        """Leave gradients in the network's parameters; return means of the whole minibatch."""
        if self.settings.compile and self._speedup is None and batch.num_steps:
            self._speedup = self._forward.compile_if_faster(batch)
        means = self._objective.backward(batch, self.trainee)
        return self._sum_over_peers(means) if self._peers.size > 1 else means

    @property
    def trainee(self) -> Trainee:
        """Everything that the next gradients depend on; its networks are the live ones."""
        return Trainee(self._forward, self._target, self._progress, self.updates, self._reference)

    def _apply_gradients(self, batch: Batch, means: Tensor) -> Tensor:
        gradients = [p.grad for p in self._parameters.values() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if not bool(torch.isfinite(means[0]) & torch.isfinite(norm)):
            raise self._refusal(batch, float(means[0]), float(norm))
        self._clip(gradients, norm)
        self._optimizers.step(self._progress)
        self.updates += 1
        if self._target is not None and self.updates % self.settings.target_updates == 0:
            _load(self._target.network, self._network.state_dict())
        return torch.cat([means[1:], norm.reshape(1)])

    def _sum_over_peers(self, means: Tensor) -> Tensor:
        """Sum gradients and means of the whole minibatch over all peers, in one exchange."""
        parameters = list(self._parameters.values())
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        summed = torch.cat([*(part.reshape(-1) for part in parts), means])
        self._peers.sum(summed)
        *gradients, means = summed.split([*(p.numel() for p in parameters), len(means)])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return means

    def _clip(self, gradients: list[Tensor], norm: Tensor) -> None:
        settings = self.settings
        if settings.gradient_value is not None:
            for gradient in gradients:
                gradient.clamp_(-settings.gradient_value, settings.gradient_value)
            norm = nn.utils.get_total_norm(gradients)
        if settings.gradient_norm is not None:
            nn.utils.clip_grads_with_norm_(self._parameters.values(), settings.gradient_norm, norm)

    def _refusal(self, batch: Batch, loss: float, norm: float) -> NonFiniteLoss:
        for parameter in self._parameters.values():
            parameter.grad = None
        self._ring.clear()  # the refused batch must not come again
        update, path = self.updates + 1, self.settings.loss
        or_terms = f", or correct the terms of learner.loss '{path}'" if find_loss(path).terms else ""
        return NonFiniteLoss(
            f"player {self.player}, update {update}: the loss is {loss} and its gradient's norm {norm}, "
            f"expected finite numbers; the last good weights are kept: lower learner.lr{or_terms}",
            update,
            {name: tensor.cpu().numpy() for name, tensor in batch.tensors().items()},
        )

    # ------------------------------------------------------------------ state

    def weights(self) -> dict[str, Tensor]:
        """Return a deep copy on the CPU, buffers too, which never follows the live weights."""
        return _copies(self._network)

    def state(self) -> LearnerState:
        """Return a copy of everything that `load_state` needs to go on exactly here."""
        target = {} if self._target is None else _copies(self._target.network)
        reference = {} if self._reference is None else _copies(self._reference.network)
        return LearnerState(
            self.weights(), self._optimizers.state(), self.updates, self.env_steps, target, reference
        )

    def load_state(self, state: LearnerState) -> None:
        """Go on from `state`. Raise WeightsMismatch if it belongs to another network or optimizer.

        If it has no target or reference network and the settings need one, that begins as the network
        itself.
        """
        self._check(state.weights)
        for tensors in (state.target, state.reference):
            if tensors:
                self._check(tensors)
        optimizers = Optimizers(self._parameters, self.settings)
        optimizers.load(self.player, state.optimizer)
        self._start(state.weights, optimizers, state.target, state.reference)
        self.updates, self.env_steps = state.updates, state.env_steps

    def reset(self, weights: Mapping[str, Tensor]) -> None:
        """Start again from `weights`: fresh optimizer, all experience dropped, counters go on.

        Target and reference networks begin as `weights` too.
        """
        self._check(weights)
        self._start(weights, Optimizers(self._parameters, self.settings), {}, {})

    def _start(
        self,
        weights: Mapping[str, Tensor],
        optimizers: Optimizers,
        target: Mapping[str, Tensor],
        reference: Mapping[str, Tensor],
    ) -> None:
        _load(self._network, weights)
        if self._target is not None:
            _load(self._target.network, target or weights)
        if self._reference is not None:
            _load(self._reference.network, reference or weights)
        self._optimizers = optimizers
        self._waiting = []
        self._ring.clear()
        if self._replay is not None:
            self._replay.forget(self.player)

    def _check(self, tensors: Mapping[str, Tensor]) -> None:
        wanted = {name: tuple(tensor.shape) for name, tensor in self._network.state_dict().items()}
        check_tensors(f"player {self.player}", tensors, wanted)


def _copies(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in network.state_dict().items()}


@torch.no_grad()
def _load(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    for name, tensor in network.state_dict().items():
        tensor.copy_(weights[name])
