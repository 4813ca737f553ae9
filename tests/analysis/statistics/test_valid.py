"""What cannot be is one `ValueError` that says what was found; `test_doors` has which functions check it."""

import dataclasses

import numpy as np
import pytest

from analysis.solution.voting import kemeny_score
from analysis.statistics.elo import elo_from_counts, score_counts, score_of_elo
from analysis.statistics.hierarchy.anchors import Anchor
from analysis.statistics.hierarchy.posterior import lines_of, posterior
from analysis.statistics.meetings import meetings_of
from analysis.statistics.sprt import Sprt
from storage.errors import Mistake
from tests.analysis.simulated_games import games_from


@pytest.mark.parametrize("counts", [[1, -2, 3], [1.5, 2, 3], [np.nan, 1, 2], [np.inf, 1, 2]], ids=str)
def test_counts_that_are_no_counts_are_refused(counts):
    with pytest.raises(ValueError, match="expected whole numbers of 0 or more"):
        elo_from_counts([counts])
    with pytest.raises(ValueError, match="expected at least one"):
        elo_from_counts([0, 0, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": [np.nan, 0.0]}, "scores hold nan"),
        ({"points": [2.0, 0.0]}, "scores hold 2"),
        ({"home": [0, 1], "away": [0, 0]}, "'c0' plays against itself"),
        ({"home": [5, 1]}, "a competitor beyond the 2 names"),
        ({}, "found 'twin' twice"),
    ],
)
def test_games_that_cannot_be_are_refused(change, message):
    games = games_from(2, **({"home": [0, 1], "away": [1, 0], "points": [1.0, 0.0]} | change))
    if not change:
        games = dataclasses.replace(games, competitors=("twin", "twin"))
    with pytest.raises(ValueError, match=message):
        meetings_of(games)


def test_scores_and_differences_that_are_none_are_refused():
    for score in (2.0, np.nan):
        with pytest.raises(ValueError, match="expected points per game"):
            score_counts([score])
    with pytest.raises(ValueError, match="elo is nan"):
        score_of_elo(np.nan)


def test_an_unknown_model_is_a_wrong_value_and_a_users_mistake():
    for kind in (ValueError, Mistake):
        with pytest.raises(kind, match="model is 'bayes', expected one of: logistic, normalized"):
            Sprt(0.0, 5.0, model="bayes")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lines": "near"}, "lines is 'near'"),
        ({"lines": lines_of([-1])}, "lines have 1 parents"),
        ({"lines": lines_of([-1, 2])}, "a number below 2"),
        ({"lines": lines_of([1, 0])}, "go in a circle"),
        ({"samples": 0}, "samples is 0"),
        ({"anchors": {"c9": Anchor()}}, "anchor is 'c9'"),
    ],
)
def test_posteriors_that_cannot_be_are_refused(given, message):
    games = games_from(2, [0, 1], [1, 0], [1.0, 0.0])
    with pytest.raises(ValueError, match=message):
        posterior(games, **given)
    with pytest.raises(ValueError, match=r"level is 1\.5"):
        posterior(games, samples=10).interval(1.5)


def test_orders_that_are_none_have_no_kemeny_score():
    with pytest.raises(ValueError, match="expected each number below 3 once"):
        kemeny_score(np.zeros((3, 3)), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="all finite"):
        kemeny_score(np.full((3, 3), np.nan), np.array([0, 2, 1]))
