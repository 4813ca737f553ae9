"""The cyclic plane: who lies how far around from whom."""

import numpy as np
import pytest

from analysis import plots
from tests.analysis.plots.drawn import words
from tests.analysis.plots.leagues import board_of, payoff_of


def places(figure, names):
    """Where each name is, [N, 2]; ratings fall in the order of names, and colours with them."""
    points = [line for line in figure.axes[0].lines if line.get_label().startswith("competitors")]
    drawn = np.concatenate([np.column_stack(line.get_data()) for line in points])
    labels = {text.get_text(): text.xy for text in figure.axes[0].texts if text.get_label() == "name"}
    assert len(drawn) == len(names)
    return np.array([labels[name] for name in names])


def test_rock_paper_scissors_stand_thirds_apart_the_beaten_counterclockwise():
    names = ["rock", "scissors", "paper"]
    score = np.array([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])
    figure = plots.cyclic_plane(payoff_of(names, score), board_of(names))
    at = places(figure, names)
    angle = np.arctan2(at[:, 1], at[:, 0])
    turn = (np.roll(angle, -1) - angle) % (2 * np.pi)
    np.testing.assert_allclose(turn, 2 * np.pi / 3, rtol=1e-6)
    np.testing.assert_allclose(np.hypot(*at.T), np.hypot(*at[0]), rtol=1e-6)
    assert "100 % of all energy looks cyclic" in words(figure, "subtitle").replace("\n", " ")
    assert figure.axes[0].get_xlabel() == "strongest plane: 100 % of what is cyclic, 100 % of all energy"


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_areas_that_points_span_are_what_strengths_leave_unexplained(share):
    names = [f"p{place}" for place in range(6)]
    angle = 2 * np.pi * np.arange(6) / 6
    score = 0.5 + 0.4 * share * np.sin(angle[None] - angle[:, None])
    figure = plots.cyclic_plane(payoff_of(names, score, games=10_000_000), board_of(names))
    at = places(figure, names)
    gain = np.outer(at[:, 0], at[:, 1]) - np.outer(at[:, 1], at[:, 0])
    np.testing.assert_allclose(gain, 2 * score - 1, atol=1e-4)


def test_an_order_has_hardly_any_energy_in_circles():
    names = [f"p{place}" for place in range(8)]
    strength = np.linspace(2, 0, 8)
    score = 1 / (1 + np.exp(-(strength[:, None] - strength)))
    figure = plots.cyclic_plane(payoff_of(names, score, games=10_000), board_of(names))
    said = words(figure, "title") + words(figure, "message") + words(figure, "subtitle").replace("\n", " ")
    assert "No plane of cycles" in said or "under 0.1 % of all energy looks cyclic" in said


def test_two_cannot_go_round_in_a_circle():
    figure = plots.cyclic_plane(
        payoff_of(["a", "b"], np.array([[0.5, 0.9], [0.1, 0.5]])), board_of(["a", "b"])
    )
    assert "three competitors" in words(figure, "message")
