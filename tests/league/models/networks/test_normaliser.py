"""The normaliser's statistics are those of everything it was shown, in whatever batches."""

import numpy as np
import pytest
import torch

from league.models.networks.encoders import Normaliser


def normaliser(*shape, clip=10.0, epsilon=1e-8):
    return Normaliser(shape, clip, epsilon)


def test_statistics_of_two_batches_golden_numbers():
    # 1, 2, 3 and 5, 9: mean 4, squares of the deviations 9 + 4 + 1 + 1 + 25 = 40
    layer = normaliser(1)
    layer.update(torch.tensor([[1.0], [2.0], [3.0]]))
    assert (layer.mean.item(), layer.variance.item(), layer.count.item()) == pytest.approx((2, 2 / 3, 3))
    layer.update(torch.tensor([[5.0], [9.0]]))
    assert (layer.mean.item(), layer.variance.item(), layer.count.item()) == pytest.approx((4, 8, 5))


def test_batches_of_any_size_give_the_statistics_of_all_rows_at_once():
    rng = np.random.default_rng(0)
    rows = rng.normal(3.0, [[0.1, 5.0], [1.0, 100.0], [7.0, 2.0]], (1000, 3, 2))
    layer = normaliser(3, 2)
    for part in np.split(rows, [1, 2, 50, 900]):
        layer.update(torch.from_numpy(part))
    np.testing.assert_allclose(layer.mean.numpy(), rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(layer.variance.numpy(), rows.var(0), rtol=1e-12)
    assert layer.count == 1000


def test_what_goes_out_has_mean_zero_and_variance_one():
    rows = torch.from_numpy(np.random.default_rng(1).normal(-40.0, 0.3, (5000, 2)).astype(np.float32))
    layer = normaliser(2)
    layer.update(rows)
    out = layer(rows)
    assert out.dtype == torch.float32
    assert out.mean(0).abs().max() < 1e-3
    assert (out.var(0) - 1).abs().max() < 1e-3


def test_far_from_zero_the_variance_is_not_lost_to_rounding():
    layer = normaliser(1)
    for _ in range(1000):
        layer.update(1e6 + torch.tensor([[-1.0], [1.0]], dtype=torch.float64))
    assert layer.variance.item() == pytest.approx(1.0, abs=1e-9)


def test_whole_numbers_are_normalised_to_floats():
    layer = normaliser(2)
    rows = torch.tensor([[0, 200], [2, 100]], dtype=torch.uint8)
    layer.update(rows)
    assert layer(rows).tolist() == [[-1.0, 1.0], [1.0, -1.0]]


def test_what_lies_far_out_is_clipped():
    layer = normaliser(1, clip=3.0)
    layer.update(torch.tensor([[-1.0], [1.0]]))
    assert layer(torch.tensor([[2.0], [50.0], [-50.0]])).tolist() == [[2.0], [3.0], [-3.0]]


def test_a_number_that_never_changes_gives_zero_and_no_infinity():
    layer = normaliser(1)
    layer.update(torch.full((10, 1), 7.0))
    assert layer(torch.tensor([[7.0]])).tolist() == [[0.0]]
    assert torch.isfinite(layer(torch.tensor([[7.1]]))).all()


def test_no_rows_change_nothing():
    layer = normaliser(2)
    layer.update(torch.zeros(0, 2))
    assert layer.count == 0
    assert layer(torch.tensor([[1.5, -2.0]])).tolist() == [[1.5, -2.0]]


def test_the_statistics_are_saved_and_not_learned():
    layer = normaliser(2)
    assert sorted(layer.state_dict()) == ["count", "mean", "variance"]
    assert not list(layer.parameters())


def test_buffers_change_in_place_so_that_whoever_holds_them_sees_it():
    layer = normaliser(1)
    held = layer.mean
    layer.update(torch.tensor([[4.0]]))
    assert held.item() == 4.0
    layer.initialise()
    assert (held.item(), layer.variance.item(), layer.count.item()) == (0.0, 1.0, 0.0)
