"""A game has the mirrors that it has, and no others: a check of a config."""

import numpy as np

from league.config import loading
from league.config.loading import is_mirrored
from league.models.torsos import Mirror

FOUR = Mirror(observation=(2, 7, 6), axis=1, actions=(7,))
TOE = Mirror(observation=(2, 3, 3), axis=2, actions=(3, 3), action_axis=1)


def test_a_game_has_its_mirror_and_no_other():
    assert is_mirrored("connect_four", {}, FOUR.observation_order, FOUR.action_order)
    assert is_mirrored("tic_tac_toe", {}, TOE.observation_order, TOE.action_order)
    upside_down = Mirror(observation=(2, 7, 6), axis=2, actions=(7,))
    assert not is_mirrored("connect_four", {}, upside_down.observation_order, upside_down.action_order)
    assert not is_mirrored("connect_four", {}, FOUR.observation_order, np.arange(7))


def test_matches_longer_than_is_looked_at_are_no_reason_against_a_mirror(monkeypatch):
    monkeypatch.setattr(loading, "MOST_STEPS", 5)
    assert is_mirrored("connect_four", {}, FOUR.observation_order, FOUR.action_order)
