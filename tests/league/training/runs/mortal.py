"""Games that end their process, or hang, in some matches, and a network of a user's own: for killed runs."""

import os
import signal

from torch import nn

from league.envs.games.rock_paper_scissors import RockPaperScissors


class Deadly(RockPaperScissors):
    """Rock-paper-scissors in which one of 150 seeds ends the process at once, as a bug in C would."""

    id = "deadly"
    one_in = 150

    def _reset(self, slots, seeds):
        if (seeds % self.one_in == 0).any():
            self._fail()
        super()._reset(slots, seeds)

    def _fail(self):
        os.kill(os.getpid(), signal.SIGSEGV)


class AlwaysDeadly(Deadly):
    """The same in all matches."""

    id = "always_deadly"
    one_in = 1


class Endless(Deadly):
    """Rock-paper-scissors in which one of 3,000 seeds ends no step."""

    id = "endless"
    one_in = 3_000

    def _fail(self):
        while True:
            pass


class AlwaysEndless(Endless):
    """The same in all matches."""

    id = "always_endless"
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
