"""Generalised advantages against the sum of the paper, written out in float64, and golden numbers."""

import itertools

import numpy as np
import pytest

from league.learning.maths.advantages import advantages, gae


def written_out(v_tm1, v_t, r_t, discount_t, lambda_):
    """Equation 16 of arXiv 1506.02438 as published, one episode: sum of (gamma lambda)^l delta_t+l."""
    delta = r_t + discount_t * v_t - v_tm1
    return np.array(
        [
            sum(
                np.prod(lambda_ * discount_t[t : t + ahead]) * delta[t + ahead]
                for ahead in range(len(r_t) - t)
            )
            for t in range(len(r_t))
        ]
    )


def columns(rng, offset, terminated, gamma):
    n = offset[-1]
    v_tm1, r_t = rng.normal(size=n), rng.normal(size=n)
    v_t, discount_t = np.append(v_tm1[1:], 0.0), np.full(n, gamma)
    ends = offset[1:] - 1
    v_t[ends] = rng.normal(size=len(ends))
    discount_t[ends[terminated]] = 0.0
    return v_tm1, v_t, r_t, discount_t


@pytest.mark.parametrize("lambda_", [1.0, 0.9, 0.0])
def test_advantages_equal_the_sum_of_the_paper_for_episodes_of_unequal_length(lambda_):
    offset = np.array([0, 3, 4, 11, 13, 20])
    terminated = np.array([True, False, False, True, True])
    arrays = columns(np.random.default_rng(1), offset, terminated, 0.95)
    found = gae(*arrays, offset, lambda_=lambda_)
    for start, end in itertools.pairwise(offset):
        expected = written_out(*(array[start:end] for array in arrays), lambda_)
        np.testing.assert_allclose(found.advantage[start:end], expected, atol=1e-6)
        np.testing.assert_allclose(found.value_target[start:end], expected + arrays[0][start:end], atol=1e-6)


def test_golden_numbers_of_a_truncated_and_a_terminated_episode():
    # by hand, gamma = lambda = 1/2; truncated: v = 1, 2, bootstrap 4; r = 1, -1
    #   delta = 1 + 1 - 1 = 1, -1 + 2 - 2 = -1; A = 1 + 1/4 (-1), -1
    # terminated after one step: v = 3, r = 5: A = 2, whatever value is given for what follows
    found = gae(
        np.array([1.0, 2.0, 3.0]),
        np.array([2.0, 4.0, 99.0]),
        np.array([1.0, -1.0, 5.0]),
        np.array([0.5, 0.5, 0.0]),
        np.array([0, 2, 3]),
        lambda_=0.5,
    )
    np.testing.assert_allclose(found.advantage, [0.75, -1.0, 2.0], atol=1e-7)
    np.testing.assert_allclose(found.value_target, [1.75, 1.0, 5.0], atol=1e-7)
    assert found.advantage.dtype == found.value_target.dtype == np.float32


def test_truncation_bootstraps_and_termination_does_not(make_episodes):
    episodes = make_episodes([3, 2, 4], truncated=[True, False, True])
    value = np.random.default_rng(3).normal(size=9 + 2)
    found = advantages(episodes, value, discount=0.9, lambda_=0.7)
    bootstraps = [value[9], 0.0, value[10]]
    for e, (start, end) in enumerate(itertools.pairwise(episodes.offset)):
        v_t = np.append(value[start + 1 : end], bootstraps[e])
        discount = np.full(end - start, 0.9)
        if episodes.terminated[e]:
            discount[-1] = 0.0
        expected = written_out(value[start:end], v_t, episodes.reward[start:end], discount, 0.7)
        np.testing.assert_allclose(found.advantage[start:end], expected, atol=1e-6)


def test_misshapen_arrays_are_refused():
    good = np.zeros(3)
    with pytest.raises(ValueError, match=r"expected four times \[3\]"):
        gae(good, good, np.zeros(2), good, np.array([0, 3]), lambda_=0.9)
