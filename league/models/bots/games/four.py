"""Heuristic bots for the native games with four seats, at the level of a sensible beginner.

thrifty  (whist)  takes a trick with the lowest card that can, unless the partner is ahead; else plays
                  its lowest card; leads its highest card, trumps last
roomy    (tron)   moves to the cell with most room behind it; cells that another may enter count half
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from league.envs.games import tron, whist
from league.models.bots.base import ScriptedPolicy

_IS_TRUMP = whist.SUIT == whist.TRUMP
_COST = whist.RANK + whist.NUM_RANKS * _IS_TRUMP
_LEAD_COST = whist.NUM_RANKS * _IS_TRUMP - whist.RANK
_PARTNER = 1  # among left, partner, right
REACH = 12  # steps that `roomy` looks ahead
_SIDE = tron.SIGHT  # row and column of the own head
_TARGETS = ((_SIDE, _SIDE - 1), (_SIDE - 1, _SIDE), (_SIDE, _SIDE + 1))  # left, ahead, right


class Thrifty(ScriptedPolicy):
    """Bot for whist, without memory."""

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        cards, led = whist.unpack(observation)
        strength = led @ whist.STRENGTH  # [n, cards]; all 0 if it leads
        on_table = (strength[:, :, None] * cards[:, :, 1:4]).max(axis=1)  # of left, partner, right
        ahead = on_table.max(axis=1, keepdims=True)
        takes = mask & (strength > ahead) & (on_table[:, [_PARTNER]] < ahead)
        choice = np.where(takes.any(axis=1, keepdims=True), takes, mask)
        cost = np.where(led.any(axis=1, keepdims=True), _COST, _LEAD_COST)
        highest = whist.CARDS
        cheapest = np.where(choice, cost, highest).min(axis=1, keepdims=True)
        return choice & (cost == cheapest)


class Roomy(ScriptedPolicy):
    """Bot for tron that keeps away from walls."""

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        free, heads = observation[:, 0] == 0, observation[:, 1].astype(np.bool_)
        heads[:, _SIDE, _SIDE] = False  # its own
        contested = _grown(heads)
        room = np.stack([_room(free, target) / (1 + contested[:, *target]) for target in _TARGETS], axis=1)
        return room == room.max(axis=1, keepdims=True)


def _room(free: npt.NDArray[np.bool_], start: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Return how many of the free cells [n, V, V] are within REACH steps of `start`: [n]."""
    reached = np.zeros_like(free)
    reached[:, *start] = free[:, *start]
    for _ in range(REACH):
        reached = _grown(reached) & free
    return reached.sum(axis=(1, 2))


def _grown(cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return these cells [n, V, V] and their neighbours."""
    grown = cells.copy()
    grown[:, 1:] |= cells[:, :-1]
    grown[:, :-1] |= cells[:, 1:]
    grown[:, :, 1:] |= cells[:, :, :-1]
    grown[:, :, :-1] |= cells[:, :, 1:]
    return grown
