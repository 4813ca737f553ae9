"""A game that ends its process in some matches, and a network of a user's own: for runs that are killed."""

import os

from torch import nn

from league.envs.games.rock_paper_scissors import RockPaperScissors

ONE_IN = 400  # matches that end their process


class Deadly(RockPaperScissors):
    """Rock-paper-scissors in which one of ONE_IN seeds ends the process at once, as a bug in C would."""

    id = "deadly"
    one_in = ONE_IN

    def _reset(self, slots, seeds):
        if (seeds % self.one_in == 0).any():
            os._exit(1)
        super()._reset(slots, seeds)


class AlwaysDeadly(Deadly):
    """The same in all matches."""

    id = "always_deadly"
    one_in = 1


class Net(nn.Module):
    """One hidden layer."""

    def __init__(self, observation, num_parameters):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(observation.size, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, num_parameters), nn.Linear(16, 1)

    def forward(self, rows):
        hidden = self.body(rows.float())
        return self.policy(hidden), self.value(hidden).squeeze(-1)
