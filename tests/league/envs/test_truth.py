"""Our own games beside OpenSpiel's of the same name."""

import numpy as np
import pyspiel
import pytest
from open_spiel.python.observation import INFO_STATE_OBS_TYPE, make_observation

from league.envs import registry
from tests.parameters import mostly_long


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


@pytest.mark.slow
@pytest.mark.parametrize("num_games", mostly_long([200, 10_000]))
@pytest.mark.parametrize(
    ("name", "dealt", "translated", "recalls"),
    [
        ("tic_tac_toe", no_chance, three_stones, False),
        ("connect_four", no_chance, four_stones, False),
        ("kuhn_poker", three_cards, lambda tensor, seat: tensor, True),
        ("leduc_poker", six_cards, ranks_and_bets, True),
    ],
)
def test_random_games_are_those_of_openspiel(name, dealt, translated, recalls, num_games):
    game = registry.make(name, num_games)
    rng = np.random.default_rng(0)
    game.reset(np.arange(num_games), np.arange(num_games))
    theirs = pyspiel.load_game(name)
    observer = make_observation(theirs, INFO_STATE_OBS_TYPE if recalls else None)
    states = [theirs.new_initial_state() for _ in range(num_games)]
    cards = dealt(game)
    num_ended = 0

    def deal(slot):
        while states[slot].is_chance_node():
            states[slot].apply_action(cards[slot].pop(0))

    for slot in range(num_games):
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
    assert num_ended == num_games
