"""What cannot be is one `ValueError` of the function that was called."""

import dataclasses

import numpy as np
import pytest

from analysis.solution.voting import kemeny_score
from analysis.statistics.cyclic import cyclic_share
from analysis.statistics.elo import (
    elo_from_counts,
    elo_from_games,
    engine_figures,
    normalized_elo,
    score_counts,
    score_of_elo,
)
from analysis.statistics.hierarchy.anchors import Anchor
from analysis.statistics.hierarchy.normal import normal_of
from analysis.statistics.hierarchy.posterior import lines_of, posterior
from analysis.statistics.meetings import meetings_of
from analysis.statistics.sprt import Sprt, sequential_elo
from storage.errors import Mistake
from tests.analysis.simulated_games import games_from

OF_COUNTS = {
    "elo_from_counts": lambda counts: elo_from_counts([counts]),
    "elo_from_games": lambda counts: elo_from_games(*counts),
    "normalized_elo": lambda counts: normalized_elo([counts]),
    "engine_figures": engine_figures,
    "llr": lambda counts: Sprt(0.0, 5.0).llr(counts),
    "sequential_elo": lambda counts: sequential_elo(Sprt(0.0, 5.0), counts),
}
OF_GAMES = {
    "normal_of": normal_of,
    "posterior": posterior,
    "meetings_of": meetings_of,
    "cyclic_share": lambda games: cyclic_share(games, np.random.default_rng(0), samples=2),
}


@pytest.mark.parametrize("counts", [[1, -2, 3], [1.5, 2, 3], [np.nan, 1, 2], [np.inf, 1, 2]], ids=str)
@pytest.mark.parametrize("function", OF_COUNTS)
def test_counts_that_are_no_counts_are_refused(function, counts):
    with pytest.raises(ValueError, match="expected whole numbers of 0 or more"):
        OF_COUNTS[function](counts)


@pytest.mark.parametrize("function", sorted(set(OF_COUNTS) - {"llr"}))
def test_zero_games_give_no_numbers(function):
    with pytest.raises(ValueError, match="expected at least one"):
        OF_COUNTS[function]([0, 0, 0])


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
@pytest.mark.parametrize("function", OF_GAMES)
def test_games_that_cannot_be_are_refused(function, change, message):
    games = games_from(2, **({"home": [0, 1], "away": [1, 0], "points": [1.0, 0.0]} | change))
    if not change:
        games = dataclasses.replace(games, competitors=("twin", "twin"))
    with pytest.raises(ValueError, match=message):
        OF_GAMES[function](games)


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
