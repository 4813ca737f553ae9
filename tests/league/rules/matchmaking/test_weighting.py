import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from league.rules.matchmaking.weighting import WEIGHTINGS, find_weighting, probabilities

rates = arrays(np.float64, st.integers(1, 30), elements=st.floats(0.0, 1.0))


@pytest.mark.slow
@settings(deadline=None)
@given(rates, st.sampled_from(sorted(WEIGHTINGS)), st.floats(0.1, 5.0))
def test_every_weighting_gives_a_distribution(p, name, exponent):
    found = probabilities(find_weighting(name, exponent), p)
    assert found.shape == p.shape
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.slow
@settings(deadline=None)
@given(rates, st.sampled_from(["hard", "linear", "capped_linear"]))
def test_the_harder_an_opponent_the_more_it_weighs(p, name):
    p = np.sort(p)
    assert (np.diff(WEIGHTINGS[name](p)) <= 0).all()


@settings(deadline=None)
@given(st.floats(0.0, 1.0), st.sampled_from(["variance", "even"]))
def test_equals_weigh_most_and_the_rest_by_distance(p, name):
    weigh = WEIGHTINGS[name]
    at, mirrored, equal = weigh(np.array([p, 1.0 - p, 0.5]))
    assert at == pytest.approx(mirrored)
    assert at <= equal


@pytest.mark.parametrize("name", sorted(WEIGHTINGS))
def test_an_all_beaten_pool_is_drawn_from_uniformly(name):
    found = probabilities(find_weighting(name), np.ones(4))
    np.testing.assert_array_equal(found, np.full(4, 0.25))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_weights_that_cannot_be_drawn_by_mean_uniform(bad):
    found = probabilities(lambda p: np.where(p > 0.4, bad, 5.0), np.array([0.1, 0.5, 0.9]))
    np.testing.assert_allclose(found, 1 / 3)


def test_golden_weights():
    p = np.array([0.0, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(find_weighting("hard", 2.0)(p), [1, 0.5625, 0.25, 0])
    np.testing.assert_allclose(find_weighting("hard", 1.0)(p), find_weighting("linear")(p))
    np.testing.assert_allclose(find_weighting("variance")(p), [0, 0.1875, 0.25, 0])
    np.testing.assert_allclose(find_weighting("capped_linear")(p), [0.5, 0.5, 0.5, 0])


def test_a_weighting_of_ones_own_comes_by_import_path():
    assert find_weighting("numpy:square")(np.array([3.0]))[0] == 9.0
    with pytest.raises(ValueError, match=r"weighting .*has no 'no_such_thing'"):
        find_weighting("numpy:no_such_thing")
    with pytest.raises(ValueError, match=r"is 3.14.*, expected a function"):
        find_weighting("math:pi")


def test_a_misspelt_weighting_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'variance'"):
        find_weighting("varience")


def test_a_weighting_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(1,\) for win rates of shape \(3,\)"):
        probabilities(lambda p: p[:1], np.ones(3))


@pytest.mark.parametrize("wrong", [np.log, np.negative, np.sum])
def test_a_weighting_of_ones_own_that_returns_no_weights_is_refused_before_use(wrong, monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(weigh=lambda p: wrong(p)))
    with pytest.raises(
        ValueError, match=r"weighting 'mine:weigh' returned .* for 5 win rates, expected 5 weights"
    ):
        find_weighting("mine:weigh")


def test_a_weighting_of_ones_own_takes_its_options(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(weigh=lambda p, power=1: p**power))
    np.testing.assert_allclose(find_weighting("mine:weigh", options={"power": 2})(np.array([0.5])), [0.25])
