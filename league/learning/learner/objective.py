"""The objective: the loss of one batch, composed of weighted parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from league.import_paths import path_of, running
from league.learning.data.batching import OWN, WEIGHT, Batch, ReadyBatch, TargetedBatch
from league.learning.learner.forward import Forward
from league.learning.maths.advantages import vtrace
from league.learning.maths.losses import check_actions
from league.learning.maths.published import held_reward, magnet_kl
from league.learning.maths.schedules import value_at
from league.learning.maths.terms import LogProbs, Output, OwnBatch, Steps, Term, options_at
from league.learning.settings import LearnerSettings, VTraced
from league.models.networks.distributions import distribution
from league.models.spec import PolicySpec
from storage.errors import Mistake


class Trainee(NamedTuple):
    """Everything that the gradients of one player's update depend on, beside its batch."""

    forward: Forward
    target: Forward | None = None  # the target network
    progress: float = 0.0  # part of the run that is done, in [0, 1]
    updates: int = 0  # made so far
    reference: Forward | None = None  # the network that terms compare with
    magnet: Forward | None = None  # the network that the player is held to


class Outputs(NamedTuple):
    """Outputs of a player's networks for one batch; only `now` has a gradient."""

    now: Output
    target: Output | None = None
    reference: Output | None = None
    magnet: Output | None = None


