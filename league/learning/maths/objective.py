"""The objective: the loss of one batch, its parts weighed as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from league.learning.data.batching import Batch, TargetedBatch
from league.learning.forward import Forward
from league.learning.groups.peers import Peers
from league.learning.maths.losses import LogProbs, find_loss
from league.learning.maths.schedules import value_at
from league.learning.maths.vtrace import vtrace
from league.learning.settings import LearnerSettings
from league.models.networks.distributions import distribution
from league.models.spec import PolicySpec
from storage.errors import Mistake

SMALLEST_DEVIATION = 1e-8  # of advantages that are all alike

Output = tuple[Tensor, Tensor]  # of a network: parameters [N + K, P], values [N + K]


class Trainee(NamedTuple):
    """What the gradients of one player's update depend on, beside its batch."""

    forward: Forward
    target: Forward | None  # the target network
    progress: float  # part of the run that is done, in [0, 1]
    updates: int  # made so far


class Terms(NamedTuple):
    """What each step contributes, [N]; all with gradients."""

    policy: Tensor
    error: Tensor  # of the value
    entropy: Tensor
    kl: Tensor | None


class Objective:
    """Policy loss + value loss - entropy bonus + KL(target network || policy), each a mean over steps.

    Of a batch that is shared among peers, each gives its part of the means: they are to be summed.
    """

    def __init__(self, spec: PolicySpec, settings: LearnerSettings, peers: Peers) -> None:
        self._settings = settings
        self._peers = peers
        self._loss = find_loss(settings.loss)
        self._distribution = distribution(spec.action, spec.settings.squash)
        self.names = (
            "loss",
            "policy_loss",
            "value_loss",
            "entropy",
            "lag",
            *(("kl",) if settings.kl else ()),
        )

    def backward(
        self, batch: Batch, forward: Forward, target: Forward | None, progress: float, updates: int
    ) -> Tensor:
        """Leave gradients in the network's parameters; the means that `names` names, [len(names)].

        `updates`: made so far, for the lag. Without any step there are no gradients.
        """
        advantage = self.advantage(batch)  # peers without a step take part
        if not batch.num_steps:
            forward.forget_gradients()
            return batch.reward.new_zeros(len(self.names))
        settings, clip = self._settings, value_at(self._settings.clip, progress)
        output, trusted = forward(batch), None
        if target is not None:
            with torch.no_grad():
                trusted = target(batch)
        terms = self.terms(
            batch,
            output,
            trusted,
            advantage,
            lambda log_probs, advantage: self._loss.policy(log_probs, advantage, clip),
        )
        total = batch.total_steps
        policy_loss = terms.policy.sum() / total
        value_loss = 0.5 * terms.error.square().sum() / total
        mean_entropy = terms.entropy.sum() / total
        loss = policy_loss + settings.value * value_loss
        loss = loss - value_at(settings.entropy, progress) * mean_entropy
        lag = (updates * batch.num_steps - batch.lag_versions.sum()) / total
        means = [policy_loss, value_loss, mean_entropy, lag]
        if terms.kl is not None:
            mean_kl = terms.kl.sum() / total
            loss = loss + settings.kl * mean_kl
            means.append(mean_kl)
        # not before: what is freed ahead of the forward pass tends to go back to the system, and to come
        # again as page faults
        forward.forget_gradients()
        loss.backward()
        return torch.stack([mean.detach() for mean in (loss, *means)])

    def terms(
        self,
        batch: Batch,
        output: Output,
        trusted: Output | None,
        advantage: Tensor | None,
        policy: Callable[[LogProbs, Tensor], Tensor],
    ) -> Terms:
        """Of what the network gave for the batch, and the target network, if there is one.

        `advantage` [N] is None for V-trace to find it; `policy` is the policy's loss without its clip.
        """
        settings, n = self._settings, batch.num_steps
        parameters, value_all = output
        log_prob, entropy = self._distribution.evaluate(parameters[:n], batch.mask, batch.action)
        anchor, trusted_log_prob, trusted_value = batch.log_prob, log_prob.detach(), value_all.detach()
        kl = None
        if trusted is not None:
            anchor_parameters, trusted_value = trusted
            with torch.no_grad():
                anchor, _ = self._distribution.evaluate(anchor_parameters[:n], batch.mask, batch.action)
                trusted_log_prob = anchor
            if settings.kl:
                kl = self._distribution.kl(anchor_parameters[:n], parameters[:n], batch.mask)
        if advantage is None:
            value_target, advantage = vtrace_targets(
                batch, trusted_log_prob, trusted_value, settings.discount, settings.vtrace_lambda
            )
        else:
            assert isinstance(batch, TargetedBatch)
            value_target = batch.value_target
        steps = policy(LogProbs(log_prob, batch.log_prob, anchor), advantage)
        if steps.shape != log_prob.shape:
            raise Mistake(
                f"learner.loss '{settings.loss}' gave shape {list(steps.shape)}, expected one loss for each "
                f"step, {list(log_prob.shape)}"
            )
        return Terms(steps, value_all[:n] - value_target, entropy, kl)

    def advantage(self, batch: Batch) -> Tensor | None:
        """[N], as the policy's loss takes it; None: V-trace will find it."""
        if isinstance(batch, TargetedBatch):
            return self._advantage(batch)
        if self._loss.targets == "gae":
            raise TypeError(f"learner: loss '{self._settings.loss}' takes a TargetedBatch, found a Batch")
        return None

    def _advantage(self, batch: TargetedBatch) -> Tensor:
        """[N], over the whole minibatch of mean 0 and deviation 1, if the settings say so."""
        if not self._settings.normalise_advantage:
            return batch.advantage
        exact = batch.advantage.double()
        sums = torch.stack([exact.sum(), exact.square().sum()])
        self._peers.sum(sums)
        mean, square = sums / batch.total_steps
        deviation = (square - mean.square()).clamp(min=0.0).sqrt()
        return ((exact - mean) / (deviation + SMALLEST_DEVIATION)).float()


def vtrace_targets(
    batch: Batch, log_prob: Tensor, value_all: Tensor, discount: float, lambda_: float
) -> tuple[Tensor, Tensor]:
    """V-trace's value targets and errors of the batch's steps, [N] each.

    `log_prob` [N] of the actions taken under the policy that is corrected to, `value_all` [N + K].
    """
    nothing = value_all.new_zeros(1)
    values = torch.cat([value_all[: batch.num_steps], nothing])
    following = torch.cat([value_all, nothing])
    reward = torch.cat([batch.reward, nothing])[batch.rows]
    rho = torch.cat([(log_prob - batch.log_prob).exp(), nothing])[batch.rows]
    discounts = (batch.after < len(value_all)).to(value_all.dtype) * discount
    result = vtrace(values[batch.rows], following[batch.after], reward, discounts, rho, lambda_=lambda_)
    vs, error = torch.empty_like(values), torch.empty_like(values)
    vs[batch.rows], error[batch.rows] = result.vs, result.error  # padding falls on the row behind the last
    return vs[:-1], error[:-1]
