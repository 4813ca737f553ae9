"""Several players' gradients in one pass forwards and backwards.

The gradient of the sum of their losses is each player's own gradient, as no weight belongs to two
of them. Computations of each step are done for the steps of all players at once. Their networks run

    joined     one after the other
    stacked    as one, over stacked weights (torch.func, vmap): players of one architecture differ in
               nothing but numbers

Everything else stays each learner's own: the refusal of an update, gradient clipping, the optimizer's
step, counters and the target network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from league.learning.data.batching import Batch
from league.learning.forward import Forward
from league.learning.groups.peers import ALONE
from league.learning.maths.losses import LOSSES, LogProbs, Output
from league.learning.maths.objective import Objective, Outputs, Scheduled, Trainee
from league.learning.maths.schedules import value_at
from league.learning.maths.terms import options_at
from league.learning.settings import LearnerSettings
from league.learning.shared_pass.joined import Joined, join
from league.models.networks.networks import Network, build_network
from league.models.spec import PolicySpec

Tensors = dict[str, Tensor]


class OnePass:
    """Gradients of several players of one `spec` and settings in one pass."""

    def __init__(self, spec: PolicySpec, settings: LearnerSettings) -> None:
        self._settings = settings  # whose precision is settled
        self._bfloat16 = settings.precision == "bfloat16"
        self._objective = Objective(spec, settings, ALONE)
        self._loss = settings.composed_loss()
        with torch.device("meta"):  # each call passes its weights
            self._network = build_network(spec)
        self._network.normaliser = None  # each player's runs by itself: vmap has no clamp_

    def leave_gradients(
        self, trainees: Sequence[Trainee], batches: Sequence[Batch], *, stacked: bool
    ) -> Tensor:
        """Do `Objective.backward` for each player; return its means, [P, names].

        `stacked`: the networks run as one; none of them may have a memory.
        """
        settings, joined = self._settings, join(batches)
        device, owner = joined.owner.device, joined.owner
        run = self._stacked if stacked else _one_by_one
        output, weights = run([trainee.forward for trainee in trainees], batches, joined)
        targets, trusted = [t.target for t in trainees if t.target is not None], None
        magnets, magnet = [t.magnet for t in trainees if t.magnet is not None], None
        with torch.no_grad():
            if targets:
                trusted, _ = run(targets, batches, joined)
            if magnets:
                magnet, _ = run(magnets, batches, joined)
        advantages = [self._objective.advantage(batch) for batch in batches]
        updates = torch.tensor([trainee.updates for trainee in trainees], device=device)
        of_players = [Scheduled.at(settings, trainee.progress) for trainee in trainees]
        scheduled = Scheduled(*torch.tensor(of_players, device=device)[owner].unbind(1))
        parts = self._objective.parts(
            joined.batch,
            Outputs(output, trusted, None, magnet),
            None if advantages[0] is None else torch.cat([a for a in advantages if a is not None]),
            self._policy([trainee.progress for trainee in trainees], joined.steps),
            updates[owner],
            scheduled,
        )
        loss = self._objective.compose(parts, scheduled)
        # each step weighs as in its player's mean; nothing is summed over players, where a NaN would spread
        share = torch.tensor([1.0 / n for n in joined.steps], device=device)[owner]
        found = torch.autograd.grad(loss, weights, share, allow_unused=True)
        gradients = _apart(found, len(trainees)) if stacked else found
        parameters = [p for trainee in trainees for p in trainee.forward.network.parameters()]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        return joined.means(torch.stack([part.detach().to(loss.dtype) for part in (loss, *parts.listed)]))

    def _stacked(
        self, forwards: Sequence[Forward], batches: Sequence[Batch], joined: Joined
    ) -> tuple[Output, list[Tensor]]:
        """Return the networks' output for each row, and their weights, stacked: [P, ...] each."""
        weights, buffers = torch.func.stack_module_state([forward.network for forward in forwards])
        buffers = {name: b for name, b in buffers.items() if not name.startswith("normaliser.")}
        shown = [
            _normalised(f.network, batch.observation) for f, batch in zip(forwards, batches, strict=True)
        ]
        rows = pad_sequence(shown, batch_first=True)

        def call(weights: Tensors, buffers: Tensors, rows: Tensor) -> tuple[Tensor, Tensor]:
            parameters, value = torch.func.functional_call(self._network, (weights, buffers), (rows,))
            return parameters, value

        with torch.autocast(rows.device.type, torch.bfloat16, enabled=self._bfloat16):
            parameters, value = torch.vmap(call)(weights, buffers, rows)
        output = Output(joined.flat(parameters.unbind()).float(), joined.flat(value.unbind()).float())
        return output, list(weights.values())

    def _policy(
        self, progress: Sequence[float], lengths: Sequence[int]
    ) -> Callable[[LogProbs, Tensor], Tensor]:
        """Return the policy loss of all players' steps, each player's with its clip and options."""
        clips = [value_at(self._settings.clip, p) for p in progress]
        options = [options_at(self._loss.options, p) for p in progress]
        loss = self._loss.policy
        if self._settings.loss in LOSSES and len(set(clips)) == 1 and not self._loss.options:
            return lambda log_probs, advantage: loss(log_probs, advantage, clips[0])

        def each(log_probs: LogProbs, advantage: Tensor) -> Tensor:
            # a user's loss may compare the steps of a batch
            parts = zip(*(x.split(lengths) for x in (*log_probs, advantage)), clips, options, strict=True)
            return torch.cat(
                [loss(LogProbs(now, acted, anchor), a, c, **o) for now, acted, anchor, a, c, o in parts]
            )

        return each


def _normalised(network: Network, observation: Tensor) -> Tensor:
    return observation if network.normaliser is None else network.normaliser(observation)


def _one_by_one(
    forwards: Sequence[Forward], batches: Sequence[Batch], joined: Joined
) -> tuple[Output, list[Tensor]]:
    """Return the networks' output for each row, and their weights, those of the first player first."""
    outputs = [forward(batch) for forward, batch in zip(forwards, batches, strict=True)]
    parameters, value = zip(*outputs, strict=True)
    weights: list[Tensor] = [p for forward in forwards for p in forward.network.parameters()]
    return Output(joined.flat(parameters), joined.flat(value)), weights


def _apart(stacked: Sequence[Tensor | None], players: int) -> tuple[Tensor | None, ...]:
    """Return the gradients [P, ...] of each weight one player after the other."""
    # contiguous, as fused steps of an optimizer take the numbers of a weight and its gradient side by side
    return tuple(None if g is None else g[i].contiguous() for i in range(players) for g in stacked)
