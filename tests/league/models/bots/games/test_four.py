"""Bots for games of four: sensible in single positions, and better than random."""

import numpy as np
import pytest

from league.envs.games.tron import BOARD, HEAD, Tron
from league.envs.games.whist import CARDS, Whist, name_of
from league.models.bots.bot import RandomBot
from league.models.bots.games import Roomy, Thrifty
from tests.league.models.bots.games.matches import play

CARD = {name_of(card): card for card in range(CARDS)}


def thrifty_plays(hands, leader, cards):
    """What `thrifty` would play after these cards."""
    game = Whist(1)
    game.reset(np.array([0]), np.array([0]))
    for seat, hand in enumerate(hands):
        game._card[0, [CARD[name] for name in hand.split()]] = seat
    game._mover[0] = leader
    for name in cards.split():
        game.due()
        game.step([np.array([CARD[name]])])
    (block,) = game.due()
    preferred = Thrifty().preferred(block.observation, block.mask)
    return [name_of(card) for card in np.flatnonzero(preferred[0])]


HANDS = ["♥A ♥T ♥J ♦Q ♦K", "♠T ♥Q ♥K ♦T ♦J", "♠J ♠Q ♠K ♣T ♣J", "♠A ♦A ♣Q ♣K ♣A"]  # at the table 0, 2, 1, 3


@pytest.mark.parametrize(
    ("leader", "cards", "expected"),
    [
        (0, "", ["♥A"]),
        (2, "", ["♣J"]),  # trumps last
        (0, "♥A", ["♠J"]),  # the cheapest that takes it
        (0, "♥T ♠J", ["♥Q"]),  # it cannot take it, and must follow
        (0, "♥A ♣T ♥Q", ["♠A"]),
        (0, "♥T ♠J ♥Q", ["♣Q"]),  # its partner, seat 2, is ahead
        (3, "♣A ♥T ♣T", ["♠T"]),  # the only way to take it
        (1, "♥K ♠A ♥T", ["♣T"]),  # it is beaten, and gives away its lowest
    ],
)
def test_thrifty_takes_cheaply_what_is_not_its_partners(leader, cards, expected):
    assert thrifty_plays(HANDS, leader, cards) == expected


def roomy_goes(walls, heads):
    """Where seat 0 would go: from (4, 3), facing up."""
    game = Tron(1)
    game.reset(np.array([0]), np.array([0]))
    game._field[0, BOARD] = 0
    game._place[0, 0], game._facing[0, 0] = BOARD[4, 3], 0
    for seat, cell in enumerate([(4, 3), *heads]):
        game._field[0, BOARD[cell]] = HEAD + seat
    for cell in walls:
        game._field[0, BOARD[cell]] = 1
    (block,) = game.due()
    preferred = Roomy().preferred(block.observation[:1], block.mask[:1])
    return [game.action_name(0, 0, action) for action in np.flatnonzero(preferred[0])]


def test_roomy_goes_where_there_is_room():
    wall = [(row, 2) for row in range(8)] + [(3, 3)]  # the left two columns are cut off, ahead is shut
    assert roomy_goes(wall, []) == ["right"]
    pocket = [(4, 2), (2, 3), (3, 2), (3, 4)]  # one cell ahead, and no more
    assert roomy_goes(pocket, []) == ["right"]
    assert roomy_goes([(4, 2), (3, 3), (4, 4)], []) == ["left", "up", "right"]  # lost, whatever it does


def test_roomy_shuns_a_cell_that_another_may_enter():
    assert roomy_goes([(4, 2)], []) == ["up", "right"]
    assert roomy_goes([(4, 2)], [(4, 5)]) == ["up"]


@pytest.mark.slow
def test_both_are_far_better_than_random():
    random = RandomBot()
    whist = play("whist", [Thrifty(), Thrifty(), random, random], 2000)[:, 0]
    tron = play("tron", [Roomy(), random, random, random], 500)[:, 0]
    assert (whist > 0).mean() > 0.64
    assert (tron == 1).mean() > 0.9
