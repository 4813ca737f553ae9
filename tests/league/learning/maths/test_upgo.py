"""UPGO follows play that does as well as expected, and cuts it short where it does not."""

import numpy as np
import pytest
import torch

from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.published import upgoing_returns


def laid_out(*columns):
    return [torch.tensor(column, dtype=torch.float32)[:, None] for column in columns]


def test_golden_returns():
    reward, before, after, discount = laid_out(
        [1.0, 0.0, -1.0, 2.0],
        [0.5, 0.0, 3.0, 1.0],
        [0.0, 3.0, 1.0, 9.0],
        [1.0, 1.0, 1.0, 0.0],
    )
    valid = torch.ones(4, 1, dtype=torch.bool)
    found = upgoing_returns(reward, before, after, discount, valid)[:, 0].tolist()
    # step 3 did better than its value 1: the return before it includes its reward 2. Step 2 did worse than
    # its value 3: the return before it is cut there. Step 1 did as well as expected.
    assert found == [1.0 + 3.0, 0.0 + 3.0, -1.0 + 2.0, 2.0]


def test_padding_and_truncation_bootstrap():
    reward, before, after, discount = (
        torch.tensor(x)
        for x in (
            [[1.0, 5.0], [0.0, 0.0]],
            [[0.0, 0.0], [0.0, 0.0]],
            [[0.0, 7.0], [2.0, 0.0]],
            [[0.5, 0.5], [0.5, 0.0]],
        )
    )
    valid = torch.tensor([[True, True], [True, False]])
    found = upgoing_returns(reward, before, after, discount, valid)
    assert found[:, 0].tolist() == [1.0 + 0.5 * (0.5 * 2.0), 0.5 * 2.0]
    assert float(found[0, 1]) == 5.0 + 0.5 * 7.0


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="upgo: shapes are"):
        upgoing_returns(*laid_out([0.0], [0.0], [0.0], [0.0]), torch.ones(2, 1, dtype=torch.bool))


def test_a_config_adds_it_to_a_loss(make_spec, make_episodes):
    """Its mean is -rho (G - v) log pi over the steps, by hand."""
    (batch,) = minibatches(make_episodes([2, 5, 1], [False, True, False]), 99, 99)
    settings = LearnerSettings(terms={"upgo": {"weight": 0.5}}, discount=0.9, sequence_length=99)
    learner = Learner("main-0", make_spec(), settings, seed=1)
    with torch.no_grad():
        parameters, value = learner.trainee.forward(batch)
    log_prob = parameters[:8].log_softmax(1).gather(1, batch.action[:, None])[:, 0].numpy()
    value, total = value.numpy(), 0.0
    for start, end, bootstrap in ((0, 2, 0.0), (2, 7, value[8]), (7, 8, 0.0)):
        later, went_well = bootstrap, True
        for t in range(end - 1, start - 1, -1):
            own = later if went_well else value[t + 1]
            following = bootstrap if t == end - 1 else value[t + 1]
            later = float(batch.reward[t]) + 0.9 * own
            went_well = float(batch.reward[t]) + 0.9 * following >= value[t]
            rho = min(1.0, float(np.exp(log_prob[t] - float(batch.log_prob[t]))))
            total += -rho * (later - value[t]) * log_prob[t]
    assert learner.update_from_batch(batch)["upgo"] == pytest.approx(total / 8, abs=1e-5)
