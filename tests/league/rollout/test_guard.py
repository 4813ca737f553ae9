"""A game that raises, or answers what cannot be used, ends matches as crashes; the others go on."""

import sys
import time

import numpy as np
import pytest

from league.envs.games.tic_tac_toe import TicTacToe
from league.rollout.guard import Guard, Patience, PlayStopped
from storage.records import EndReason


class Odd(TicTacToe):
    """Goes wrong in the way, and in the slots, that a test sets."""

    wrong, slots = "", (1,)

    def observe(self, slot, seat):
        seen = super().observe(slot, seat)
        if self.wrong == "unseen":
            seen = seen.astype(np.float32)
            seen[np.isin(slot, self.slots), 0, 0, 0] = np.nan
        return seen[:, :1] if self.wrong == "narrow" else seen

    def legal(self, slot, seat):
        mask = super().legal(slot, seat)
        if self.wrong == "mask":
            mask[np.isin(slot, self.slots)] = False
        return mask[:, :8] if self.wrong == "short" else mask

    def _play(self, slot, seat, action):
        if self.wrong == "raises":
            raise RuntimeError("no board")
        super()._play(slot, seat, action)
        if self.wrong == "nan":
            self._rewards[list(self.slots), 0] = np.nan

    def _reset(self, slots, seeds):
        if self.wrong == "reset":
            raise RuntimeError("no cards")
        if self.wrong == "exits":
            sys.exit(0)
        super()._reset(slots, seeds)

    def _turn(self):
        slot, seat = super()._turn()
        return (slot[:0], seat[:0]) if self.wrong == "turn" else (slot, seat)


def begun(num_slots=3):
    game = Odd(num_slots)
    guard = Guard(game)
    guard.reset(np.arange(num_slots), np.arange(num_slots))
    return game, guard


def played(guard):
    blocks = guard.due()
    return guard.step(blocks, [block.mask.argmax(axis=1) for block in blocks])


def test_an_error_of_a_step_ends_all_matches_and_names_its_line():
    game, guard = begun()
    game.wrong = "raises"
    end = played(guard)
    assert end.ended.tolist() == [0, 1, 2]
    assert (end.reason == EndReason.CRASH).all()
    assert not end.truncated.any()
    assert not end.rewards.any()
    assert not guard.playing
    ((cause, count),) = guard.take_crashes().items()
    assert count == 3
    assert cause.startswith("seat 0: RuntimeError: no board (")
    assert "test_guard.py, line 34, in _play" in cause
    assert guard.take_crashes() == {}


def test_a_reward_that_is_no_number_ends_its_match_alone():
    game, guard = begun()
    game.wrong = "nan"
    end = played(guard)
    assert end.ended.tolist() == [1]
    assert end.reason.tolist() == [EndReason.CRASH]
    assert not end.rewards.any()
    assert game.active.tolist() == [True, False, True]
    (cause,) = guard.take_crashes()
    assert "seat 0: its reward is nan, expected a finite number" in cause


@pytest.mark.parametrize(
    ("wrong", "said", "method"),
    [
        ("mask", "seat 0: it must act, and its mask has no legal action", "legal"),
        ("unseen", "seat 0: an observation holds nan, expected numbers", "observe"),
    ],
)
def test_a_decision_that_cannot_be_taken_ends_its_match_alone(wrong, said, method):
    game, guard = begun()
    game.wrong = wrong
    (block,) = guard.due()
    assert block.slot.tolist() == [0, 2]
    end = guard.step([block], [np.array([0, 0])])
    assert end.ended.tolist() == [1]
    (cause,) = guard.take_crashes()
    assert said in cause
    assert f"in {method})" in cause


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("turn", "no seat has a turn"),
        ("reset", "no cards"),
        ("exits", "SystemExit: 0 ("),
        ("narrow", "shaped (3, 1, 3, 3)"),
        ("short", "shaped (3, 8)"),
    ],
)
def test_matches_in_which_nothing_can_happen_end(wrong, said):
    game, guard = begun()
    game.wrong = wrong
    guard.reset(np.array([2]), np.array([7]))
    end = played(guard)
    assert end.ended.tolist() == [0, 1, 2]
    (cause,) = guard.take_crashes()
    assert said in cause


def test_a_slot_that_crashed_plays_the_next_match():
    game, guard = begun()
    game.wrong = "raises"
    played(guard)
    game.wrong = ""
    guard.reset(np.array([0]), np.array([5]))
    while guard.playing:
        end = played(guard)
    assert end.reason.tolist() == [EndReason.FINISHED]


def test_whole_matches_are_left_some_time_after_the_run_is_over_and_fragments_end_there(monkeypatch):
    monkeypatch.setattr("league.rollout.guard.GRACE_SECONDS", 0.0)
    patience = Patience(lambda steps: steps > 3)
    assert [patience.ended(cut=True) for _ in range(4)] == [False, False, False, True]
    assert not patience.ended(cut=False)  # which begins the time of grace
    time.sleep(0.001)
    with pytest.raises(PlayStopped):
        patience.ended(cut=False)
