"""V-trace against the sum of the paper, written out in float64, and against golden numbers."""

import numpy as np
import pytest
import torch

from league.learning.maths.advantages import vtrace


def written_out(v_tm1, v_t, r_t, discount_t, rho, lambda_, clip_rho, clip_c):
    """Equation 1 of arXiv 1802.01561 as published: an explicit double sum, one sequence."""
    steps = len(r_t)
    delta = np.minimum(clip_rho, rho) * (r_t + discount_t * v_t - v_tm1)
    c = lambda_ * np.minimum(clip_c, rho)
    vs = np.array(
        [
            v_tm1[s] + sum(np.prod(discount_t[s:t]) * np.prod(c[s:t]) * delta[t] for t in range(s, steps))
            for s in range(steps)
        ]
    )
    return vs, delta


def columns(rng, steps, sequences):
    v = rng.normal(size=(steps + 1, sequences))
    r = rng.normal(size=(steps, sequences))
    discount = np.full((steps, sequences), 0.9)
    rho = np.exp(rng.normal(scale=0.7, size=(steps, sequences)))
    return v[:-1], v[1:], r, discount, rho


def tensors(*arrays):
    return [torch.tensor(a, dtype=torch.float64) for a in arrays]


@pytest.mark.parametrize("lambda_", [1.0, 0.9, 0.0])
def test_values_equal_the_double_sum_of_the_paper(lambda_):
    v_tm1, v_t, r, discount, rho = columns(np.random.default_rng(1), 7, 5)
    result = vtrace(*tensors(v_tm1, v_t, r, discount, rho), lambda_=lambda_, clip_rho=1.2, clip_c=0.8)
    for b in range(5):
        vs, _ = written_out(v_tm1[:, b], v_t[:, b], r[:, b], discount[:, b], rho[:, b], lambda_, 1.2, 0.8)
        np.testing.assert_allclose(result.vs[:, b].numpy(), vs, atol=1e-12)


def test_golden_numbers_of_a_small_sequence():
    # one sequence of two steps, by hand: v = 1, 2, bootstrap 4; r = 1, -1; gamma 1/2; rho = 2, 1/2
    # delta = 1 (1 + 1 - 1) = 1 and 1/2 (-1 + 2 - 2) = -1/2; vs_1 = 2 - 1/2; vs_0 = 1 + 1 + 1/2 (-1/2)
    result = vtrace(*tensors([[1.0], [2.0]], [[2.0], [4.0]], [[1.0], [-1.0]], [[0.5], [0.5]], [[2.0], [0.5]]))
    np.testing.assert_allclose(result.vs[:, 0].numpy(), [1.75, 1.5], atol=1e-12)
    np.testing.assert_allclose(result.error[:, 0].numpy(), [0.75, -1.0], atol=1e-12)


def test_nothing_leaks_back_over_the_end_of_a_match():
    rng = np.random.default_rng(3)
    v_tm1, v_t, r, discount, rho = columns(rng, 6, 1)
    discount[2] = 0.0
    before = vtrace(*tensors(v_tm1, v_t, r, discount, rho))
    r[3:] += 100.0
    after = vtrace(*tensors(v_tm1, v_t, r, discount, rho))
    np.testing.assert_array_equal(before.vs[:3].numpy(), after.vs[:3].numpy())
    assert (before.vs[3:] != after.vs[3:]).all()


def test_padding_changes_no_value():
    rng = np.random.default_rng(4)
    arrays = columns(rng, 5, 2)
    short = vtrace(*tensors(*arrays))
    padded = [np.concatenate([a, np.zeros((3, 2))]) for a in arrays]
    long = vtrace(*tensors(*padded))
    np.testing.assert_allclose(long.vs[:5].numpy(), short.vs.numpy(), atol=1e-12)
    np.testing.assert_allclose(long.error[:5].numpy(), short.error.numpy(), atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 13, 33])
def test_sums_by_doubling_equal_the_backward_recursion_for_any_length(steps):
    v_tm1, v_t, r, discount, rho = columns(np.random.default_rng(5), steps, 4)
    result = vtrace(*tensors(v_tm1, v_t, r, discount, rho), lambda_=0.9)
    clipped, later = np.minimum(1.0, rho), np.zeros(4)
    for t in range(steps - 1, -1, -1):
        error = r[t] + discount[t] * (v_t[t] + 0.9 * later) - v_tm1[t]
        np.testing.assert_allclose(result.error[t].numpy(), error, atol=1e-12)
        delta = clipped[t] * (r[t] + discount[t] * v_t[t] - v_tm1[t])
        later = delta + discount[t] * 0.9 * clipped[t] * later
        np.testing.assert_allclose(result.vs[t].numpy(), v_tm1[t] + later, atol=1e-12)


def test_misshapen_arrays_are_refused():
    good = torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"expected five equal \[T, B\]"):
        vtrace(good, good, torch.zeros(2, 2), good, good)