class Objective:
    """Policy loss + value loss - entropy bonus + KL to the magnet + terms.

    Each is a mean over steps. A part of a batch, or a peer's share, gives its share of the means: they are
    to be summed.
    """

    def __init__(self, spec: PolicySpec, settings: LearnerSettings) -> None:
        self._settings = settings
        self._loss, self._path = settings.composed_loss(), settings.loss.kind
        self.targets = self._loss.targets  # source of the loss's advantages
        self._where = f"learner.loss '{self._path}'"
        self._magnet = settings.magnet
        check_actions(settings.loss.kind, spec)
        self._distribution = distribution(spec.action, spec.squash)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the means that `backward` returns."""
        if self._loss.sees == "batch":
            return ("loss", "policy_loss", "lag")
        magnet_kl = ("magnet_kl",) if self._magnet else ()
        terms = (term.name for term in self._loss.terms)
        return ("loss", "policy_loss", "value_loss", "entropy", "lag", *magnet_kl, *terms)

    def backward(self, batch: Batch | ReadyBatch, trainee: Trainee, *, adds: bool = False) -> Tensor:
        """Leave gradients in the network's parameters; return the means that `names` names, [len(names)].

        `adds`: to the gradients that are there, of earlier parts of the batch. A batch without any step has
        none. Raise Mistake for tensors that the loss cannot take.
        """
        loss, means = self._loss_of(batch, trainee)
        # not earlier: memory freed ahead of the forward pass tends to go back to the system, and to come
        # back as page faults
        if not adds:
            trainee.forward.network.zero_grad()
        if loss is not None:
            loss.backward()
        return means

    def _loss_of(self, batch: Batch | ReadyBatch, trainee: Trainee) -> tuple[Tensor | None, Tensor]:
        """Return the loss, `None` of a batch without any step, and the means."""
        if self._loss.sees == "batch":
            return self._own_loss(batch, trainee)
        if isinstance(batch, ReadyBatch):
            raise Mistake(
                f"{self._where} learns from episodes, found a batch of tensors "
                f"({', '.join(batch.columns)}); set a Loss of your own with sees='batch', or call "
                "update_from_episodes"
            )
        if self._loss.targets == "gae" and not isinstance(batch, TargetedBatch):
            raise TypeError(f"{self._where} takes a TargetedBatch, found a Batch")
        if not batch.num_steps:
            return None, batch.reward.new_zeros(len(self.names))
        parts = self._parts(batch, self._outputs(batch, trainee), trainee)
        if (weight := batch.own.get(WEIGHT)) is not None:
            parts = {name: part if name == "lag" else part * weight for name, part in parts.items()}
        means = {name: part.sum() / batch.total_steps for name, part in parts.items()}
        loss = self._weighed(means, trainee.progress)
        return loss, torch.stack([mean.detach() for mean in (loss, *means.values())])

    def _own_loss(self, batch: Batch | ReadyBatch, trainee: Trainee) -> tuple[Tensor | None, Tensor]:
        """Do `_loss_of` for a loss that sees the batch as it is."""
        tensors = batch.tensors()
        if isinstance(batch, Batch):
            tensors = {name.removeprefix(OWN): tensor for name, tensor in tensors.items()}
        if not batch.num_steps:
            return None, next(iter(tensors.values())).new_zeros(len(self.names), dtype=torch.float32)
        target = None if trainee.target is None else trainee.target.rows
        options = options_at(self._loss.options, trainee.progress)
        own = OwnBatch(tensors, trainee.forward.rows, target, trainee.updates, trainee.progress, options)
        with running("learner.loss", self._path):
            rows = self._loss.policy(own)
        if not isinstance(rows, Tensor) or rows.shape != (batch.num_steps,):
            raise Mistake(
                f"{self._where} gave {_shown(rows)}, expected one loss for each row, [{batch.num_steps}]"
            )
        loss = rows.sum() / batch.total_steps
        if not loss.requires_grad:
            raise Mistake(f"{self._where} gave losses without a gradient; call batch.network")
        lag = torch.zeros_like(loss)
        if isinstance(batch, Batch):
            lag = (trainee.updates - batch.lag_versions).to(loss.dtype).sum() / batch.total_steps
        return loss, torch.stack([loss.detach(), loss.detach(), lag])

    def _weighed(self, means: Mapping[str, Tensor], progress: float) -> Tensor:
        """Return the loss of the means of all parts; the only place that weighs them."""
        settings = self._settings
        loss = means["policy_loss"] + settings.value * means["value_loss"]
        loss = loss - value_at(settings.entropy, progress) * means["entropy"]
        if self._magnet is not None and self._magnet.through == "loss":
            loss = loss + value_at(self._magnet.weight, progress) * means["magnet_kl"]
        for term in self._loss.terms:
            loss = loss + value_at(term.weight, progress) * means[term.name]
        return loss

    def _parts(self, batch: Batch, outputs: Outputs, trainee: Trainee) -> dict[str, Tensor]:
        """Return the parts of each step's loss, [N] each, with gradients, as `names` orders them."""
        settings, n = self._settings, batch.num_steps
        parameters, value_all = outputs.now
        log_prob, entropy = self._distribution.evaluate(parameters[:n], batch.mask, batch.action)
        anchor, trusted_log_prob, trusted_value = batch.log_prob, log_prob.detach(), value_all.detach()
        if outputs.target is not None:
            anchor_parameters, trusted_value = outputs.target
            with torch.no_grad():
                anchor, _ = self._distribution.evaluate(anchor_parameters[:n], batch.mask, batch.action)
                trusted_log_prob = anchor
        progress = trainee.progress
        reward, held = self._held(batch, outputs, trusted_log_prob, progress)
        if isinstance(batch, TargetedBatch):
            advantage, value_target = batch.advantage, batch.value_target
        else:
            assert isinstance(settings.loss, VTraced)
            value_target, advantage = vtrace_targets(
                batch,
                trusted_log_prob,
                trusted_value,
                settings.discount,
                settings.loss.vtrace_lambda,
                reward,
                clip_rho=settings.loss.vtrace_clip_rho,
                clip_c=settings.loss.vtrace_clip_c,
            )
        log_probs = LogProbs(log_prob, batch.log_prob, anchor)
        clip, options = value_at(settings.clip, progress), options_at(self._loss.options, progress)
        known: Steps | None = None
        if self._loss.needs_steps:
            next_value, discount = following_values(batch, value_all.detach(), settings.discount)
            known = Steps(
                log_probs=log_probs,
                parameters=parameters[:n],
                value=value_all[:n],
                entropy=entropy,
                advantage=advantage,
                value_target=value_target,
                next_value=next_value,
                discount=discount,
                reward=reward,
                action=batch.action,
                mask=batch.mask,
                rows=batch.rows,
                distribution=self._distribution,
                reference=None if outputs.reference is None else Output(*(x[:n] for x in outputs.reference)),
                progress=progress,
                clip=clip,
                options=options,
                own=batch.own,
            )
        with running("learner.loss", self._path):
            if self._loss.sees == "steps":
                steps = self._loss.policy(known)
            else:
                steps = self._loss.policy(log_probs, advantage, clip, **options)
        if not isinstance(steps, Tensor) or steps.shape != log_prob.shape:
            raise Mistake(
                f"{self._where} gave {_shown(steps)}, expected one loss for each step, {list(log_prob.shape)}"
            )
        error = value_all[:n] - value_target
        lag = trainee.updates - batch.lag_versions
        parts = {"policy_loss": steps, "value_loss": 0.5 * error.square(), "entropy": entropy, "lag": lag}
        if held is not None:
            parts["magnet_kl"] = held
        for term in self._loss.terms:
            assert known is not None
            parts[term.name] = self._computed(term, known)
        return parts

    def _held(
        self, batch: Batch, outputs: Outputs, log_prob: Tensor, progress: float
    ) -> tuple[Tensor, Tensor | None]:
        """Return the rewards [N] that returns are computed from, and the KL [N] to the magnet or `None`.

        `log_prob` [N]: of the actions taken, under the policy whose returns are computed.
        """
        if outputs.magnet is None or self._magnet is None:
            return batch.reward, None
        n, hold, magnet = batch.num_steps, self._magnet, outputs.magnet.parameters
        with torch.set_grad_enabled(hold.through == "loss"):
            policy = outputs.now.parameters[:n]
            kl = magnet_kl(self._distribution, policy, magnet[:n], batch.mask, hold.direction)
            # advantages of a TargetedBatch are of changed rewards already
            if hold.through == "loss" or isinstance(batch, TargetedBatch):
                return batch.reward, kl
            of_magnet, _ = self._distribution.evaluate(magnet[:n], batch.mask, batch.action)
            return held_reward(batch.reward, log_prob, of_magnet, value_at(hold.weight, progress)), kl

    def _outputs(self, batch: Batch, trainee: Trainee) -> Outputs:
        """Return the outputs of the player's networks; only the first keeps a gradient."""
        now = trainee.forward(batch)
        with torch.no_grad():
            target, reference = (
                None if other is None else other(batch) for other in (trainee.target, trainee.reference)
            )
            magnet = reference
            if trainee.magnet is not trainee.reference:
                magnet = None if trainee.magnet is None else trainee.magnet(batch)
        return Outputs(now, target, reference, magnet)

    def _computed(self, term: Term, known: Steps) -> Tensor:
        """Return the term's losses [N]. Raise Mistake for another shape."""
        if term.options:
            own = options_at(term.options, known.progress)
            known = replace(known, options={**known.options, **own})
        with running(f"{self._where}: term '{term.name}'", path_of(term.compute)):
            found = term.compute(known)
        valid = known.valid
        if isinstance(found, Tensor) and found.shape == known.rows.shape:
            return found.new_zeros(len(known.reward)).index_put((known.rows[valid],), found[valid])
        if not isinstance(found, Tensor) or found.shape != known.reward.shape:
            raise Mistake(
                f"{self._where}: term '{term.name}' gave {_shown(found)}, expected one "
                f"loss for each step, {list(known.reward.shape)} or {list(known.rows.shape)}"
            )
        return found


