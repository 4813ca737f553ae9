"""Minibatches hold every step once, and know what follows each."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from league.learning.data.batching import Batch, TargetedBatch, ahead, cut, groups, minibatches, preload
from league.learning.maths.advantages import GAE


class Share:
    """One of several peers that never talk."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


def test_every_step_is_in_exactly_one_minibatch(make_episodes):
    episodes = make_episodes([3, 5, 1, 4, 7, 2, 6])
    batches = list(minibatches(episodes, steps=9, sequence_length=100))
    assert len(batches) == 3
    rewards = np.concatenate([b.reward.numpy() for b in batches])
    np.testing.assert_array_equal(rewards, episodes.reward)


def test_shuffling_keeps_sequences_whole(make_episodes):
    episodes = make_episodes([3, 5, 1, 4])
    (batch,) = minibatches(episodes, 100, 100, np.random.default_rng(1))
    assert sorted(batch.reward.tolist()) == sorted(episodes.reward.tolist())
    for e in range(4):
        start = int(np.flatnonzero(batch.reward.numpy() == episodes[e].reward[0])[0])
        length = len(episodes[e].reward)
        np.testing.assert_array_equal(batch.reward.numpy()[start : start + length], episodes[e].reward)


def test_rows_and_after_describe_each_sequence(make_episodes):
    action = np.arange(10, dtype=np.float32).reshape(5, 2)
    episodes = replace(
        make_episodes([2, 3], truncated=[False, True]), version=np.array([4, 9]), action=action
    )
    (batch,) = minibatches(episodes, 100, 100)
    nothing = 5 + 1  # five steps, one bootstrap row
    assert batch.rows.tolist() == [[0, 2], [1, 3], [5, 4]]
    assert batch.after.tolist() == [[1, 3], [nothing, 4], [nothing, 5]]
    assert batch.layout.tolist() == [[0, 2], [1, 3], [nothing, 4], [nothing, 5]]
    np.testing.assert_array_equal(batch.observation[5].numpy(), episodes.bootstrap[0])
    assert batch.lag_versions.tolist() == [4, 4, 9, 9, 9]
    np.testing.assert_array_equal(batch.action.numpy(), action)


def test_long_episodes_are_cut_and_bootstrapped_from_their_own_next_step(make_episodes):
    episodes = make_episodes([7, 2], truncated=[True, False])
    (batch,) = minibatches(episodes, 100, sequence_length=3)
    assert batch.rows.shape == (3, 4)  # 3 + 3 + 1 steps, and the short episode
    assert batch.num_steps == 9
    following = [batch.observation[row].numpy() for row in batch.after[[2, 2, 0], [0, 1, 2]]]
    np.testing.assert_array_equal(following[0], episodes.observation[3])
    np.testing.assert_array_equal(following[1], episodes.observation[6])
    np.testing.assert_array_equal(following[2], episodes.bootstrap[0])


def test_advantages_are_normalised_over_all_parts_and_peers_of_a_minibatch(make_episodes):
    episodes = make_episodes([3, 5, 1, 4, 7, 2, 6, 4])
    n = episodes.num_steps
    raw = np.random.default_rng(0).normal(size=n).astype(np.float32) + 3.0
    targets = GAE(raw.copy(), np.zeros(n, np.float32))
    made = lambda **how: list(minibatches(episodes, 16, 99, targets=targets, **how))  # noqa: E731
    whole = made(normalises=True)
    assert len(whole) == 2
    for batch in whole:
        assert float(batch.advantage.mean()) == pytest.approx(0.0, abs=1e-6)
        assert float(batch.advantage.std(correction=0)) == pytest.approx(1.0, abs=1e-5)
    by_reward = {reward: a for b in whole for reward, a in zip(b.reward.tolist(), b.advantage, strict=True)}
    for rank in range(2):
        for part in made(normalises=True, peers=Share(rank, 2), part_steps=4):
            torch.testing.assert_close(
                part.advantage, torch.stack([by_reward[reward] for reward in part.reward.tolist()])
            )
    np.testing.assert_array_equal(targets.advantage, raw)
    np.testing.assert_array_equal(np.concatenate([b.advantage for b in made()]), raw)
    alike = GAE(np.full(n, 3.0, np.float32), raw)
    (batch,) = minibatches(episodes, 99, 99, targets=alike, normalises=True)
    assert batch.advantage.tolist() == [0.0] * n


