"""Figures on yardsticks: shares with intervals, by part and by mode."""

import numpy as np
import pytest

from analysis.statistics.elo import wilson
from league.yardsticks.figures import figure_of_games, figures_of_positions, parts
from league.yardsticks.positions import parse
from storage.records import EndReason
from tests import made_up

POSITIONS = parse([": 1 0 -1", "0 : 0 0 .", "0 1 : -1 -2 .", "0 1 2 : 2 1 -1"], "mine", "mine.txt")
HALF = np.array([[0.5, 0.25, 0.25], [0.6, 0.4, 0.0], [0.25, 0.75, 0.0], [0.2, 0.5, 0.3]])


def found(greedy=True):
    figures = figures_of_positions("main-0@1", POSITIONS, HALF, greedy)
    return {(figure.part, figure.mode, figure.measure): figure for figure in figures}


def test_greedy_counts_the_likeliest_action_and_sample_what_is_expected():
    figures = found()
    assert figures["all", "greedy", "best"].value == 2 / 4  # the first two
    assert figures["all", "greedy", "kept"].value == 1.0
    assert figures["all", "sample", "best"].value == pytest.approx((0.5 + 1.0 + 0.25 + 0.2) / 4)
    assert figures["all", "sample", "kept"].value == pytest.approx((0.5 + 1.0 + 1.0 + 0.7) / 4)
    assert {mode for _, mode, _ in found(greedy=False)} == {"sample"}


def test_the_decisive_part_has_the_positions_in_which_the_outcome_hangs_on_the_move():
    figures = found()
    assert figures["decisive", "sample", "kept"].samples == 2
    assert figures["decisive", "sample", "kept"].value == pytest.approx((0.5 + 0.7) / 2)


def test_bands_of_plies_hold_each_position_once():
    of = parts(POSITIONS)
    bands = [chosen for name, chosen in of.items() if name.startswith("plies")]
    assert np.sum(bands, axis=0).tolist() == [1, 1, 1, 1]
    assert list(of) == ["all", "decisive", "plies 0-1", "plies 2", "plies 3"]
    alike = parse([": 1 0", ": 0 1"], "mine", "mine.txt")
    assert list(parts(alike)) == ["all", "decisive"]


def test_intervals_are_wilsons():
    """Golden numbers: 81 of 263, the example of R. G. Newcombe, Statistics in Medicine 17 (1998), table I."""
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0 / 20, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(1.0, 10)[1] == 1.0
    for figure in found().values():
        assert figure.low <= figure.value <= figure.high


def played(rank, reason=0):
    """Results of matches in which the competitor (0) has seat 0, then seat 1, by its seeds."""
    seat = np.tile([[0, 1], [1, 0]], (len(rank) // 2, 1))
    matches = made_up.matches(("competitor", "opponent"), seat)
    outcome = np.where(rank[:, :1] == rank[:, 1:], 1, rank * 2)
    return made_up.results(matches, outcome, rank=rank, reason=reason)


def test_the_score_of_games_is_the_mean_over_seeds_of_points_in_all_places():
    first, second, drawn = [0, 1], [1, 0], [0, 0]
    rank = np.array([first, first, first, second, drawn, drawn])  # points 1 0, 1 1, 1/2 1/2
    figure = figure_of_games("main-0@1", "one_ply", played(rank), "sample", 3)
    assert figure is not None
    assert (figure.value, figure.samples) == (pytest.approx((0.5 + 1.0 + 0.5) / 3), 6)
    assert 0.0 < figure.low < figure.value < figure.high < 1.0
    assert (figure.yardstick, figure.kind, figure.measure) == ("one_ply", "games", "score")


def test_seeds_with_a_crash_do_not_count():
    rank = np.array([[0, 1], [1, 0], [1, 0], [0, 1]])
    crashed = np.array([0, 0, EndReason.CRASH, 0])
    figure = figure_of_games("a", "b", played(rank, crashed), "sample", 2)
    assert figure is not None
    assert (figure.value, figure.samples) == (1.0, 2)
    assert figure_of_games("a", "b", played(rank, np.full(4, EndReason.CRASH)), "sample", 2) is None
