"""What is recorded of a match: every action, in order of time and seat, of those matches that were chosen."""

import numpy as np
import pytest

from league.envs.games.leduc_poker import LeducPoker
from league.envs.games.rock_paper_scissors import RockPaperScissors
from league.rollout.traces.transcript import Transcript, chosen, usual_share
from tests.league.rollout.conftest import Mixed

ALL = np.ones(3, dtype=np.bool_)


def play(game, transcript, rows, answer):
    """Play the matches `rows` one behind the other, as many at once as there are slots."""
    match_of = np.zeros(game.num_slots, dtype=np.int64)
    rows, free = list(rows), np.arange(game.num_slots)
    while rows or game.active.any():
        free = free[: len(rows)]
        match_of[free] = [rows.pop(0) for _ in free]
        if len(free):
            game.reset(free, match_of[free])
        blocks = game.due()
        actions = [answer(block, match_of[block.slot], game.env_steps[block.slot]) for block in blocks]
        for block, action in zip(blocks, actions, strict=True):
            transcript.decided(block, action, match_of)
        free = game.step(actions).ended


def test_actions_lie_in_order_of_time_then_seat_whatever_their_shapes():
    """Blocks come seat by seat, matches in any slot; a match's numbers lie side by side all the same."""

    def answer(block, match, time):
        if block.seat[0] == 0:
            return np.stack([match / 10, time / 100], axis=1).astype(np.float32)
        return match

    found = {}
    for num_slots in (1, 2, 5):
        game = Mixed(num_slots)
        transcript = Transcript(game, np.ones(4, dtype=np.bool_))
        play(game, transcript, range(4), answer)
        found[num_slots] = transcript.recordings()
        np.testing.assert_array_equal(found[num_slots].action, found[1].action)
    np.testing.assert_array_equal(found[1].row, range(4))
    np.testing.assert_array_equal(found[1].offset, [0, 9, 18, 27, 36])
    third = found[1].action[18:27]
    np.testing.assert_array_equal(third, np.float32([0.2, 0, 2, 0.2, 0.02, 2, 0.2, 0.04, 2]))


def test_only_chosen_matches_are_recorded():
    game = RockPaperScissors(2, rounds=2)
    transcript = Transcript(game, np.array([False, True, False, True]))
    play(game, transcript, range(4), lambda block, match, time: (match + block.seat) % 3)
    recordings = transcript.recordings()
    np.testing.assert_array_equal(recordings.row, [1, 3])
    np.testing.assert_array_equal(recordings.offset, [0, 4, 8])
    np.testing.assert_array_equal(recordings.action, [1, 2, 1, 2, 0, 1, 0, 1])


def test_illegal_actions_are_recorded_as_they_were_given():
    game = RockPaperScissors(3)
    transcript = Transcript(game, ALL)
    play(game, transcript, range(3), lambda block, match, time: np.where(block.seat == 0, 7 - 9 * match, 1))
    np.testing.assert_array_equal(transcript.recordings().action, [7, 1, -2, 1, -11, 1])
    mixed = Mixed(3)
    transcript = Transcript(mixed, ALL)
    play(
        mixed,
        transcript,
        range(3),
        lambda block, match, time: match if block.seat[0] else np.float32([[np.nan, 9]] * len(match)),
    )
    np.testing.assert_array_equal(transcript.recordings().action, [np.nan, 9, 0, np.nan, 9, 1, np.nan, 9, 2])


def test_a_match_without_any_decision_has_no_actions():
    transcript = Transcript(Mixed(1), np.array([False, True]))
    recordings = transcript.recordings()
    np.testing.assert_array_equal(recordings.row, [1])
    np.testing.assert_array_equal(recordings.offset, [0, 0])
    assert recordings.action.dtype == np.float32


def test_nothing_is_kept_where_no_match_is_chosen():
    game = RockPaperScissors(1)
    transcript = Transcript(game, np.zeros(1, dtype=np.bool_))
    play(game, transcript, range(1), lambda block, match, time: match)
    assert transcript.recordings() is None


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99, 1.0])
def test_about_a_share_of_the_matches_is_chosen_by_their_seeds(share):
    seeds = np.random.default_rng(0).integers(2**63, size=20_000)
    taken = chosen(seeds, share)
    deviation = np.sqrt(share * (1 - share) / len(seeds))
    assert abs(taken.mean() - share) <= 4 * deviation
    np.testing.assert_array_equal(chosen(seeds[::-1], share), taken[::-1])


def test_the_usual_share_is_of_the_first_matches_then_a_thousandth_then_ever_less():
    number = np.array([0, 1, -1, 8, 9, 80, 8000, 10**6, -(10**6), 10**8])
    expected = [1, 1, 1, 1, 8 / 9, 0.1, 1e-3, 1e-3, 1e-3, 1e-5]
    np.testing.assert_allclose(usual_share(number), expected)


def test_a_match_that_turned_out_too_long_is_not_recorded():
    game = RockPaperScissors(2, rounds=2)
    transcript = Transcript(game, np.ones(3, dtype=np.bool_), most=3)
    play(game, transcript, range(3), lambda block, match, time: match + 0 * block.seat)
    assert len(transcript.recordings()) == 0


@pytest.mark.slow
def test_who_is_chosen_tells_nothing_of_the_deal():
    """As many jacks, queens and kings are dealt to those recorded as to the others."""
    seeds = np.arange(30_000)
    game = LeducPoker(len(seeds))
    game.reset(seeds, seeds)
    cards = game.look(seeds, np.zeros_like(seeds))
    taken = chosen(seeds, 0.5)
    for kind in np.unique(cards, axis=0):
        dealt = (cards == kind).all(axis=1)
        assert abs(taken[dealt].mean() - 0.5) < 4 * 0.5 / np.sqrt(dealt.sum())
