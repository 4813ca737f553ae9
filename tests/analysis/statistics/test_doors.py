"""Every public function of the statistics refuses at its door what is no number, or has the wrong length.

`DOORS` has for each a call that is right, and what is wrong in each argument. The last test keeps it whole.
"""

from __future__ import annotations

import dataclasses
import inspect
import math

import numpy as np
import pytest

import analysis.solution as solution
from analysis.statistics import cyclic, elo, games, meetings, seeds, sprt
from analysis.statistics.davidson import fit, plain_cells
from analysis.statistics.hierarchy.anchors import Anchor
from analysis.statistics.hierarchy.normal import normal_of
from analysis.statistics.hierarchy.posterior import lines_of, posterior
from tests.analysis.simulated_games import games_from

NAN, INF = math.nan, math.inf
NONE = (NAN, INF, -INF)
CIRCLE = np.array([[0.0, 1.0, -1.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0]])
THIRDS = np.full(3, 1.0 / 3.0)
SCORES = np.linspace(0.1, 0.9, 8)
CELLS = plain_cells(np.array([0, 1]), np.array([1, 2]), np.ones(2), np.array([1.0, 0.0]), 3)


def holding(values, *wrong):
    """Copies of `values`, each with one of `wrong` in a place drawn at random."""
    rng = np.random.default_rng(0)
    found = []
    for value in wrong:
        copy = np.array(values, dtype=np.float64)
        copy.flat[rng.integers(copy.size)] = value
        found.append(copy)
    return found


MATRICES = [*holding(CIRCLE, *NONE, 7.0), CIRCLE[:2], CIRCLE[0], CIRCLE + 1.0]
COUNTS = [*holding([3, 4, 5], *NONE, -1, 0.5), [0, 0, 0], [3], [], 3]
GAMES = [games_from(2, home=[0, 1], away=[1, 0], points=[value, 0.0]) for value in (*NONE, -1.0, 2.0)]
GAMES += [games_from(2, home=home, away=[0, 0], points=[1.0, 0.0]) for home in ([0, 1], [5, 1])]
GAMES += [dataclasses.replace(games_from(2, [0, 1], [1, 0], [1.0, 0.0]), competitors=("twin", "twin"))]
MATCHES = games_from(3, home=[0, 1, 2, 0], away=[1, 2, 0, 1], points=[1.0, 0.5, 0.5, 0.0])
RNG = np.random.default_rng(0)
RATES = [*NONE, -1.0, 2.0]
WHOLE = [0, -1, 0.5, *NONE]

