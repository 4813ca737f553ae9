"""Kuhn poker (H. W. Kuhn: A simplified two-person poker, 1950): three cards, one bet of one chip.

Both seats ante a chip and get a card: jack, queen or king. The first seat passes or bets. A bet is
folded (pass) or called (bet). After a pass, the second seat may bet. At the showdown the higher card wins.
The game's value is -1/18 of a chip for the first seat.
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

PASS, BET = 0, 1
NUM_CARDS, MAX_ACTIONS = 3, 3
CARDS = ("jack", "queen", "king")
_DEALS = chance.deals(NUM_CARDS, 2)
_CARD = np.eye(NUM_CARDS, dtype=np.int8)
_SEAT = np.eye(2, dtype=np.int8)
_ACTION = np.vstack([np.eye(2), np.zeros(2)]).astype(np.int8)  # row -1: not taken yet


class KuhnPoker(DealtGame):
    """Action: pass 0, bet 1. Rewards in chips, -2 to 2, when the match ends.

    Observation, int8: own seat (2), own card (3), the actions so far, one-hot (3 x 2). This is all that
    the seat knows, in the order of OpenSpiel's information state.
    """

    id: ClassVar[str] = "kuhn_poker"
    observation_spaces = (Box(0, 1, (2 + NUM_CARDS + 2 * MAX_ACTIONS,), np.int8),) * 2
    action_spaces = (Discrete(2),) * 2
    loss_reward = -2.0
    draw_possible = False
    score_bounds = (-2.0, 2.0)
    score_unit = 1.0  # the ante: who always passes and folds loses no more
    renders = True
    open_actions = True
    match_arrays = ("_card", "_action", "_taken")

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        self._card = np.zeros((num_slots, 2), dtype=np.int64)  # by seat
        self._action = np.full((num_slots, MAX_ACTIONS), -1, dtype=np.int64)
        self._taken = np.zeros(num_slots, dtype=np.int64)  # actions so far

    def starts(self) -> Floats:
        return np.full(len(_DEALS), 1 / len(_DEALS))

    def hands(self) -> Indices:
        return _DEALS

    def hold(self, slots: Indices, start: Indices) -> None:
        self._card[slots] = _DEALS[start]

    def _start_at(self, slots: Indices, start: Indices) -> None:
        self._deal(slots, _DEALS[start])

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._deal(slots, chance.deal(seeds, NUM_CARDS, 2))

    def _deal(self, slots: Indices, cards: Indices) -> None:
        self._card[slots] = cards
        self._action[slots] = -1
        self._taken[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._taken[slot] % 2

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        actions = _ACTION[self._action[slot]].reshape(len(slot), -1)
        return np.concatenate([_SEAT[seat], _CARD[self._card[slot, seat]], actions], axis=1)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return np.ones((len(slot), 2), dtype=np.bool_)

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        taken = self._taken[slot]
        before = np.where(taken > 0, self._action[slot, taken - 1], -1)
        self._action[slot, taken] = action
        self._taken[slot] = taken + 1
        over = (before == BET) | ((before == PASS) & (action == PASS))
        folded = (before == BET) & (action == PASS)
        stake = np.where((before == BET) & (action == BET), 2, 1)
        higher = self._card[slot, 0] > self._card[slot, 1]
        first_wins = np.where(folded, seat == 1, higher)
        gain = np.where(over, np.where(first_wins, stake, -stake), 0)
        self._rewards[slot, 0] = gain
        self._rewards[slot, 1] = -gain
        self._over[slot] = over

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the actions so far, and the card of `seat` (`None`: both cards)."""
        taken = int(self._taken[slot])
        said = [self._word(slot, n, self._action[slot, n]) for n in range(taken)]
        lines = []
        for holder, card in enumerate(self._card[slot].tolist()):
            turn = ", to play" if self.active[slot] and taken % 2 == holder else ""
            lines.append(f"seat {holder}: {CARDS[card] if seat in (None, holder) else '?'}{turn}")
        return "\n".join([*lines, f"so far: {', '.join(said) or '-'}"])

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return the table: the card of `seat` (`None`: both cards), the chips and the actions so far."""
        taken = int(self._taken[slot])
        said = [self._word(slot, n, self._action[slot, n]) for n in range(taken)]
        bets = [word in ("bet", "call") for word in said]
        chips = [1 + any(bets[holder::2]) for holder in range(2)]
        hands, words = [], []
        for holder, card in enumerate(self._card[slot].tolist()):
            face = CARDS[card] if seat in (None, holder) else None
            turn = bool(self.active[slot]) and taken % 2 == holder
            hands.append(Hand(holder, [Item(face)], turn, note=", ".join(said[holder::2])))
            words.append(f"Seat {holder} holds {face or 'a hidden card'} and has paid {chips[holder]}.")
        words.append(f"So far: {', '.join(said)}." if said else "No action so far.")
        return Tabletop(hands, " ".join(words), chips=chips)

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return "pass" or "bet"; after a bet, "fold" or "call"."""
        return self._word(slot, int(self._taken[slot]), action)

    def _word(self, slot: int, number: int, action: int) -> str:
        answers = number > 0 and self._action[slot, number - 1] == BET
        return (("fold", "call") if answers else ("pass", "bet"))[action]