def test_a_minibatch_comes_in_equal_parts_of_whole_sequences(make_episodes):
    episodes = make_episodes([4] * 9)
    parts = list(minibatches(episodes, 18, 99, part_steps=8))
    assert [part.num_steps for part in parts] == [8, 8, 4, 8, 8]
    assert [part.closes for part in parts] == [False, False, True, False, True]
    assert [part.total_steps for part in parts] == [20] * 3 + [16] * 2
    assert torch.cat([part.reward for part in parts]).tolist() == episodes.reward.tolist()


def test_memories_targets_and_versions_go_with_their_sequences_and_steps(make_episodes):
    episodes = make_episodes([7, 2, 4], truncated=[True, False, False], version=3)
    assert len(cut(episodes, 3)) == 6
    memory = np.arange(12, dtype=np.float32).reshape(6, 2)
    targets = GAE(episodes.reward + 1, episodes.reward + 2)
    seen = []
    for batch in minibatches(episodes, 5, 3, np.random.default_rng(1), memory=memory, targets=targets):
        assert isinstance(batch, TargetedBatch)
        torch.testing.assert_close(batch.advantage, batch.reward + 1)
        torch.testing.assert_close(batch.value_target, batch.reward + 2)
        firsts = batch.reward[batch.rows[0]].tolist()
        for first, row in zip(firsts, batch.memory.tolist(), strict=True):
            start = int(np.flatnonzero(episodes.reward == np.float32(first))[0])
            sequence = [0, 3, 6, 7, 9, 12].index(start)
            assert row == [2 * sequence, 2 * sequence + 1]
            seen.append(sequence)
    assert sorted(seen) == list(range(6))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_peers_share_each_minibatch_among_them(make_episodes, size):
    episodes = make_episodes([3, 5, 1, 4, 7, 2, 6], truncated=[True, False] * 3 + [True])
    whole = list(minibatches(episodes, 9, 4, np.random.default_rng(3)))
    shares = [
        list(minibatches(episodes, 9, 4, np.random.default_rng(3), peers=Share(rank, size)))
        for rank in range(size)
    ]
    for i, batch in enumerate(whole):
        parts = [share[i] for share in shares]
        assert {part.total_steps for part in parts} == {batch.num_steps}
        rewards = [reward for part in parts for reward in part.reward.tolist()]
        assert sorted(rewards) == sorted(batch.reward.tolist())


def test_a_peer_may_be_left_without_a_step(make_episodes):
    (batch,) = minibatches(make_episodes([6]), 100, 100, peers=Share(1, 2))
    assert (batch.num_steps, batch.total_steps) == (0, 6)
    assert batch.observation.shape == (0, 4)
    assert batch.rows.shape == (0, 0)


def test_groups_are_neighbours_of_about_the_size_asked_for():
    length = np.array([5, 1, 1, 9, 2, 2, 4])
    found = groups(length, 8)
    np.testing.assert_array_equal(np.concatenate(found), np.arange(7))
    assert [int(length[group].sum()) for group in found] == [16, 8]
    assert groups(np.zeros(0, np.int64), 8) == []


def test_read_only_arrays_are_copied_and_others_are_not(make_episodes):
    episodes = make_episodes([4, 4])
    (batch,) = minibatches(episodes, 100, 100)
    assert np.shares_memory(batch.observation.numpy(), episodes.observation)
    episodes.observation.flags.writeable = False
    (batch,) = minibatches(episodes, 100, 100)
    assert not np.shares_memory(batch.observation.numpy(), episodes.observation)


def test_a_batch_gives_its_tensors_by_name_and_takes_others(make_episodes):
    (batch,) = minibatches(make_episodes([2]), 100, 100)
    tensors = batch.tensors()
    others = {"total_steps", "own", "packed", "closes", "places"}
    assert set(tensors) == set(Batch.__dataclass_fields__) - others
    other = batch.with_tensors({**tensors, "reward": tensors["reward"] + 1})
    torch.testing.assert_close(other.reward, batch.reward + 1)
    assert other.total_steps == 2


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


def test_a_loader_reads_as_many_batches_ahead_as_it_is_deep():
    taken, enough = [], threading.Event()

    def source():
        for i in range(5):
            taken.append(i)
            if len(taken) == min(wanted, 5):
                enough.set()
            yield i

    wanted, items = 3, ahead(source(), 2)
    for i in range(5):
        assert next(items) == i
        assert enough.wait(10)
        assert len(taken) == min(wanted, 5)
        wanted += 1
        if wanted <= 5:
            enough.clear()
    assert list(items) == []
    assert list(ahead(iter([]), 3)) == []


def test_what_a_batch_s_maker_raises_is_raised_where_it_is_learned_from():
    items = ahead((1 // i for i in (1, 0)), 1)
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError):
        next(items)
