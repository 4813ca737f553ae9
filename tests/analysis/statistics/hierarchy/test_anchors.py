"""Anchors with given ratings: fixed, uncertain, several, and at odds with the games."""

import numpy as np
import pytest

from analysis.statistics.hierarchy.anchors import Anchor, agreement, parse_anchor
from analysis.statistics.hierarchy.posterior import posterior
from storage.errors import Mistake
from tests.analysis.simulated_games import games_of_table, transitive

ELO = np.array([0.0, 100.0, 200.0, 300.0, 400.0])
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def games():
    return transitive(ELO, 100, np.random.default_rng(1))


def test_one_anchor_moves_the_scale_and_nothing_else(games):
    plain, moved = (
        posterior(games, anchors={"c1": Anchor()}),
        posterior(games, anchors={"c1": Anchor(1320.0)}),
    )
    assert moved.draws == pytest.approx(plain.draws + 1320.0)
    assert (moved.draws[:, 1] == 1320.0).all()


def test_the_error_of_an_anchor_is_that_of_the_whole_scale(games):
    fixed = posterior(games, anchors={"c1": Anchor(1320.0)})
    unsure = posterior(games, anchors={"c1": Anchor(1320.0, 30.0)})
    assert unsure.deviation[1] == pytest.approx(30.0, rel=0.05)
    expected = np.hypot(fixed.deviation, 30.0)
    assert unsure.deviation == pytest.approx(expected, rel=0.05)
    assert unsure.difference(0, 4).low == pytest.approx(fixed.difference(0, 4).low, abs=1e-6)


def test_several_anchors_narrow_what_is_between_them(games):
    one = posterior(games, anchors={"c0": Anchor(1000.0)})
    both = posterior(games, anchors={"c0": Anchor(1000.0), "c4": Anchor(1400.0)})
    assert both.elo[[0, 4]].tolist() == [1000.0, 1400.0]
    assert (both.deviation[1:4] < one.deviation[1:4]).all()


def test_an_uncertain_anchor_is_weighed_with_the_games():
    """Two that are given 200 apart played even: each of the two figures has an error of 11."""
    even = games_of_table([(0, 1, 250, 0, 250), (1, 0, 250, 0, 250)], 2)
    found = posterior(even, anchors={"c0": Anchor(0.0), "c1": Anchor(200.0, 11.0)})
    error = 400 / np.log(10) / np.sqrt(1000 / 4)  # of the Elo of a thousand even games: 11
    assert found.elo[1] == pytest.approx(200.0 * error**2 / (error**2 + 11.0**2), abs=6.0)


@pytest.mark.long
def test_intervals_on_a_scale_of_two_anchors_hold():
    rng, held = np.random.default_rng(5), []
    for field in range(60):
        elo = rng.normal(0.0, 150.0, 6)
        found = posterior(
            transitive(elo, 4, rng),
            anchors={"c0": Anchor(elo[0]), "c1": Anchor(elo[1] + rng.normal(0.0, 40.0), 40.0)},
            samples=500,
            seed=field,
        )
        low, high = found.interval()
        held += ((low <= elo) & (elo <= high))[1:].tolist()
    assert 0.91 < np.mean(held) < 0.99, "300 intervals in 60 fields: the standard error is about 0.02"


def test_parts_with_an_anchor_each_are_on_one_scale():
    apart = games_of_table([(0, 1, 30, 0, 10), (2, 3, 30, 0, 10)], 4)
    assert posterior(apart, anchors={"c0": Anchor(0.0)}).num_parts == 2
    found = posterior(apart, anchors={"c0": Anchor(0.0), "c2": Anchor(500.0)})
    assert found.num_parts == 1
    assert found.difference(3, 1).elo == pytest.approx(500.0, abs=40.0)
    assert agreement({"c0": Anchor()}, apart.competitors, found.draws) is None


@pytest.mark.parametrize(("given", "agrees"), [(400.0, True), (520.0, False)])
def test_agreement_is_that_of_games_with_what_is_given(games, given, agrees):
    anchors = {"c0": Anchor(0.0), "c2": Anchor(200.0), "c4": Anchor(given)}
    found = agreement(anchors, games.competitors, posterior(games).draws)
    assert (found.p_value > 0.01) == agrees
    name, off, low, high = found.farthest
    if not agrees:
        assert name == "c4"
        assert low < -120.0 < high < 0.0, "the games rate it 120 lower"
        assert off == pytest.approx((low + high) / 2.0)


def test_two_anchors_of_known_errors_agree_as_a_normal_distribution_has_it():
    draws = np.array([[-50.0, 50.0], [-50.0, 50.0]])
    found = agreement({"a": Anchor(0.0, 30.0), "b": Anchor(0.0, 40.0)}, ("a", "b"), draws)
    assert found.p_value == pytest.approx(0.0455003, abs=1e-6), "100 Elo are two standard errors of 50"
    assert found.off.tolist() == pytest.approx([-100.0, 100.0])
    assert found.error.tolist() == pytest.approx([50.0, 50.0])


def test_anchors_are_read_from_text():
    assert parse_anchor("random") == ("random", Anchor())
    assert parse_anchor("a=1320") == ("a", Anchor(1320.0))
    assert parse_anchor("x=y=-5.5+-30") == ("x=y", Anchor(-5.5, 30.0))
    for text in ("", "a=", "a=x", "a=1e9", "a=99999", "a=1+-", "a=1..2", "a=1+-x"):
        with pytest.raises(Mistake, match="--anchor: found"):
            parse_anchor(text)


def test_an_anchor_without_games_or_sense_is_refused(games):
    for anchors in ({"c9": Anchor()}, {"c0": Anchor(np.nan)}, {"c0": Anchor(0.0, -1.0)}):
        with pytest.raises(ValueError, match="anchor"):
            posterior(games, anchors=anchors)
