"""Liar's dice for two: bids on the dice of both seats, of which each sees only its own.

Both seats roll `dice` dice with `faces` faces. A bid is a quantity and a face: at least so many of all dice
show that face. The highest face is wild and counts for every other. The seats bid in turns, each bid higher
than the one before: by quantity, then by face. Instead of a bid, a seat may call the last one a lie, which
ends the match: the bidder wins if the bid holds, else the caller. These are the rules of OpenSpiel's
`liars_dice(numdice=,dice_sides=)` for two players (Lanctot et al.: OpenSpiel, a framework for reinforcement
learning in games, 2019).
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs import chance
from league.envs.dealt import DealtGame
from league.envs.scene import Hand, Item, Tabletop
from storage.arrays import Bools, Floats, Indices

MOST_DICE, MOST_FACES = 20, 20
MOST_STARTS = 1_000_000
_SEAT = np.eye(2, dtype=np.int8)


class LiarsDice(DealtGame):
    """Action: bid number (quantity - 1) * faces + face - 1, or 2 * dice * faces: call the last bid a lie.
    Rewards 1 and -1 when the match ends.

    Observation, int8: own seat (2), own dice of each face (`faces`, counts), own bids and the bids of the
    other seat (2 x 2 * dice * faces). Bids rise, so their order is known too: all that the seat knows.
    """

    id: ClassVar[str] = "liars_dice"
    draw_possible = False
    renders = True
    open_actions = True
    match_arrays = ("_seen", "_last", "_mover")

    def __init__(
        self, num_slots: int, *, dice: int = 1, faces: int = 6, step_limit: int | None = None
    ) -> None:
        for name, found, least, most in (("dice", dice, 1, MOST_DICE), ("faces", faces, 2, MOST_FACES)):
            if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
                raise ValueError(
                    f"{self.id}: {name} is {found!r}, expected a whole number from {least} to {most}"
                )
        self.dice = dice
        self.faces = faces
        self.num_bids = 2 * dice * faces
        high = np.concatenate([np.ones(2), np.full(faces, dice), np.ones(2 * self.num_bids)]).astype(np.int8)
        self.observation_spaces = (Box(np.zeros_like(high), high, dtype=np.int8),) * 2
        self.action_spaces = (Discrete(self.num_bids + 1),) * 2
        super().__init__(num_slots, step_limit=step_limit)
        self._mask = _legal(self.num_bids)
        # what each seat observes: one gather shows it, and it holds all dice and bids
        self._seen = np.zeros((num_slots, 2, len(high)), dtype=np.int8)
        self._seen[:, :, :2] = _SEAT
        self._last = np.full(num_slots, -1, dtype=np.int64)  # the last bid
        self._mover = np.zeros(num_slots, dtype=np.int64)

    @property
    def _dice(self) -> npt.NDArray[np.int8]:
        """Number of dice of each face, by seat [num_slots, 2, faces]."""
        return self._seen[:, :, 2 : 2 + self.faces]

    def starts(self) -> Floats | None:
        if self._num_hands() ** 2 > MOST_STARTS:
            return None
        _, probability = _rolls(self.dice, self.faces)
        return np.outer(probability, probability).ravel()

    def hands(self) -> Indices:
        return np.stack(np.divmod(np.arange(self._num_hands() ** 2), self._num_hands()), axis=1)

    def hold(self, slots: Indices, start: Indices) -> None:
        counts, _ = _rolls(self.dice, self.faces)
        self._dice[slots, 0] = counts[start // len(counts)]
        self._dice[slots, 1] = counts[start % len(counts)]

    def ending(self, slot: Indices) -> Indices:
        """Return a number for the last bid and its bidder; it is 0 or 1 for a match cut before any bid."""
        return 2 * (self._last[slot] + 1) + self._mover[slot]

    def _num_hands(self) -> int:
        return math.comb(self.dice + self.faces - 1, self.dice)

    def _start_at(self, slots: Indices, start: Indices) -> None:
        self._begin(slots)
        self.hold(slots, start)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._begin(slots)
        self._dice[slots] = 0
        for die in range(2 * self.dice):
            self._dice[slots, die // self.dice, chance.below(seeds, die, self.faces)] += 1

    def _begin(self, slots: Indices) -> None:
        self._seen[slots, :, 2 + self.faces :] = 0
        self._last[slots] = -1
        self._mover[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._mover[slot]

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        return self._seen[slot, seat]

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return self._mask[self._last[slot] + 1]

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        bids = action < self.num_bids
        bidding, bidder, bid = slot[bids], seat[bids], action[bids]
        self._seen[bidding, bidder, 2 + self.faces + bid] = 1
        self._seen[bidding, 1 - bidder, 2 + self.faces + self.num_bids + bid] = 1
        self._last[bidding] = bid
        self._mover[bidding] = 1 - bidder
        calling, caller = slot[~bids], seat[~bids]
        gain = np.where(self._holds(calling), -1.0, 1.0)  # of the caller
        self._rewards[calling, caller] = gain
        self._rewards[calling, 1 - caller] = -gain
        self._over[calling] = True

    def _holds(self, slot: Indices) -> Bools:
        """Return whether the last bid of these matches [n] is true [n]."""
        quantity, face = np.divmod(self._last[slot], self.faces)
        shown = self._dice[slot].sum(axis=1)
        wild = np.where(face < self.faces - 1, shown[:, -1], 0)
        return shown[np.arange(len(slot)), face] + wild > quantity

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the bids so far, and the dice of `seat` (`None`: of both)."""
        lines = []
        for holder, counts in enumerate(self._dice[slot].tolist()):
            rolled = " ".join(str(face + 1) for face, count in enumerate(counts) for _ in range(count))
            turn = ", to play" if self.active[slot] and self._mover[slot] == holder else ""
            lines.append(f"seat {holder}: {rolled if seat in (None, holder) else '? ' * self.dice}".rstrip())
            lines[-1] += turn
        made = [self._word(bid) for bid, _ in self._bids(slot)]
        return "\n".join([*lines, f"bids: {', '.join(made) or '-'}"])

    def _bids(self, slot: int) -> list[tuple[int, int]]:
        """Return all bids in their order, each with the seat that made it."""
        bids = self._seen[slot, 0, 2 + self.faces :].reshape(2, self.num_bids)
        return [(bid, int(bids[1, bid])) for bid in np.flatnonzero(bids.any(axis=0)).tolist()]

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return the table: the bids so far, and the dice of `seat` (`None`: of both).

        When both are shown after a bid, those that make its number are marked.
        """
        bids, hands, words = self._bids(slot), [], []
        last = bids[-1][0] % self.faces if bids and seat is None else None
        for holder, counts in enumerate(self._dice[slot].tolist()):
            faces = [face for face, count in enumerate(counts) for _ in range(count)]
            shown = seat in (None, holder)
            items = [
                Item(
                    str(face + 1) if shown else None,
                    "die",
                    marked=last is not None and face in (last, self.faces - 1),
                )
                for face in faces
            ]
            note = ", ".join(self._word(bid) for bid, bidder in bids if bidder == holder)
            turn = bool(self.active[slot] and self._mover[slot] == holder)
            hands.append(Hand(holder, items, turn, note))
            rolled = " ".join(str(face + 1) for face in faces) if shown else "hidden dice"
            words.append(f"Seat {holder} has {rolled}.")
        said = "; ".join(f"seat {bidder} {self._word(bid)}" for bid, bidder in bids)
        words.append(f"Bids: {said}." if said else "No bid so far.")
        wild = f"{self.faces} is wild"
        notes = [f"bid: {self._word(bids[-1][0])}", wild] if bids else ["no bid so far", wild]
        return Tabletop(hands, " ".join(words), notes=notes)

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return a name such as "2 x 5", or "liar"."""
        return self._word(int(action))

    def _word(self, action: int) -> str:
        if action == self.num_bids:
            return "liar"
        return f"{action // self.faces + 1} x {action % self.faces + 1}"


@functools.lru_cache(maxsize=16)
def _rolls(dice: int, faces: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return all H distinct rolls of a seat as counts [H, faces], and their probabilities [H]."""
    rolls = itertools.combinations_with_replacement(range(faces), dice)
    counts = np.array([[roll.count(face) for face in range(faces)] for roll in rolls], dtype=np.int8)
    orders = [math.factorial(dice) / math.prod(map(math.factorial, row)) for row in counts.tolist()]
    return counts, np.array(orders) / faces**dice


@functools.lru_cache(maxsize=16)
def _legal(num_bids: int) -> Bools:
    """Return the legal actions after each bid [num_bids + 1, num_bids + 1]; row 0: before the first."""
    action, last = np.arange(num_bids + 1), np.arange(-1, num_bids)[:, None]
    return (action > last) & ((action < num_bids) | (last >= 0))
