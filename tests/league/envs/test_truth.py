"""Our own games beside OpenSpiel's of the same name, and beside what can be counted."""

import functools
from fractions import Fraction

import numpy as np
import pyspiel
import pytest
from open_spiel.python.observation import INFO_STATE_OBS_TYPE, make_observation

from league.envs import registry

NUM_GAMES = 10_000


def no_chance(game):
    return [[] for _ in range(game.num_slots)]


def three_stones(planes, seat):
    """OpenSpiel shows the empty cells, the second seat's stones, the first's."""
    return planes.reshape(-1, 3, 9)[:, [2, 1] if seat == 0 else [1, 2]].reshape(-1, 18)


def four_stones(planes, seat):
    """The first seat's, the second's, the empty cells, row by row from the bottom; ours go by column."""
    own_first = planes.reshape(-1, 3, 6, 7)[:, [seat, 1 - seat]]
    return own_first.transpose(0, 1, 3, 2).reshape(-1, 84)


def three_cards(game):
    return game._card.tolist()


def six_cards(game):
    """Two of each rank: a rank that was dealt before is dealt from what is left."""
    return [[2 * r + (r in ranks[:i]) for i, r in enumerate(ranks)] for ranks in game._rank.tolist()]


def ranks_and_bets(tensor, seat):
    """Seat (2), own card (6), public card (6), bets; ours shows ranks, not cards."""
    cards = tensor[:, 2:14].reshape(-1, 6, 2).sum(axis=2)
    return np.concatenate([tensor[:, :2], cards, tensor[:, 14:]], axis=1)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dealt", "translated", "recalls"),
    [
        ("tic_tac_toe", no_chance, three_stones, False),
        ("connect_four", no_chance, four_stones, False),
        ("kuhn_poker", three_cards, lambda tensor, seat: tensor, True),
        ("leduc_poker", six_cards, ranks_and_bets, True),
    ],
)
def test_ten_thousand_random_games_are_those_of_openspiel(name, dealt, translated, recalls):
    game = registry.make(name, NUM_GAMES)
    rng = np.random.default_rng(0)
    game.reset(np.arange(NUM_GAMES), np.arange(NUM_GAMES))
    theirs = pyspiel.load_game(name)
    observer = make_observation(theirs, INFO_STATE_OBS_TYPE if recalls else None)
    states = [theirs.new_initial_state() for _ in range(NUM_GAMES)]
    cards = dealt(game)
    num_ended = 0

    def deal(slot):
        while states[slot].is_chance_node():
            states[slot].apply_action(cards[slot].pop(0))

    for slot in range(NUM_GAMES):
        deal(slot)
    while game.active.any():
        (block,) = game.due()
        now = [states[slot] for slot in block.slot.tolist()]
        assert block.seat.tolist() == [state.current_player() for state in now]
        mask = np.zeros_like(block.mask)
        for row, state in enumerate(now):
            mask[row, state.legal_actions()] = True
        assert (block.mask == mask).all()
        for seat in range(2):
            seen = np.empty((len(now), len(observer.tensor)), np.float32)
            for row, state in enumerate(now):
                observer.set_from(state, seat)
                seen[row] = observer.tensor
            ours = game.observe(block.slot, np.full(len(now), seat)).reshape(len(now), -1)
            assert (ours == translated(seen, seat)).all()
        actions = (rng.random(mask.shape) * mask).argmax(axis=1)
        transition = game.step([actions])
        for slot, action in zip(block.slot.tolist(), actions.tolist(), strict=True):
            states[slot].apply_action(action)
            deal(slot)
        over = [slot for slot in block.slot.tolist() if states[slot].is_terminal()]
        assert transition.ended.tolist() == over
        returns = np.array([states[slot].returns() for slot in over]).reshape(-1, 2)
        assert (transition.rewards[over] == returns).all()
        num_ended += len(over)
    assert num_ended == NUM_GAMES


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@functools.cache
def shares(board="." * 9, mover="x"):
    """How often x wins, o wins, neither does, when every empty cell is equally likely."""
    other = "o" if mover == "x" else "x"
    if any(all(board[cell] == other for cell in line) for line in LINES):
        return (Fraction(other == "x"), Fraction(other == "o"), Fraction(0))
    empty = [cell for cell in range(9) if board[cell] == "."]
    if not empty:
        return (Fraction(0), Fraction(0), Fraction(1))
    below = [shares(board[:cell] + mover + board[cell + 1 :], other) for cell in empty]
    return tuple(sum(column) / len(empty) for column in zip(*below, strict=True))


def test_random_tic_tac_toe_ends_as_often_as_was_counted():
    exact = np.array([float(share) for share in shares()])
    assert exact.round(4).tolist() == [0.5849, 0.2881, 0.1270]
    num_games = 20_000
    game = registry.make("tic_tac_toe", num_games)
    rng = np.random.default_rng(0)
    game.reset(np.arange(num_games), np.arange(num_games))
    scores = np.zeros(num_games)
    while game.active.any():
        (block,) = game.due()
        transition = game.step([(rng.random(block.mask.shape) * block.mask).argmax(axis=1)])
        scores += transition.rewards[:, 0]
    found = np.array([(scores == value).mean() for value in (1, -1, 0)])
    assert (np.abs(found - exact) < 1.96 * np.sqrt(exact * (1 - exact) / num_games)).all()
