"""A table in place of a network: a row for each observation of the game, and one for others."""

import numpy as np
import pytest
import torch

from configs.own_table import Table
from league.envs.spaces import ObservationSpec
from league.envs.trees.trees import tree_of


@pytest.fixture(scope="module")
def seen():
    return torch.as_tensor(tree_of("leduc_poker").questions.observations)


@pytest.fixture(scope="module")
def table(seen):
    return Table(ObservationSpec(tuple(seen.shape[1:]), "int8"), 3, "leduc_poker")


def test_each_observation_has_a_row_of_its_own(table, seen):
    with torch.no_grad():
        table.logits.copy_(torch.arange(len(table.logits)).unsqueeze(1).expand(-1, 3))
        table.value.copy_(table.logits[:, 0] / 10)
    logits, value = table(seen)
    assert sorted(logits[:, 0].tolist()) == list(range(len(seen)))
    assert torch.allclose(value, logits[:, 0])
    assert table(torch.full_like(seen[:1], 7))[0][0, 0] == len(seen)


def test_what_is_learned_of_one_observation_changes_no_other(table, seen):
    logits, value = table(seen[:1])
    (logits.sum() + value.sum()).backward()
    assert np.count_nonzero(table.logits.grad.abs().sum(1)) == 1
    assert np.count_nonzero(table.value.grad) == 1