DOORS = {
    elo.elo_of_score: ({"score": 0.5}, {"score": [*NONE, -0.1, 1.1]}),
    elo.score_of_elo: ({"elo": 10.0}, {"elo": [NAN]}),
    elo.elo_from_pairs: ({"pair_scores": SCORES}, {"pair_scores": [*holding(SCORES, *NONE, -1, 2), []]}),
    elo.elo_from_games: (
        {"wins": 3, "draws": 2, "losses": 1},
        {name: [*NONE, -1, 0.5] for name in ("wins", "draws", "losses")},
    ),
    elo.elo_from_counts: ({"counts": [3, 4, 5]}, {"counts": COUNTS}),
    elo.normalized_elo: ({"counts": [3, 4, 5]}, {"counts": COUNTS}),
    elo.engine_figures: ({"counts": [3, 4, 5]}, {"counts": [*COUNTS, [[3, 4, 5]]]}),
    elo.score_counts: (
        {"pair_scores": [0.5, 1.0], "games": 2},
        {"pair_scores": holding([0.5, 1.0], *NONE, -1, 2), "games": WHOLE},
    ),
    elo.wilson: ({"share": 0.5, "n": 10}, {"share": [*NONE, -0.1, 1.1], "n": [*NONE, 0, -1]}),
    sprt.Sprt: (
        {"elo0": 0.0, "elo1": 5.0, "alpha": 0.05, "beta": 0.05, "model": "logistic"},
        {"elo0": [*NONE, 6.0], "elo1": [*NONE, -1.0], "model": ["probit"]}
        | {name: [*RATES, 0.0, 0.5, 1.0] for name in ("alpha", "beta")},
    ),
    sprt.Sprt.llr: ({"self": sprt.Sprt(0.0, 5.0), "counts": [3, 4, 5]}, {"counts": COUNTS[:5]}),
    sprt.Sprt.decide: ({"self": sprt.Sprt(0.0, 5.0), "llr": 5.0}, {"llr": [NAN]}),
    sprt.sequential_elo: (
        {"sprt": sprt.Sprt(0.0, 5.0), "counts": [3, 4, 5]},
        {"counts": [*COUNTS, [[3, 4, 5]]]},
    ),
    seeds.aggregate: (
        {"scores": SCORES, "level": 0.95},
        {"scores": [*holding(SCORES, *NONE), [], 1.0], "level": RATES},
    ),
    seeds.interquartile_mean: ({"scores": SCORES}, {"scores": [*holding(SCORES, *NONE), []]}),
    seeds.difference: (
        {"a": SCORES, "b": SCORES, "level": 0.95},
        {name: [*holding(SCORES, *NONE), [], 1.0, [SCORES]] for name in "ab"} | {"level": RATES},
    ),
    games.games_per_pair: ({"num_teams": 2}, {"num_teams": WHOLE}),
    meetings.meetings_of: ({"games": MATCHES}, {"games": GAMES}),
    cyclic.cyclic_share: (
        {"games": MATCHES, "rng": RNG, "samples": 2},
        {"games": GAMES, "samples": WHOLE},
    ),
    normal_of: ({"games": MATCHES}, {"games": GAMES}),
    posterior: (
        {"games": MATCHES, "samples": 4},
        {
            "games": GAMES,
            "samples": [0, -1],
            "anchors": [{"nobody": Anchor()}],
            "lines": ["none", lines_of([-1, 0])],
        },
    ),
    plain_cells: (
        {
            "home": np.array([0, 1]),
            "away": np.array([1, 2]),
            "games": np.ones(2),
            "points": np.array([1.0, 0.0]),
            "num_competitors": 3,
        },
        {
            "home": [np.array([0, 3]), np.array([0, -1]), np.array([0])],
            "away": [np.array([0, 3]), np.array([0, -1]), np.array([0])],
            "games": [*holding(np.ones(2), *NONE, -1.0), np.ones(3)],
            "points": [*holding(np.ones(2), *NONE, -1.0, 2.0), np.ones(3)],
            "num_competitors": [2],
        },
    ),
    fit: ({"cells": CELLS, "prior_games": 1.0}, {"prior_games": [*NONE, -1.0]}),
    solution.alpha_rank: (
        {"payoff": CIRCLE, "alpha": 10.0, "population": 50, "epsilon": 1e-9},
        {
            "payoff": [*holding(CIRCLE, *NONE), CIRCLE[:2], CIRCLE[0]],
            "alpha": [NAN, -1.0],
            "population": [*WHOLE, 1],
            "epsilon": RATES,
        },
    ),
    solution.projected_replicator: (
        {"payoff": CIRCLE, "exploration": 0.01, "steps": 5, "rate": 0.1},
        {"payoff": MATRICES, "exploration": RATES, "steps": WHOLE, "rate": [*NONE, 0.0, -1.0]},
    ),
    solution.best_response_gain: (
        {"payoff": CIRCLE, "mixture": THIRDS},
        {
            "payoff": [*holding(CIRCLE, *NONE), CIRCLE[0]],
            "mixture": [*holding(THIRDS, *NONE, -1.0, 1.0), THIRDS[:2], np.full(4, 0.25)],
        },
    ),
    solution.zero_sum_nash: ({"payoff": CIRCLE}, {"payoff": [*holding(CIRCLE, *NONE), CIRCLE[0]]}),
    solution.nash_averaging_on_tasks: ({"scores": CIRCLE}, {"scores": [*holding(CIRCLE, *NONE), CIRCLE[0]]}),
    **{
        function: ({"payoff": CIRCLE}, {"payoff": MATRICES})
        for function in (
            *(solution.effective_diversity, solution.max_entropy_nash, solution.nash_averaging),
            *(solution.nash_clusters, solution.unexplained_share),
        )
    },
    solution.split: ({"payoff": CIRCLE}, {"payoff": [*MATRICES, 7.0 * CIRCLE]}),
    solution.schur: ({"matrix": CIRCLE, "planes": 1}, {"matrix": MATRICES, "planes": WHOLE[1:]}),
    solution.kemeny: ({"margins": CIRCLE, "exact_up_to": 5}, {"margins": MATRICES, "exact_up_to": WHOLE[1:]}),
    solution.scores_of_firsts: (
        {"margins": CIRCLE, "exact_up_to": 5},
        {"margins": MATRICES, "exact_up_to": WHOLE[1:]},
    ),
    solution.kemeny_score: (
        {"margins": CIRCLE, "order": [0, 1, 2]},
        {
            "margins": [*holding(CIRCLE, *NONE), CIRCLE[:2], CIRCLE[0]],
            "order": [[0, 1], [0, 1, 1], [0, 1, 2, 3], [0, 1, -1], [0, 1, NAN]],
        },
    ),
    solution.with_interval: (
        {
            "payoffs": solution.Payoffs.from_games(MATCHES),
            "concept": np.mean,
            "rng": RNG,
            "samples": 2,
            "level": 0.9,
        },
        {"samples": WHOLE, "level": [*RATES, 0.0, 1.0]},
    ),
}
WRONG = [
    pytest.param(function, name, value, id=f"{function.__qualname__}-{name}-{number}")
    for function, (_, wrong) in DOORS.items()
    for name, values in wrong.items()
    for number, value in enumerate(values)
]


@pytest.mark.parametrize("function", DOORS, ids=lambda function: function.__qualname__)
def test_what_is_right_is_answered(function):
    right, _ = DOORS[function]
    assert function(**right) is not None


@pytest.mark.parametrize(("function", "name", "value"), WRONG)
def test_what_is_wrong_in_one_argument_is_one_value_error(function, name, value):
    right, _ = DOORS[function]
    with pytest.raises(ValueError, match=r"\w"):
        function(**right | {name: value})


@pytest.mark.parametrize("function", DOORS, ids=lambda function: function.__qualname__)
def test_what_is_no_array_of_numbers_is_one_value_error(function):
    right, _ = DOORS[function]
    for name in (name for name, value in right.items() if isinstance(value, (list, np.ndarray))):
        for value in ("words", [[1.0, 2.0], [3.0]], np.full((3, 3), NAN), [INF, 1.0], np.zeros((3, 0)), [[]]):
            with pytest.raises(ValueError, match=r"\w"):
                function(**right | {name: value})


def test_no_public_function_is_left_out():
    made_of_results = {
        "games_of",
        "tally",
        "pair_scores",
        "numbered",
        "dense",
        "firsts",
        "of_those_who_played",
    }
    made_of_names = {"circle_of"}
    public = {
        function
        for module in (elo, sprt, seeds, games, meetings, cyclic)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    public |= {getattr(solution, name) for name in solution.__all__}
    left = {each.__name__ for each in public if inspect.isfunction(each) and each not in DOORS}
    assert left <= made_of_results | made_of_names
