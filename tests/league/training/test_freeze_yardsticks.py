"""A game that is tried before training has a yardstick without being told."""

import pytest

from league.config.loading import load
from league.envs.trial.matches import Cost
from league.training.freeze_yardsticks import with_yardstick

GAME = {"env": {"id": "tic_tac_toe"}}


def measured_on(settings):
    return [(each.bot, settings.evaluation.yardstick_games) for each in settings.evaluation.yardsticks]


@pytest.mark.parametrize(
    ("step_seconds", "expected"), [(1e-5, [("random", 256)]), (1e-3, [("random", 96)]), (1e-2, [])]
)
def test_random_is_the_yardstick_of_a_game_with_as_many_games_as_a_second_plays(step_seconds, expected):
    found = with_yardstick(load(GAME), Cost(step_seconds, 1.0, match_steps=10.0))
    assert measured_on(found) == expected


@pytest.mark.parametrize("given", [{"yardsticks": []}, {"yardsticks": ["perfect"]}], ids=str)
def test_yardsticks_that_are_given_stay_and_so_does_their_lack(given):
    settings = load({**GAME, "evaluation": given})
    assert with_yardstick(settings, Cost(1e-5, 1.0, 10.0)) is settings


def test_a_kept_run_is_measured_as_it_was():
    settings = load(load(GAME))  # as from its config.yaml, which has every key
    assert with_yardstick(settings, Cost(1e-5, 1.0, 10.0)) is settings


@pytest.mark.parametrize(
    "changes",
    [
        {"env": {"id": "recall"}, "league": {"preset": "none"}},
        {"league": {"players": {"main": 2}, "members": {"main-0": {"seats": [0]}, "main-1": {"seats": [1]}}}},
    ],
    ids=["one seat", "seats that differ"],
)
def test_a_game_in_which_seats_cannot_be_swapped_has_none(changes):
    settings = load({**GAME, **changes})
    assert with_yardstick(settings, Cost(1e-5, 1.0, 10.0)) is settings


def test_a_game_that_was_not_tried_or_did_not_end_has_none():
    settings = load(GAME)
    assert with_yardstick(settings, None) is settings
    assert with_yardstick(settings, Cost(1e-5, 1.0, None)) is settings
