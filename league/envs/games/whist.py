"""Whist for two pairs of partners (after E. Hoyle: A short treatise on the game of whist, 1742), with
twenty cards.

Ten, jack, queen, king and ace of four suits are dealt, five to each seat. Seats 0 and 1 are partners,
and so are seats 2 and 3. They sit around the table in the order 0, 2, 1, 3, so that each seat is
between two opponents. The first leader is drawn by chance. The other seats follow in turn, with a card
of the suit that was led if they have one, else with any card. The highest spade takes the trick, or
without a spade the highest card of the suit that was led. The seat that took it leads to the next
trick. Partners do not communicate: the cards that they play are the only information about their hands.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs import chance
from league.envs.base import BatchedGame
from league.envs.scene import Hand, Item, Tabletop
from storage.arrays import Bools, Indices

SUITS, RANKS, TRUMP = "♠♥♦♣", "TJQKA", 0
NUM_SEATS, NUM_SUITS, NUM_RANKS = 4, len(SUITS), len(RANKS)
CARDS = NUM_SUITS * NUM_RANKS
TRICKS = CARDS // NUM_SEATS
SUIT, RANK = np.divmod(np.arange(CARDS), NUM_RANKS)  # of each card
_CLOCKWISE = np.array([0, 2, 1, 3])  # the seat at each place of the table; also the place of each seat
# The seats from each on, clockwise: itself, the left opponent, the partner, the right opponent.
AROUND = _CLOCKWISE[(_CLOCKWISE[:, None] + np.arange(NUM_SEATS)) % NUM_SEATS]
_NEXT = AROUND[:, 1]

# Where a card is, plus the seat that owns or played it.
HAND, TABLE, GONE = 0, NUM_SEATS, 2 * NUM_SEATS
_GATHERED = np.array([0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11])  # moves cards off the table, and no others
_VIEW = 8  # numbers that describe a card to a seat

_IN_SUIT = np.vstack([np.arange(NUM_SUITS)[:, None] == SUIT, np.ones(CARDS, dtype=np.bool_)])  # -1: any
_SUIT_ROW = np.vstack([np.eye(NUM_SUITS), np.zeros(NUM_SUITS)]).astype(np.int8)  # row -1: no suit was led
# The highest takes the trick, by the suit that was led: trumps, then this suit, then the others.
STRENGTH = np.where(SUIT == TRUMP, 2 * NUM_RANKS + RANK, np.where(_IN_SUIT[:-1], NUM_RANKS + RANK, 0))
_GAIN = np.array([[1, 1, -1, -1], [-1, -1, 1, 1]], dtype=np.float32) / TRICKS  # by the side that took it
_SIDES = np.array([[0, 1], [1, 0]])  # own side, other side


def _views() -> npt.NDArray[np.int8]:
    """Return what each seat sees, [seat, where a card is, _VIEW]; zeros for cards in other hands."""
    views = np.zeros((NUM_SEATS, 3 * NUM_SEATS, _VIEW), dtype=np.int8)
    for seat in range(NUM_SEATS):
        views[seat, HAND + seat, 0] = 1
        for step, owner in enumerate(AROUND[seat]):
            views[seat, TABLE + owner, step] = step > 0  # the seat that must play has no card there
            views[seat, GONE + owner, NUM_SEATS + step] = 1
    return views


_VIEWS = _views()


class Whist(BatchedGame):
    """Action: the card, 5 * suit + rank. Each trick gives +1/5 to both seats of the side that takes it, and
    -1/5 to the other two, at once.

    Observation, int8. Seats are relative, clockwise: own, left, partner, right. For each card 8 numbers:
    in the own hand; on the table from left, partner, right; gone, played by own, left, partner, right.
    Then the suit that was led (4); for left, partner, right the suits that they certainly lack (3 x 4);
    tricks of the own side and of the other. The order in which cards were played is not shown.
    """

    id: ClassVar[str] = "whist"
    num_seats = NUM_SEATS
    teams = (2, 2)
    observation_spaces = (
        Box(0, TRICKS, (_VIEW * CARDS + NUM_SUITS + (NUM_SEATS - 1) * NUM_SUITS + 2,), np.int8),
    ) * NUM_SEATS
    action_spaces = (Discrete(CARDS),) * NUM_SEATS
    draw_possible = False  # five tricks
    renders = True
    open_actions = True

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        self._card = np.zeros((num_slots, CARDS), dtype=np.int64)  # where it is, plus its seat
        self._void = np.zeros(
            (num_slots, NUM_SEATS, NUM_SUITS), dtype=np.int8
        )  # suits that it certainly lacks
        self._tricks = np.zeros((num_slots, 2), dtype=np.int8)  # by side
        self._led = np.full(num_slots, -1, dtype=np.int64)  # suit; -1: no card was led yet
        self._ahead = np.zeros(num_slots, dtype=np.int64)  # the seat that would take the trick now
        self._best = np.zeros(num_slots, dtype=np.int64)  # the strength of that card
        self._mover = np.zeros(num_slots, dtype=np.int64)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        dealt = chance.deal(seeds, CARDS, CARDS)
        self._card[slots[:, None], dealt] = HAND + np.repeat(np.arange(NUM_SEATS), TRICKS)
        self._mover[slots] = chance.below(seeds, CARDS, NUM_SEATS)
        self._void[slots] = 0
        self._tricks[slots] = 0
        self._led[slots] = -1

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._mover[slot]

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        n = len(slot)
        cards = _VIEWS[seat[:, None], self._card[slot]].reshape(n, -1)
        void = self._void[slot[:, None], AROUND[seat, 1:]].reshape(n, -1)
        tricks = self._tricks[slot[:, None], _SIDES[seat // 2]]
        return np.concatenate([cards, _SUIT_ROW[self._led[slot]], void, tricks], axis=1)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        hand = self._card[slot] == HAND + seat[:, None]
        following = hand & _IN_SUIT[self._led[slot]]
        return np.where(following.any(axis=1, keepdims=True), following, hand)

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        opens = self._led[slot] == -1
        led = np.where(opens, SUIT[action], self._led[slot])
        strength = STRENGTH[led, action]
        ahead = opens | (strength > self._best[slot])
        self._led[slot] = led
        self._best[slot[ahead]] = strength[ahead]
        self._ahead[slot[ahead]] = seat[ahead]
        self._void[slot, seat, led] |= SUIT[action] != led
        self._card[slot, action] = TABLE + seat
        self._mover[slot] = _NEXT[seat]
        self._take(slot[self.env_steps[slot] % NUM_SEATS == 0])

    def _take(self, slot: Indices) -> None:
        """Give the tricks of these slots [k] to the seats that are ahead."""
        taker = self._ahead[slot]
        self._card[slot] = _GATHERED[self._card[slot]]
        self._tricks[slot, taker // 2] += 1
        self._rewards[slot] = _GAIN[taker // 2]
        self._led[slot] = -1
        self._mover[slot] = taker
        self._over[slot] = self.env_steps[slot] == CARDS

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return tricks, table, cards that are gone, and the hand of `seat` (`None`: all hands)."""
        card, mover, tricks = self._card[slot], self._mover[slot], self._tricks[slot]
        on_table = np.flatnonzero((card >= TABLE) & (card < GONE))
        played = {int(card[c]) - TABLE: name_of(c) for c in on_table.tolist()}
        in_order = [s for s in AROUND[mover].tolist() if s in played]
        lines = [
            f"tricks  {tricks[0]} of seats 0 and 1, {tricks[1]} of seats 2 and 3; trumps are {SUITS[TRUMP]}",
            f"gone    {_by_suit(np.flatnonzero(card >= GONE))}",
            f"table   {', '.join(f'{played[s]} (seat {s})' for s in in_order) or '-'}",
        ]
        for holder in range(NUM_SEATS) if seat is None else (seat,):
            turn = " to play" if self.active[slot] and holder == mover else ""
            lines.append(f"seat {holder}  {_by_suit(np.flatnonzero(card == HAND + holder))}{turn}")
        return "\n".join(lines)

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return tricks, table, and the hand of `seat` (`None`: all hands)."""
        card, mover, tricks = self._card[slot], int(self._mover[slot]), self._tricks[slot].tolist()
        table = np.flatnonzero((card >= TABLE) & (card < GONE)).tolist()
        hands, words = [], []
        for holder in _CLOCKWISE.tolist():
            held = np.flatnonzero(card == HAND + holder).tolist()
            shown = seat in (None, holder)
            hands.append(
                Hand(
                    holder,
                    [_item(c, action=c) if shown else Item(None) for c in held],
                    turn=bool(self.active[slot]) and holder == mover,
                )
            )
            if shown:
                words.append(f"Seat {holder} holds {_by_suit(np.array(held, dtype=np.int64))}.")
        order = AROUND[mover].tolist()
        middle = sorted(
            (_item(c, seat=int(card[c]) - TABLE) for c in table), key=lambda i: order.index(i.seat)
        )
        on_table = ", ".join(f"{item.suit}{item.face} of seat {item.seat}" for item in middle)
        score = f"tricks {tricks[0]} : {tricks[1]}"
        trumps = f"{SUITS[TRUMP]} is trump"
        words.append(f"On the table: {on_table or 'nothing'}. {score} for seats 0 and 1, {trumps}.")
        return Tabletop(hands, " ".join(words), middle, notes=[score, trumps])

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return a name such as "♥K"."""
        return name_of(action)


def unpack(observation: npt.NDArray) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Return the cards [n, 20, 8] and the suit that was led [n, 4] of observations [n, size]."""
    cards, led, _ = np.split(observation, [_VIEW * CARDS, _VIEW * CARDS + NUM_SUITS], axis=1)
    return cards.reshape(-1, CARDS, _VIEW), led


def name_of(card: int) -> str:
    """Return a name such as "♥K"."""
    return SUITS[SUIT[card]] + RANKS[RANK[card]]


def _item(card: int, *, action: int | None = None, seat: int | None = None) -> Item:
    """Return a card of a hand, or one that `seat` has played."""
    return Item(RANKS[RANK[card]], suit=SUITS[SUIT[card]], action=action, seat=seat)


def _by_suit(cards: Indices) -> str:
    """Return cards as text, such as "♠TA ♦Q"."""
    held = [(suit, "".join(RANKS[RANK[c]] for c in cards if SUIT[c] == i)) for i, suit in enumerate(SUITS)]
    return " ".join(suit + ranks for suit, ranks in held if ranks) or "-"
