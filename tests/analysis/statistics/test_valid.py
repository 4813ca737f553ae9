"""What cannot be is said in one sentence; that each function refuses it is in test_doors.py."""

import dataclasses

import numpy as np
import pytest

from analysis.solution.voting import kemeny_score
from analysis.statistics.elo import (
    elo_from_counts,
    elo_from_games,
    engine_figures,
    score_counts,
    score_of_elo,
)
from analysis.statistics.hierarchy.anchors import Anchor
from analysis.statistics.hierarchy.normal import normal_of
from analysis.statistics.hierarchy.posterior import lines_of, posterior
from analysis.statistics.sprt import Sprt
from tests.analysis.simulated_games import games_from


def two(**changes):
    """A game of each of two competitors at home, changed."""
    return games_from(2, **{"home": [0, 1], "away": [1, 0], "points": [1.0, 0.0], **changes})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: engine_figures([1, -2, 3]), "expected whole numbers of 0 or more"),
        (lambda: elo_from_games(1.5, 2, 3), "expected whole numbers of 0 or more"),
        (lambda: elo_from_counts([[0, 0, 0]]), "expected at least one"),
        (lambda: score_counts([2.0]), "expected points per game"),
        (lambda: score_of_elo(np.nan), "elo is nan"),
        (lambda: Sprt(0.0, 5.0, alpha=0.5), "expected an error rate between 0 and"),
        (lambda: Sprt(0.0, 5.0, model="bayes"), "model is 'bayes', expected one of: logistic, normalized"),
        (lambda: normal_of(two(points=[np.nan, 0.0])), "scores hold nan"),
        (lambda: normal_of(two(points=[2.0, 0.0])), "scores hold 2"),
        (lambda: normal_of(two(away=[0, 0])), "'c0' plays against itself"),
        (lambda: normal_of(two(home=[5, 1])), "a competitor beyond the 2 names"),
        (lambda: normal_of(dataclasses.replace(two(), competitors=("twin", "twin"))), "found 'twin' twice"),
        (lambda: posterior(two(), lines="near"), "lines is 'near'"),
        (lambda: posterior(two(), lines=lines_of([-1])), "lines have 1 parents"),
        (lambda: posterior(two(), lines=lines_of([-1, 2])), "a number below 2"),
        (lambda: posterior(two(), lines=lines_of([1, 0])), "go in a circle"),
        (lambda: posterior(two(), samples=0), "samples is 0"),
        (lambda: posterior(two(), anchors={"c9": Anchor()}), "anchor is 'c9'"),
        (lambda: posterior(two(), samples=10).interval(1.5), r"level is 1\.5"),
        (lambda: kemeny_score(np.zeros((3, 3)), np.array([0, 0, 1])), "expected each number below 3 once"),
        (lambda: kemeny_score(np.full((3, 3), np.nan), np.array([0, 2, 1])), "all finite"),
    ],
)
def test_what_cannot_be_is_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
