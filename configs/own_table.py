"""A network of your own: a table with a row for each thing that a seat may see in a game of few such things.

league train configs/own_table.yaml
"""

import numpy as np
import torch
from torch import nn

from league.envs.trees.trees import tree_of


class Table(nn.Module):
    """Logits and a value for each observation of `env`, which share no parameter.

    What is learned of a frequent situation changes nothing in a rare one, and Adam takes steps of one size in
    both. All observations are found by a walk over the game's tree. The last row is for any other.

    Adam moves each number of the table alike, so values are counted in units of about the largest payoff.
    """

    def __init__(self, observation, num_parameters, env, options=None, value_unit=10.0):
        super().__init__()
        self.value_unit = value_unit
        seen = tree_of(env, options).questions.observations.reshape(-1, observation.size).astype(np.int64)
        factor = np.random.default_rng(0).integers(2**40, size=observation.size)
        key = np.unique(seen @ factor)
        assert len(key) == len(np.unique(seen, axis=0)), "two observations have one key"
        self.register_buffer("factor", torch.tensor(factor))
        self.register_buffer("key", torch.tensor(key))
        self.logits = nn.Parameter(torch.zeros(len(key) + 1, num_parameters))
        self.value = nn.Parameter(torch.zeros(len(key) + 1))

    def forward(self, rows):
        """Return logits [n, P] and values [n] of observations [n, *shape]."""
        key = (rows.flatten(1).long() * self.factor).sum(1)
        row = torch.searchsorted(self.key, key).clamp(max=len(self.key) - 1)
        row = torch.where(self.key[row] == key, row, len(self.key))
        return self.logits[row], self.value_unit * self.value[row]
