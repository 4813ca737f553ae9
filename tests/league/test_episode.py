"""Episodes: many sequences as one set of arrays."""

import dataclasses

import numpy as np
import pytest

from league.episode import Episodes


def episodes(lengths, truncated, first_match=0):
    n, e = sum(lengths), len(lengths)
    cut = np.asarray(truncated)
    return Episodes(
        player="main-0",
        offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        match_id=first_match + np.arange(e),
        seat=(np.arange(e) % 2).astype(np.int8),
        version=10 + np.arange(e),
        terminated=~cut,
        observation=np.arange(2 * n, dtype=np.float32).reshape(n, 2) + 1000 * first_match,
        mask=np.ones((n, 3), bool),
        action=np.arange(n) % 3,
        log_prob=-np.arange(n, dtype=np.float32),
        reward=np.arange(n, dtype=np.float32),
        bootstrap=-1.0 - np.arange(2 * int(cut.sum()), dtype=np.float32).reshape(-1, 2),
    )


def assert_same(a, b):
    for name in a.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


ALL = episodes([2, 1, 3, 2], [True, False, True, False])


def test_an_episode_has_its_own_steps_and_its_own_bootstrap():
    third = ALL[2]
    assert third.reward.tolist() == [3.0, 4.0, 5.0]
    assert third.bootstrap.tolist() == [-3.0, -4.0]
    assert ALL[3].bootstrap is None
    with pytest.raises(IndexError, match="episode 4 of 4"):
        ALL[4]


def test_taken_episodes_are_the_same_episodes_in_the_order_asked_for():
    chosen = np.array([2, 3, 0, 2])
    taken = ALL.take(chosen)
    assert len(taken) == 4
    assert taken.num_steps == 3 + 2 + 2 + 3
    for i, e in enumerate(chosen):
        for name in ALL[0].__dataclass_fields__:
            np.testing.assert_array_equal(getattr(taken[i], name), getattr(ALL[e], name), err_msg=name)


def test_taken_episodes_share_no_memory_with_those_they_came_from():
    taken = ALL.take(np.array([0]))
    assert not np.shares_memory(taken.observation, ALL.observation)
    assert not np.shares_memory(taken.bootstrap, ALL.bootstrap)


def test_taking_none_leaves_arrays_of_the_same_kind():
    nothing = ALL.take(np.array([], np.int64))
    assert (len(nothing), nothing.num_steps) == (0, 0)
    assert nothing.observation.shape == (0, 2)
    assert nothing.bootstrap.shape == (0, 2)


def test_concatenated_parts_are_what_they_were():
    more = episodes([1, 4], [True, False], first_match=7)
    both = Episodes.concatenate([ALL, more])
    assert_same(both.take(np.arange(4)), ALL)
    assert_same(both.take(np.array([4, 5])), more)
    assert Episodes.concatenate([ALL]) is ALL


def test_a_part_without_memories_begins_with_empty_ones_beside_one_that_has_them():
    plain = ALL
    memory = np.arange(len(plain) * 2, dtype=np.float32).reshape(-1, 2) + 1.0
    fragments = dataclasses.replace(plain, memory=memory)
    joined = Episodes.concatenate([plain, fragments])
    np.testing.assert_array_equal(joined.memory, np.concatenate([np.zeros_like(memory), memory]))
    np.testing.assert_array_equal(joined[len(plain)].memory, memory[0])
    np.testing.assert_array_equal(fragments.take(np.array([1, 0])).memory, memory[[1, 0]])
    assert Episodes.concatenate([plain, plain]).memory is None
    assert plain[0].memory is None
