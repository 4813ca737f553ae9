"""Dealt games: what a seat hides is its hand, dealt at the start, and all actions are public.

Exact values of such a game need no walk of single histories. Public histories are walked, and each has a
vector over the private hands of a seat (`league/envs/trees/public.py`). So a tree may be larger by the number
of pairs of hands. To join, a game derives from `DealtGame` instead of `BatchedGame`, and implements:

    starts()                    the probability of each initial state
    hands()                     which hand each initial state deals to each seat
    hold(slots, start)          exchange the hands in matches that are under way

A game with public chance (a card that is turned up) also implements `events` and `events_shown`; a game with
very many public histories implements `ending`. `games/kuhn_poker.py`, `games/leduc_poker.py` and
`games/liars_dice.py` are examples. `league envs check` compares the promises below with matches.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from league.envs.base import BatchedGame, Decisions, Transition
from storage.arrays import Floats, Floats32, Indices


class DealtGame(BatchedGame):
    """A game for two seats that act in turns, in which a hand for each seat is all that is hidden.

    Whose turn it is, which actions are legal and when a match ends must follow from the public history: the
    actions so far, and the events of chance that are shown so far. What a seat observes must follow from
    that and its own hand. Rewards are paid when the match ends. `starts` returns probabilities, and
    `match_arrays` has names.
    """

    num_seats = 2

    @abstractmethod
    def starts(self) -> Floats | None:
        """Return the probabilities [k] of the initial states; `None` if they are too many."""

    @abstractmethod
    def hands(self) -> Indices:
        """Return the hand of each seat in each initial state [k, 2], as a number from 0 on.

        Equal numbers mean hands that look equal to their seat.
        """

    @abstractmethod
    def hold(self, slots: Indices, start: Indices) -> None:
        """Write what chance deals in initial state `start` [n] into matches in `slots` [n].

        Leave their actions as they are.
        """

    def events(self) -> Indices:
        """Return the events of public chance in each initial state [k, num_events], in order of appearance.

        Each is a number from 0 on. They are dealt at the start and shown later.
        """
        return np.zeros((len(self.hands()), 0), dtype=np.int64)

    def events_shown(self, slot: Indices) -> Indices:
        """Return how many of their events the matches in `slot` [n] show by now [n]."""
        return np.zeros(len(slot), dtype=np.int64)

    def ending(self, slot: Indices) -> Indices | None:
        """Return numbers [n] from 0 on for the matches in `slot` [n] that just ended.

        Two matches with the same number and the same events so far must pay alike in each initial state.
        `None`: no two endings are known to pay alike.
        """
        return None


MATCHES = 32  # played to their ends; each of them beside copies with other hands


def broken_promise(game: DealtGame, seed: int) -> str:
    """Return which promise of `DealtGame` random matches break, or "" if they break none.

    `game` must have at least MATCHES slots.
    """
    starts = game.starts()
    if starts is None:
        return ""
    hands, events = game.hands(), game.events()
    if game.match_arrays is None:
        return "it has no match_arrays, so its matches cannot be copied"
    if game.num_seats != 2 or not game.shared_spaces:
        return f"it has {game.num_seats} seats, expected two that see and act alike"
    if abs(starts.sum() - 1) > 1e-9 or (starts < 0).any():
        return f"the probabilities of its starts are {starts.sum():g} in sum, expected 1, none below 0"
    if hands.shape != (len(starts), 2) or hands.min() < 0:
        return f"hands are shaped {hands.shape}, expected {(len(starts), 2)}, numbers from 0 on"
    if events.shape[:1] != (len(starts),) or events.ndim != 2:
        return f"events are shaped {events.shape}, expected {(len(starts), 'number of events')}"
    return _Matches(game, starts, hands, events, seed).broken()


class _Matches:
    """Random matches, and copies of them in which other hands are held."""

    def __init__(self, game: DealtGame, starts: Floats, hands: Indices, events: Indices, seed: int) -> None:
        self._game, self._starts, self._hands, self._events = game, starts, hands, events
        self._rng = np.random.default_rng(seed)
        self._start = self._rng.choice(len(starts), MATCHES, p=starts / starts.sum())
        self._paid: dict[tuple[int, ...], tuple[DealtGame, int]] = {}  # a match and its last action

    def broken(self) -> str:
        game = self._game
        game.start_at(np.arange(MATCHES), self._start)
        while game.active.any():
            (due,) = game.due()
            kept = game.copies(due.slot)
            alike = kept.copies(np.arange(len(due)))
            alike.hold(np.arange(len(due)), self._others(due, same_hand=True))
            others = kept.copies(np.arange(len(due)))
            others.hold(np.arange(len(due)), self._others(due, same_hand=False))
            actions = (self._rng.random(due.mask.shape) * due.mask).argmax(axis=1)
            (same,), (other,) = alike.due(), others.due()
            if not np.array_equal(same.observation, due.observation):
                return "a seat sees more than its hand, the actions and the events that are shown"
            if not (np.array_equal(other.seat, due.seat) and np.array_equal(other.mask, due.mask)):
                return "whose turn it is, or what is legal, depends on a hand"
            step, ended = game.step([actions]), others.step([actions]).ended
            if not np.array_equal(due.slot[ended], step.ended):
                return "whether a match ends depends on a hand"
            if step.rewards[game.active].any():
                return "a reward is paid before the end of a match"
            if self._pays_unlike(kept, due, actions, step):
                return "two matches with the same `ending` and the same deal pay different rewards"
        return ""

    def _others(self, due: Decisions, *, same_hand: bool) -> Indices:
        """Draw a start for each decision that fits what is public there; with the hand of the actor, too."""
        shown = self._game.events_shown(due.slot)
        found = np.empty(len(due), dtype=np.int64)
        for row, (slot, seat, known) in enumerate(zip(due.slot, due.seat, shown, strict=True)):
            start = self._start[slot]
            fits = (self._events[:, :known] == self._events[start, :known]).all(axis=1) & (self._starts > 0)
            if same_hand:
                fits &= self._hands[:, seat] == self._hands[start, seat]
            found[row] = self._rng.choice(np.flatnonzero(fits))
        return found

    def _pays_unlike(self, kept: DealtGame, due: Decisions, actions: Indices, step: Transition) -> bool:
        """Return whether a match that ended pays another reward than one that ended alike before."""
        numbers = self._game.ending(step.ended)
        if numbers is None:
            return False
        shown = kept.events_shown(np.arange(len(due)))
        for slot, cut, number in zip(step.ended, step.truncated, numbers.tolist(), strict=True):
            row = int(np.flatnonzero(due.slot == slot)[0])
            start = int(self._start[slot])
            public = tuple(self._events[start, : shown[row]].tolist())
            mine = kept.copies(np.array([row])), int(actions[row])
            other = self._paid.setdefault((number, int(cut), *public), mine)
            if not np.array_equal(_last_reward(*mine, start), _last_reward(*other, start)):
                return True
        return False


def _last_reward(match: DealtGame, action: int, start: int) -> Floats32:
    """Return what the match in slot 0 pays [2] if its last action is `action` and `start` was dealt."""
    match = match.copies(np.zeros(1, dtype=np.int64))
    match.hold(np.zeros(1, dtype=np.int64), np.array([start]))
    match.due()
    return match.step([np.array([action])]).rewards[0].copy()
