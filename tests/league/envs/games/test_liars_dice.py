"""Liar's dice beside OpenSpiel's, and lines worked out by hand."""

import numpy as np
import pyspiel
import pytest

from league.envs import registry
from league.envs.games.liars_dice import LiarsDice
from league.envs.registry import BadOption


@pytest.mark.parametrize(("dice", "faces"), [(1, 6), (2, 5), (3, 2)])
def test_the_same_rolls_and_random_actions_come_out_as_in_openspiel(dice, faces):
    num_games = 1000
    game = registry.make("liars_dice", num_games, dice=dice, faces=faces)
    theirs = pyspiel.load_game(f"liars_dice(numdice={dice},dice_sides={faces})")
    rng, slots = np.random.default_rng(0), np.arange(num_games)
    game.reset(slots, slots)
    states = [theirs.new_initial_state() for _ in slots]
    for state, counts in zip(states, game._dice, strict=True):
        for roll in (face for own in counts for face, n in enumerate(own) for _ in range(n)):
            state.apply_action(int(roll))
    ended, made = 0, np.zeros((num_games, 2, game.num_bids + 1), dtype=int)  # the last is the call
    while game.active.any():
        (due,) = game.due()
        for seat in (0, 1):
            turn = np.tile([int(seat == 0), int(seat == 1)], (len(due), 1))
            bids = (made[due.slot, which, :-1] for which in (seat, 1 - seat))
            seen = np.concatenate([turn, game._dice[due.slot, seat], *bids], axis=1)
            assert (game.observe(due.slot, np.full(len(due), seat)) == seen).all()
        actions = (rng.random(due.mask.shape) * due.mask).argmax(axis=1)
        for slot, seat, mask in zip(due.slot, due.seat, due.mask, strict=True):
            assert seat == states[slot].current_player()
            assert np.flatnonzero(mask).tolist() == states[slot].legal_actions()
        rows = zip(due.slot.tolist(), due.seat.tolist(), actions.tolist(), strict=True)
        for slot, seat, action in rows:
            word = states[slot].action_to_string(action)
            said = "liar" if word == "Liar" else word.replace("-", " x ")
            assert game.action_name(slot, seat, action) == said
            states[slot].apply_action(action)
            made[slot, seat, action] = 1
        transition = game.step([actions])
        for slot in transition.ended:
            assert transition.rewards[slot].tolist() == states[slot].returns()
            ended += 1
        assert [slot for slot in due.slot if states[slot].is_terminal()] == transition.ended.tolist()
    assert ended == num_games


def rolled(first, second, faces=6):
    """The number of the start in which the seats hold these faces, from 1 on."""
    game = LiarsDice(1, dice=len(first), faces=faces)
    for start in range(len(game.hands())):
        game.start_at(np.array([0]), np.array([start]))
        held = [np.repeat(np.arange(faces) + 1, own).tolist() for own in game._dice[0]]
        if held == [sorted(first), sorted(second)]:
            return start
    raise AssertionError((first, second))


def bid(quantity, face, faces=6):
    return (quantity - 1) * faces + face - 1


@pytest.mark.parametrize(
    ("first", "second", "bids", "gain"),
    [
        ([3], [3], [(1, 3)], 1),  # seat 1 calls a true bid
        ([3], [2], [(1, 4)], -1),
        ([3], [6], [(2, 3)], 1),  # the six is wild
        ([6], [6], [(1, 1), (2, 5)], -1),  # seat 0 calls: two wild dice hold any two
        ([3], [3], [(2, 6)], -1),  # but nothing else counts as a six
        ([3, 3], [6, 1], [(1, 2), (3, 3)], -1),
        ([3, 3], [2, 1], [(1, 2), (3, 3)], 1),
    ],
)
def test_a_call_pays_what_was_worked_out_by_hand(first, second, bids, gain):
    game = LiarsDice(1, dice=len(first))
    game.start_at(np.array([0]), np.array([rolled(first, second)]))
    for action in [*(bid(*made) for made in bids), game.num_bids]:
        game.due()
        rewards = game.step([np.array([action])]).rewards[0].tolist()
    assert rewards == [gain, -gain]


def test_starts_are_as_likely_as_dice_fall():
    n = 60_000
    game = LiarsDice(n, dice=2, faces=3)
    game.reset(np.arange(n), np.arange(n))
    started = LiarsDice(36, dice=2, faces=3)
    started.start_at(np.arange(36), np.arange(36))
    begun = [tuple(row) for row in started._dice.reshape(36, -1).tolist()]
    assert len(set(begun)) == 36
    codes = game._dice.reshape(n, -1) @ (3 ** np.arange(6))
    known = np.array(begun) @ (3 ** np.arange(6))
    share = (codes[:, None] == known).mean(axis=0)
    assert started.starts().sum() == pytest.approx(1.0)
    assert share == pytest.approx(started.starts(), abs=5 * np.sqrt(4 / 81 / n))


def test_hands_that_are_held_leave_the_bids_as_they_are():
    game = LiarsDice(2, dice=2, faces=4)
    game.start_at(np.arange(2), np.array([7, 7]))
    game.due()
    game.step([np.array([5, 5])])
    game.hold(np.array([1]), np.array([42]))
    assert game.hands()[42].tolist() == [4, 2]
    assert (game._seen[0, :, 6:] == game._seen[1, :, 6:]).all()
    assert (game._dice[0] != game._dice[1]).any()


def test_too_many_starts_are_not_listed():
    assert LiarsDice(1, dice=10).starts() is None
    assert len(LiarsDice(1, dice=2, faces=5).starts()) == 225


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dice": 0}, "dice is 0, expected a whole number from 1 to 20"),
        ({"faces": 1}, "faces is 1, expected a whole number from 2 to 20"),
        ({"faces": 2.5}, "faces is 2.5, expected"),
        ({"dice": True}, "dice is True, expected"),
    ],
)
def test_impossible_dice_are_refused(options, message):
    with pytest.raises(BadOption, match=message):
        registry.make("liars_dice", 1, **options)


def test_a_match_reads_as_at_a_table():
    game = LiarsDice(1, dice=2)
    game.start_at(np.array([0]), np.array([rolled([3, 5], [6, 1])]))
    for action in (bid(1, 3), bid(2, 5)):
        game.due()
        game.step([np.array([action])])
    assert game.render(0, 0).splitlines() == ["seat 0: 3 5, to play", "seat 1: ? ?", "bids: 1 x 3, 2 x 5"]
    assert game.render(0).splitlines()[1] == "seat 1: 1 6"
    assert game.action_name(0, 0, game.num_bids) == "liar"
