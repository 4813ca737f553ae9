"""A batched game of thirty lines, and games that break it in one way each."""

import sys

import numpy as np
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame

GOAL = 8


class Rush(BatchedGame):
    """Two seats count in turns, by one to three; who reaches the goal wins."""

    id = "rush"
    num_seats = 2
    observation_spaces = (Box(0, GOAL + 2, (2,), np.float32),) * 2
    action_spaces = (Discrete(3),) * 2

    def __init__(self, num_slots, *, step_limit=None):
        super().__init__(num_slots, step_limit=step_limit)
        self.count = np.zeros(num_slots, np.int64)
        self.mover = np.zeros(num_slots, np.int64)

    def _reset(self, slots, seeds):
        self.count[slots] = 0
        self.mover[slots] = 0

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return slot, self.mover[slot]

    def observe(self, slot, seat):
        return np.stack([self.count[slot], seat], axis=1).astype(np.float32)

    def legal(self, slot, seat):
        return np.ones((len(slot), 3), np.bool_)

    def _play(self, slot, seat, action):
        self.count[slot] += action + 1
        self.mover[slot] = 1 - seat
        won = self.count[slot] >= GOAL
        self._rewards[slot[won], seat[won]] = 1.0
        self._rewards[slot[won], 1 - seat[won]] = -1.0
        self._over[slot[won]] = True


class ObservesOneRow(Rush):
    def observe(self, slot, seat):
        return np.array([self.count[slot[0]], seat[0]], np.float32)


class ObservesDoubles(Rush):
    def observe(self, slot, seat):
        return super().observe(slot, seat).astype(np.float64)


class ObservesLists(Rush):
    def observe(self, slot, seat):
        return super().observe(slot, seat).tolist()


class ObservesOutside(Rush):
    def observe(self, slot, seat):
        return super().observe(slot, seat) + np.where(seat == 1, 100, 0)[:, None].astype(np.float32)


class ObservesNaN(Rush):
    def observe(self, slot, seat):
        return np.where(seat[:, None] == 1, np.nan, super().observe(slot, seat)).astype(np.float32)


class ObserveRaises(Rush):
    def observe(self, slot, seat):
        return self.board[slot]


class MaskTooNarrow(Rush):
    def legal(self, slot, seat):
        return np.ones((len(slot), 2), np.bool_)


class MaskOfNumbers(Rush):
    def legal(self, slot, seat):
        return np.ones((len(slot), 3), np.int8)


class MaskIsEmptyForOneSeat(Rush):
    def legal(self, slot, seat):
        return super().legal(slot, seat) & (seat == 0)[:, None]


class LegalRaises(Rush):
    def legal(self, slot, seat):
        raise RuntimeError("which moves?")


class PaysNaN(Rush):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards[slot, 1] = np.nan


class PaysInAnotherShape(Rush):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards = np.zeros(self.num_slots, np.float32)


class PaysNothing(Rush):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._rewards[:] = 0


class NeverEnds(Rush):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        self._over[:] = False
        self.count[slot] %= GOAL


class AsksNobody(Rush):
    def _turn(self):
        slot, seat = super()._turn()
        going = self.count[slot] < 5
        return slot[going], seat[going]


class AsksASeatTooMany(Rush):
    def _turn(self):
        slot, seat = super()._turn()
        return slot, seat + 2


class AsksOneNumber(Rush):
    def _turn(self):
        return super()._turn()[0]


class AsksInFloats(Rush):
    def _turn(self):
        slot, seat = super()._turn()
        return slot, seat.astype(np.float32)


class AsksTheDead(Rush):
    def _turn(self):
        return np.arange(self.num_slots), self.mover


class AsksBackwards(Rush):
    def _turn(self):
        return np.zeros(2, np.int64), np.array([1, 0])


class ResetRaises(Rush):
    def _reset(self, slots, seeds):
        raise KeyError("deck")


class PlayRaises(Rush):
    def _play(self, slot, seat, action):
        raise ZeroDivisionError("division by zero")


