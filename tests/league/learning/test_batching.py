"""Minibatches hold every step once, and know what follows each."""

import numpy as np

from league.learning.batching import minibatches


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
    episodes = make_episodes([2, 3], truncated=[False, True])
    (batch,) = minibatches(episodes, 100, 100)
    nothing = 5 + 1  # five steps, one bootstrap row
    assert batch.rows.tolist() == [[0, 2], [1, 3], [5, 4]]
    assert batch.after.tolist() == [[1, 3], [nothing, 4], [nothing, 5]]
    np.testing.assert_array_equal(batch.observation[5].numpy(), episodes.bootstrap[0])


def test_long_episodes_are_cut_and_bootstrapped_from_their_own_next_step(make_episodes):
    episodes = make_episodes([7, 2], truncated=[True, False])
    (batch,) = minibatches(episodes, 100, sequence_length=3)
    assert batch.rows.shape == (3, 4)  # 3 + 3 + 1 steps, and the short episode
    assert batch.num_steps == 9
    following = [batch.observation[row].numpy() for row in batch.after[[2, 2, 0], [0, 1, 2]]]
    np.testing.assert_array_equal(following[0], episodes.observation[3])
    np.testing.assert_array_equal(following[1], episodes.observation[6])
    np.testing.assert_array_equal(following[2], episodes.bootstrap[0])


def test_versions_follow_their_steps(make_episodes):
    episodes = make_episodes([2, 3])
    episodes.version[:] = [4, 9]
    (batch,) = minibatches(episodes, 100, 100)
    assert batch.lag_versions.tolist() == [4, 4, 9, 9, 9]