def _shown(found: object) -> str:
    """Return what a user's function gave, as messages show it."""
    return f"shape {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"


def vtrace_targets(
    batch: Batch,
    log_prob: Tensor,
    value_all: Tensor,
    discount: float,
    lambda_: float,
    reward: Tensor | None = None,
    *,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Return V-trace's value targets and errors of the batch's steps, [N] each.

    `log_prob` [N]: of the actions taken, under the policy that is corrected to. `value_all`: [N + K].
    `reward` [N]: `None`: that of the batch.
    """
    nothing = value_all.new_zeros(1)
    values = torch.cat([value_all[: batch.num_steps], nothing])
    following = torch.cat([value_all, nothing])
    rewards = torch.cat([batch.reward if reward is None else reward, nothing])[batch.rows]
    rho = torch.cat([(log_prob - batch.log_prob).exp(), nothing])[batch.rows]
    discounts = (batch.after < len(value_all)).to(value_all.dtype) * discount
    result = vtrace(
        values[batch.rows],
        following[batch.after],
        rewards,
        discounts,
        rho,
        lambda_=lambda_,
        clip_rho=clip_rho,
        clip_c=clip_c,
    )
    vs, error = torch.empty_like(values), torch.empty_like(values)
    vs[batch.rows], error[batch.rows] = result.vs, result.error  # padding goes to the row behind the last
    return vs[:-1], error[:-1]


def following_values(batch: Batch, value_all: Tensor, discount: float) -> tuple[Tensor, Tensor]:
    """Return the value of the observation behind each step, and its discount, [N] each; 0 where terminated.

    `value_all`: [N + K].
    """
    found = value_all.new_zeros(2, batch.num_steps + 1)
    found[0, batch.rows] = torch.cat([value_all, value_all.new_zeros(1)])[batch.after]
    found[1, batch.rows] = (batch.after < len(value_all)).to(value_all.dtype) * discount
    return found[0, :-1], found[1, :-1]
