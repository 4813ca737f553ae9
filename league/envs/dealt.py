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
import numpy.typing as npt

from league.envs.base import BatchedGame


class DealtGame(BatchedGame):
    """A game for two seats that act in turns, in which a hand for each seat is all that is hidden.

    Whose turn it is, which actions are legal and when a match ends must follow from the public history: the
    actions so far, and the events of chance that are shown so far. What a seat observes must follow from
    that and its own hand. Rewards are paid when the match ends. `starts` returns probabilities, and
    `match_arrays` has names.
    """

    num_seats = 2

    @abstractmethod
    def starts(self) -> npt.NDArray[np.float64] | None:
        """Return the probabilities [k] of the initial states; `None` if they are too many."""

    @abstractmethod
    def hands(self) -> npt.NDArray[np.int64]:
        """Return the hand of each seat in each initial state [k, 2], as a number from 0 on.

        Equal numbers mean hands that look equal to their seat.
        """

    @abstractmethod
    def hold(self, slots: npt.NDArray[np.int64], start: npt.NDArray[np.int64]) -> None:
        """Write what chance deals in initial state `start` [n] into matches in `slots` [n].

        Leave their actions as they are.
        """

    def events(self) -> npt.NDArray[np.int64]:
        """Return the events of public chance in each initial state [k, num_events], in order of appearance.

        Each is a number from 0 on. They are dealt at the start and shown later.
        """
        return np.zeros((len(self.hands()), 0), dtype=np.int64)

    def events_shown(self, slot: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many of their events the matches in `slot` [n] show by now [n]."""
        return np.zeros(len(slot), dtype=np.int64)

    def ending(self, slot: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """Return numbers [n] from 0 on for the matches in `slot` [n] that just ended.

        Two matches with the same number and the same events so far must pay alike in each initial state.
        `None`: no two endings are known to pay alike.
        """
        return None
