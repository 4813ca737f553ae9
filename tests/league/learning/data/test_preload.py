"""Preloading changes where minibatches are, never what they are or their order."""

import torch

from league.learning.data.batching import minibatches
from league.learning.data.preload import preload


def test_on_the_cpu_minibatches_pass_as_they_are_and_only_when_asked_for(make_episodes):
    made = []

    def source():
        for batch in minibatches(make_episodes([4] * 6), 8, 100):
            made.append(batch)
            yield batch

    passed = preload(source(), torch.device("cpu"))
    assert made == []
    first = next(passed)
    assert first is made[0]
    assert len(made) == 1
    assert [first, *passed] == made
