"""How a network is run: memories of cut episodes, values of whole ones."""

import dataclasses

import numpy as np
import pytest
import torch

from league.import_paths import trust
from league.learning.data.batching import cut, minibatches
from league.learning.learner.forward import Forward, survey
from league.models.networks.networks import build_network
from tests.made_up import memory_of

CPU = torch.device("cpu")


class ByRows(torch.nn.Module):
    """The value of each row is the number of rows."""

    def __init__(self, observation, num_parameters):
        super().__init__()
        self.policy = torch.nn.Linear(observation.size, num_parameters)

    def forward(self, observation):
        return self.policy(observation), torch.full((len(observation),), float(len(observation)))


def forward_of(spec, seed=0):
    network = build_network(spec)
    network.initialise(torch.Generator().manual_seed(seed))
    return Forward(network)


def stepped(network, observation):
    """Memory before each step, and values, one step at a time from an empty memory."""
    memory, memories, values = torch.zeros(1, network.memory_size), [], []
    for row in torch.from_numpy(observation):
        memories.append(memory[0].numpy().copy())
        with torch.no_grad():
            values.append(float(network(row[None], memory if network.memory_size else None)[1]))
            _, memory = network.step(row[None], memory)
    return np.array(memories), values


def test_a_survey_of_fragments_goes_on_with_the_memories_that_they_carry(make_spec, make_episodes):
    """Memories and values are those of the whole episode; a network that forgets begins with an empty one."""
    forward = forward_of(make_spec(memory={"kind": "gru", "size": 8}))
    whole = make_episodes([10])
    memories, values = stepped(forward.network, np.vstack([whole.observation, whole.observation[:1]]))
    cuts = np.array([0, 4, 7, 10])
    fragments = dataclasses.replace(
        whole,
        offset=cuts,
        match_id=np.zeros(3, np.int64),
        seat=np.zeros(3, np.int8),
        version=np.zeros(3, np.int64),
        terminated=np.array([False, False, True]),
        bootstrap=whole.observation[[4, 7]],
        memory=memories[cuts[:-1]],
    )
    sequences = cut(fragments, 2)
    found = survey(forward, fragments, sequences, 5, CPU, values=True)
    np.testing.assert_allclose(found.memory, memories[sequences.start], atol=1e-5)
    np.testing.assert_allclose(found.value, [*values[:10], values[4], values[7]], atol=1e-5)
    forgets = Forward(forward.network, forgets=True)
    again = survey(forgets, fragments, sequences, 5, CPU, values=False)
    assert not again.memory[sequences.part == 0].any()
    batches = list(minibatches(fragments, 100, 2, memory=found.memory))
    np.testing.assert_allclose(batches[0].memory.numpy(), memories[sequences.start], atol=1e-5)


@pytest.mark.parametrize("memory", ["none", "gru", "lstm", "transformer"])
@pytest.mark.parametrize("values", [True, False])
def test_a_survey_sees_what_stepping_through_each_episode_sees(make_spec, make_episodes, memory, values):
    forward = forward_of(make_spec(memory=memory_of(memory, 8, context=4)))
    episodes = make_episodes([7, 2, 3, 10, 1], truncated=[True, False, False, True, True])
    sequences = cut(episodes, 3)
    found = survey(forward, episodes, sequences, 5, CPU, values=values)
    assert found.memory.shape == (len(sequences), forward.network.memory_size)
    bootstraps = iter(range(episodes.num_steps, episodes.num_steps + 3))
    for e in range(5):
        episode = episodes[e]
        seen = (
            episode.observation
            if episode.bootstrap is None
            else np.vstack([episode.observation, episode.bootstrap])
        )
        memories, expected = stepped(forward.network, seen)
        for s in np.flatnonzero(sequences.episode == e):
            at = sequences.start[s] - episodes.offset[e]
            np.testing.assert_allclose(found.memory[s], memories[at], atol=1e-5)
        if values:
            steps = slice(episodes.offset[e], episodes.offset[e + 1])
            np.testing.assert_allclose(found.value[steps], expected[: len(episode.reward)], atol=1e-5)
            if episode.bootstrap is not None:
                assert found.value[next(bootstraps)] == pytest.approx(expected[-1], abs=1e-5)
    assert values or len(found.value) == 0


def test_a_survey_costs_nothing_where_nothing_is_cut_and_nobody_asks(make_spec, make_episodes, monkeypatch):
    forward = forward_of(make_spec(memory="gru"))
    monkeypatch.setattr(forward, "unroll", lambda *_: pytest.fail("the network was run"))
    episodes = make_episodes([3, 2])
    assert not survey(forward, episodes, cut(episodes, 3), 5, CPU, values=False).memory.any()


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_batch_goes_through_the_network_as_its_sequences_do(make_spec, make_episodes, memory):
    forward = forward_of(make_spec(memory=memory_of(memory, 8)))
    episodes = make_episodes([4, 2], truncated=[True, False])
    (batch,) = minibatches(episodes, 99, 99, memory=np.zeros((2, forward.network.memory_size), np.float32))
    parameters, value = forward(batch)
    assert parameters.shape == (7, 3)
    for e, rows in ((0, [0, 1, 2, 3, 6]), (1, [4, 5])):
        _, expected = stepped(forward.network, batch.observation[rows].numpy())
        assert np.array(expected) == pytest.approx(value[rows].detach().numpy(), abs=1e-5), e


@pytest.mark.parametrize("bfloat16", [True, False])
def test_batches_in_bfloat16_are_filled_up_to_few_lengths_which_changes_no_gradient(
    bfloat16, make_spec, monkeypatch
):
    """oneDNN prepares products for each shape; in float32 they are torch's own, and stay as they are."""
    network, rows = forward_of(make_spec()).network, []
    network.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    seen = torch.from_numpy(np.random.default_rng(0).random((1100, *make_spec().seen.shape), np.float32))

    def learned(n):
        network.zero_grad()
        output = Forward(network, bfloat16).rows(seen[:n])
        assert len(output.value) == len(output.parameters) == n
        (output.value.mean() + output.parameters.square().mean()).backward()
        return torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])

    filled = [learned(n) for n in (1030, 1040, 1100)]
    assert rows == ([1088, 1088, 1152] if bfloat16 else [1030, 1040, 1100])
    monkeypatch.setattr("league.learning.learner.forward.even", lambda n: n)
    for n, gradient in zip((1030, 1040, 1100), filled, strict=True):
        torch.testing.assert_close(gradient, learned(n), rtol=2**-7, atol=1e-4)


def test_layers_of_ones_own_get_the_rows_of_the_batch_alone(make_spec):
    """They may compute across rows, as batch normalisation does."""
    trust(f"{__name__}:ByRows")
    network = build_network(make_spec(torso={"use": f"{__name__}:ByRows"}))
    output = Forward(network, True).rows(torch.ones(1030, *make_spec().seen.shape))
    assert set(output.value.tolist()) == {1030.0}