class PlayRaisesAtTheThird(Rush):
    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        if (self.env_steps[slot] >= 3).any():
            raise IndexError("list index out of range")


class PlayExits(Rush):
    def _play(self, slot, seat, action):
        sys.exit()


class PlayRaisesSeldom(Rush):
    def _reset(self, slots, seeds):
        super()._reset(slots, seeds)
        self.ill = bool((seeds == 250).any())

    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        if self.ill:
            raise IndexError("the 250th match")


class PlaysOneSlot(Rush):
    def _play(self, slot, seat, action):
        if action > 1:
            action = np.minimum(action, 1)
        super()._play(slot, seat, action)


class ForgetsItsBase(Rush):
    def __init__(self, num_slots, *, step_limit=None):
        self.num_slots = num_slots


class MakingRaises(Rush):
    def __init__(self, num_slots, *, step_limit=None):
        super().__init__(int("two"), step_limit=step_limit)


class HasNoLimit(Rush):
    def __init__(self, num_slots):
        super().__init__(num_slots)


class HasNoSpaces(BatchedGame):
    id = "no spaces"
    num_seats = 2
    observe = Rush.observe
    legal = Rush.legal
    _reset = Rush._reset
    _turn = Rush._turn
    _play = Rush._play


class ForgetsAMethod(BatchedGame):
    id = "forgets"
    num_seats = 2
    observation_spaces = Rush.observation_spaces
    action_spaces = Rush.action_spaces
    _reset = Rush._reset
    _turn = Rush._turn
    _play = Rush._play


FAULTS = {
    ObservesOneRow: "seat 0: observations are shaped (2,), expected (1, 2)",
    ObservesDoubles: "seat 0: observations are float64, expected float32",
    ObservesLists: "seat 0: observations are list, expected an array",
    ObservesOutside: "seat 1: an observation holds 101, outside of its space, which goes from 0 to 10",
    ObservesNaN: "seat 1: an observation holds nan",
    ObserveRaises: "seat 0: AttributeError: 'ObserveRaises' object has no attribute 'board'",
    MaskTooNarrow: "seat 0: masks are shaped (1, 2), expected (1, 3)",
    MaskOfNumbers: "seat 0: masks are int8, expected bool",
    MaskIsEmptyForOneSeat: "seat 1: it must act, and its mask has no legal action",
    LegalRaises: "seat 0: RuntimeError: which moves?",
    PaysNaN: "seat 1: its reward is nan, expected a finite number",
    PaysInAnotherShape: "rewards are shaped (1,), expected (1, 2)",
    PaysNothing: "no seat got a reward in 20",
    NeverEnds: "no match ends: one goes on after 800 decisions",
    AsksNobody: "a match is active, but no seat has a turn",
    AsksASeatTooMany: "a decision is due of seat 2, but there are 2, from 0",
    AsksOneNumber: "ValueError: _turn returned array([0]), expected two arrays: slots and seats",
    AsksInFloats: "expected whole numbers [n] and [n]",
    AsksTheDead: "a decision is due in a match that is over",
    AsksBackwards: "decisions are not ordered by slot, then seat",
    ResetRaises: "KeyError: 'deck', in its reset",
    PlayRaises: "seat 0: ZeroDivisionError: division by zero, in its step",
    PlayRaisesAtTheThird: "seat 0: IndexError: list index out of range, in its step",
    PlayExits: "seat 0: SystemExit, in its step",
    PlayRaisesSeldom: "IndexError: the 250th match",
    PlaysOneSlot: "ValueError: The truth value of an array",
}
UNMADE = {
    ForgetsItsBase: "AttributeError: its __init__ does not call that of BatchedGame",
    MakingRaises: "with options {}: ValueError: invalid literal for int() with base 10: 'two'",
    HasNoSpaces: "AttributeError: 'HasNoSpaces' object has no attribute 'observation_spaces'",
    ForgetsAMethod: "TypeError: Can't instantiate abstract class ForgetsAMethod",
}
