"""Leduc poker (Southey et al.: Bayes' bluff, UAI 2005): six cards, two rounds of betting.

The deck has two each of jack, queen and king. Both seats ante a chip and get a card. After the first
round of betting a public card is turned up, then the second round follows. A raise is 2 chips in the
first round and 4 in the second; a round has at most two. The first seat opens both rounds. At the
showdown a pair with the public card wins, else the higher card; equal cards share the pot.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs import chance
from league.envs.dealt import DealtGame
from league.envs.scene import Hand, Item, Tabletop
from storage.arrays import Bools, Floats, Indices

FOLD, CALL, RAISE = 0, 1, 2
RANKS, MAX_RAISES = ("jack", "queen", "king"), 2
NUM_RANKS = len(RANKS)
MAX_ACTIONS = MAX_RAISES + 2  # of one round: check, raise, raise, call
PAIR_BONUS = NUM_RANKS  # a pair is worth more than any rank
_RAISE_SIZE = np.array([2, 4])  # by round
# the ranks that can be dealt: to seat 0, to seat 1, to the table
_STARTS, _start_count = np.unique(chance.deals(2 * NUM_RANKS, 3) // 2, axis=0, return_counts=True)
_START_PROBABILITY = _start_count / _start_count.sum()
_RANK = np.vstack([np.eye(NUM_RANKS), np.zeros(NUM_RANKS)]).astype(np.int8)  # row -1: not seen yet
_SEAT = np.eye(2, dtype=np.int8)
_ACTION = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.int8)  # none yet, call, raise; a fold ends the match


class LeducPoker(DealtGame):
    """Action: fold 0 (legal only after a raise), call or check 1, raise 2. Rewards in chips, -13 to 13,
    when the match ends.

    Observation, int8: own seat (2), own rank (3), public rank (3, zeros in the first round), the
    actions of both rounds (2 x 4 x 2: call, raise): all that the seat knows. Suits have no
    effect and are not shown.
    """

    id: ClassVar[str] = "leduc_poker"
    observation_spaces = (Box(0, 1, (2 + 2 * NUM_RANKS + 2 * MAX_ACTIONS * 2,), np.int8),) * 2
    action_spaces = (Discrete(3),) * 2
    loss_reward = -13.0
    score_bounds = (-13.0, 13.0)
    score_unit = 1.0  # the ante: who always folds loses no more
    renders = True
    open_actions = True
    match_arrays = ("_rank", "_paid", "_round", "_raises", "_taken", "_action")

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        self._rank = np.zeros((num_slots, 3), dtype=np.int64)  # of seat 0, seat 1, the public card
        self._paid = np.ones((num_slots, 2), dtype=np.int64)  # chips, by seat
        self._round = np.zeros(num_slots, dtype=np.int64)
        self._raises = np.zeros(num_slots, dtype=np.int64)  # in this round
        self._taken = np.zeros(num_slots, dtype=np.int64)  # actions in this round
        self._action = np.zeros((num_slots, 2, MAX_ACTIONS), dtype=np.int64)  # indices into _ACTION

    def starts(self) -> Floats:
        return _START_PROBABILITY

    def hands(self) -> Indices:
        return _STARTS[:, :2]

    def events(self) -> Indices:
        return _STARTS[:, 2:]

    def events_shown(self, slot: Indices) -> Indices:
        return self._round[slot]

    def hold(self, slots: Indices, start: Indices) -> None:
        self._rank[slots] = _STARTS[start]

    def _start_at(self, slots: Indices, start: Indices) -> None:
        self._deal(slots, _STARTS[start])

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._deal(slots, chance.deal(seeds, 2 * NUM_RANKS, 3) // 2)

    def _deal(self, slots: Indices, ranks: Indices) -> None:
        self._rank[slots] = ranks
        self._paid[slots] = 1
        self._action[slots] = 0
        for counter in (self._round, self._raises, self._taken):
            counter[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._taken[slot] % 2

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        public = np.where(self._round[slot] == 1, self._rank[slot, 2], -1)
        actions = _ACTION[self._action[slot]].reshape(len(slot), -1)
        return np.concatenate([_SEAT[seat], _RANK[self._rank[slot, seat]], _RANK[public], actions], axis=1)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        mask = np.ones((len(slot), 3), dtype=np.bool_)
        mask[:, FOLD] = self._paid[slot, seat] < self._paid[slot, 1 - seat]
        mask[:, RAISE] = self._raises[slot] < MAX_RAISES
        return mask

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        betting_round, taken = self._round[slot], self._taken[slot]
        folded, called, raised = action == FOLD, action == CALL, action == RAISE
        opponent_paid = self._paid[slot, 1 - seat]
        to_pay = np.where(raised, opponent_paid + _RAISE_SIZE[betting_round], opponent_paid)
        self._paid[slot, seat] = np.where(folded, self._paid[slot, seat], to_pay)
        self._raises[slot] += raised
        self._action[slot, betting_round, taken] = np.where(folded, 0, action)
        self._taken[slot] = taken + 1
        closed = called & (taken > 0)  # a call of the first action is a check, and the round goes on
        next_round = slot[closed & (betting_round == 0)]
        self._round[next_round] = 1
        self._raises[next_round] = 0
        self._taken[next_round] = 0
        showdown = closed & (betting_round == 1)
        self._finish(slot[folded], np.where(seat[folded] == 1, 1, -1))
        self._finish(slot[showdown], self._compare(slot[showdown]))

    def _compare(self, slot: Indices) -> Indices:
        """Return 1 where seat 0 holds the better hand, -1 where seat 1 does, 0 where they are equal."""
        own, public = self._rank[slot, :2], self._rank[slot, 2:]
        strength = own + PAIR_BONUS * (own == public)
        return np.sign(strength[:, 0] - strength[:, 1])

    def _finish(self, slot: Indices, winner: Indices) -> None:
        """End these matches; seat 0 gains what seat 1 paid (winner 1), or loses what it paid (-1)."""
        gain = np.where(winner > 0, self._paid[slot, 1], -self._paid[slot, 0]) * (winner != 0)
        self._rewards[slot, 0] = gain
        self._rewards[slot, 1] = -gain
        self._over[slot] = True

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return actions and chips so far, the public card, and the card of `seat` (`None`: both cards)."""
        last = int(self._round[slot])
        lines = [f"public: {RANKS[self._rank[slot, 2]] if last == 1 else '-'}"]
        for holder, paid in enumerate(self._paid[slot].tolist()):
            card = RANKS[self._rank[slot, holder]] if seat in (None, holder) else "?"
            turn = ", to play" if self.active[slot] and self._taken[slot] % 2 == holder else ""
            lines.append(f"seat {holder}: {card}, paid {paid}{turn}")
        return "\n".join([*lines, *self._rounds(slot)])

    def _rounds(self, slot: int) -> list[str]:
        """Return the actions of each round so far, such as "round 1: check, raise"."""
        lines = []
        for number in range(int(self._round[slot]) + 1):
            said = self._action[slot, number].tolist()
            words = [
                "raise" if a == RAISE else self._call(RAISE in said[:n]) for n, a in enumerate(said) if a
            ]
            lines.append(f"round {number + 1}: {', '.join(words) or '-'}")
        return lines

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return the table: chips, the public card, and the card of `seat` (`None`: both cards)."""
        public = RANKS[self._rank[slot, 2]] if self._round[slot] == 1 else None
        chips, hands, words = self._paid[slot].tolist(), [], []
        for holder, paid in enumerate(chips):
            face = RANKS[self._rank[slot, holder]] if seat in (None, holder) else None
            turn = bool(self.active[slot]) and int(self._taken[slot]) % 2 == holder
            hands.append(Hand(holder, [Item(face, marked=face is not None and face == public)], turn))
            words.append(f"Seat {holder} holds {face or 'a hidden card'} and has paid {paid}.")
        words.append(f"The public card is {public}." if public else "No public card yet.")
        rounds = self._rounds(slot)
        middle = [] if public is None else [Item(public)]
        return Tabletop(hands, " ".join([*words, "; ".join(rounds)]), middle, chips, rounds)

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return "fold", "call" ("check" if there is nothing to call) or "raise"."""
        to_call = bool(self._paid[slot, seat] < self._paid[slot, 1 - seat])
        return ("fold", self._call(to_call), "raise")[action]

    @staticmethod
    def _call(raised: bool) -> str:
        return "call" if raised else "check"
