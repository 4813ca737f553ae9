"""Check of a dealt game: hands are all that it hides, and public histories decide everything else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from league.envs.base import Decisions, Transition
from league.envs.dealt import DealtGame

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

    def __init__(
        self,
        game: DealtGame,
        starts: npt.NDArray[np.float64],
        hands: npt.NDArray[np.int64],
        events: npt.NDArray[np.int64],
        seed: int,
    ) -> None:
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

    def _others(self, due: Decisions, *, same_hand: bool) -> npt.NDArray[np.int64]:
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

    def _pays_unlike(
        self, kept: DealtGame, due: Decisions, actions: npt.NDArray[np.int64], step: Transition
    ) -> bool:
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


def _last_reward(match: DealtGame, action: int, start: int) -> npt.NDArray[np.float32]:
    """Return what the match in slot 0 pays [2] if its last action is `action` and `start` was dealt."""
    match = match.copies(np.zeros(1, dtype=np.int64))
    match.hold(np.zeros(1, dtype=np.int64), np.array([start]))
    match.due()
    return match.step([np.array([action])]).rewards[0].copy()
