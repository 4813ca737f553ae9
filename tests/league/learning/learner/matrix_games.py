"""Self-play in matrix games with exact gradients: no sampling, the learner's own objective and companions."""

import numpy as np
import torch
from torch import nn

from league.envs.spaces import ActionSpec, ObservationSpec
from league.import_paths import trust
from league.learning.data.batching import Batch
from league.learning.learner.companions import Companions
from league.learning.learner.forward import Forward
from league.learning.learner.learner import LearnerSettings
from league.learning.learner.objective import Objective, Trainee
from league.learning.maths.losses import Loss
from league.models.networks.networks import build_network
from league.models.spec import PolicySettings, PolicySpec

TABLE = "tests.league.learning.learner.matrix_games:Table"
EXACT = Loss(
    lambda log_probs, advantage, clip: -(log_probs.now - log_probs.acted).exp() * advantage, "vtrace"
)
"""Policy gradient: its mean over a row for each action is the one over the policy's own play."""


class Table(nn.Module):
    """A policy without observations: its parameters are the logits themselves. Values are 0."""

    def __init__(self, observation, num_parameters):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(num_parameters))
        self.register_buffer("value", torch.zeros(1))

    def forward(self, rows):
        return self.logits.expand(len(rows), -1), self.value.expand(len(rows))


class Player:
    """A player of a matrix game that learns from what each of its actions is worth."""

    def __init__(self, start, settings):
        trust(TABLE)
        n = self.num_actions = len(start)
        spec = PolicySpec(
            PolicySettings(torso=TABLE), ObservationSpec((1,), "float32"), ActionSpec("discrete", (n,))
        )
        self.network = build_network(spec)
        with torch.no_grad():
            self.logits.copy_(torch.tensor(np.log(start)))
        self.objective = Objective(spec, settings)
        self.companions = Companions(self.network, settings)
        self.updates = 0

    @property
    def logits(self):
        (logits,) = self.network.parameters()
        return logits

    @property
    def policy(self):
        return self.logits.detach().double().softmax(0).numpy()

    def learn(self, payoff, lr):
        """Make a step of gradient descent; `payoff` [A] is the worth of each action."""
        n = self.num_actions
        batch = Batch(
            observation=torch.zeros(n, 1),
            mask=torch.ones(n, n, dtype=torch.bool),
            action=torch.arange(n),
            log_prob=torch.full((n,), -np.log(n)),
            reward=torch.tensor(payoff, dtype=torch.float32),
            rows=torch.arange(n)[None],
            after=torch.full((1, n), n),
            memory=torch.zeros(n, 0),
            lag_versions=torch.zeros(n, dtype=torch.int64),
            total_steps=n,
        )
        beside = self.companions
        trainee = Trainee(Forward(self.network), reference=beside.reference, magnet=beside.magnet)
        means = self.objective.backward(batch, trainee)
        with torch.no_grad():
            self.logits.sub_(lr * self.logits.grad)
        self.updates += 1
        self.companions.after_update(self.updates)
        return dict(zip(self.objective.names, means.tolist(), strict=True))


def self_play(game, settings, steps, lr, starts=None):
    """Return both players, and the policies [steps, 2, A], after playing a square zero-sum `game`."""
    a = np.asarray(game, dtype=float)
    starts = np.full((2, len(a)), 1 / len(a)) if starts is None else starts
    players = [Player(start, settings) for start in starts]
    policies = []
    for _ in range(steps):
        x, y = (player.policy for player in players)
        policies.append((x, y))
        players[0].learn(a @ y, lr)
        players[1].learn(-a.T @ x, lr)
    return players, np.array(policies)


def nash_conv(game, x, y):
    """Return what both players together gain by best responses."""
    a = np.asarray(game, dtype=float)
    return float((a @ y).max() - (x @ a).min())


def exactly(**settings):
    """Settings of a learner that makes exact gradients; its loss is put in place by the fixture `exact`."""
    loss = {"use": "league.learning.maths.losses:EXACT", "vtrace_lambda": 1.0}
    return LearnerSettings(**{"loss": loss, "entropy": 0.0, "value": 0.0, **settings})
