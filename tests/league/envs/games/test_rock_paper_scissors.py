"""Both seats act at once; the repeated form pays round by round."""

import numpy as np
import pytest

from league.envs.games.rock_paper_scissors import PAPER, ROCK, SCISSORS, RockPaperScissors

BEATS = {(ROCK, SCISSORS), (PAPER, ROCK), (SCISSORS, PAPER)}


def test_every_pair_of_actions_pays_by_the_rule():
    game = RockPaperScissors(9)
    game.reset(np.arange(9), np.arange(9))
    (block,) = game.due()
    assert block.slot.tolist() == [s for slot in range(9) for s in (slot, slot)]
    assert block.seat.tolist() == [0, 1] * 9
    pairs = [(first, second) for first in range(3) for second in range(3)]
    transition = game.step([np.array(pairs).ravel()])
    expected = [int(p in BEATS) - int(p[::-1] in BEATS) for p in pairs]
    assert transition.rewards.tolist() == [[gain, -gain] for gain in expected]
    assert transition.ended.tolist() == list(range(9))


def test_random_repeated_play_agrees_with_plain_rules():
    rounds, num_slots = 5, 200
    game = RockPaperScissors(num_slots, rounds=rounds)
    rng = np.random.default_rng(0)
    for start in range(3):
        game.reset(np.arange(num_slots), np.arange(num_slots) + start)
        previous = [None] * num_slots
        for played in range(rounds):
            (block,) = game.due()
            for row in range(len(block)):
                before, seat = previous[block.slot[row]], int(block.seat[row])
                expected = np.zeros(7, np.float32)
                if before is not None:
                    expected[before[1 - seat]] = expected[3 + before[seat]] = 1
                expected[6] = played / rounds
                assert block.observation[row].tolist() == expected.tolist()
            actions = rng.integers(0, 3, 2 * num_slots)
            transition = game.step([actions])
            previous = [tuple(pair) for pair in actions.reshape(-1, 2).tolist()]
            gains = np.array([(p in BEATS) - float(p[::-1] in BEATS) for p in previous]) / rounds
            assert np.allclose(transition.rewards, np.stack([gains, -gains], axis=1))
            assert len(transition.ended) == (num_slots if played == rounds - 1 else 0)


def test_both_seats_forfeit_when_both_act_illegally_and_neither_gains():
    game = RockPaperScissors(2)
    game.reset(np.arange(2), np.arange(2))
    game.due()
    transition = game.step([np.array([3, -1, ROCK, 7])])
    assert transition.forfeited.tolist() == [[True, True], [False, True]]
    assert transition.rewards.tolist() == [[-1.0, -1.0], [1.0, -1.0]]


@pytest.mark.parametrize("rounds", [0, -1, 1.5, "three"])
def test_rounds_that_are_no_positive_whole_number_are_refused(rounds):
    with pytest.raises(ValueError, match="rounds is"):
        RockPaperScissors(1, rounds=rounds)


def test_a_match_reads_as_what_was_played_last():
    game = RockPaperScissors(1, rounds=3)
    game.reset(np.array([0]), np.array([0]))
    assert game.render(0) == "0 of 3 rounds played\nlast: -"
    game.due()
    game.step([np.array([PAPER, ROCK])])
    assert game.render(0, 1) == "1 of 3 rounds played\nlast: seat 0 paper, seat 1 rock"
    assert [game.action_name(0, 0, action) for action in range(3)] == ["rock", "paper", "scissors"]
