"""Bots for games of lines, connect_four and tic_tac_toe: one_ply and perfect."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from league.envs.games import connect_four, tic_tac_toe
from league.models.bots.base import ScriptedPolicy

# (stones, cells that may be filled) -> where filling a cell completes a line; shapes in `_completes_four`
Completes = Callable[[npt.NDArray, npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]


class OnePlyBot(ScriptedPolicy):
    """Bot that wins at once if it can; else takes a cell with which the opponent would win; else any cell."""

    def __init__(self, split: Callable[[npt.NDArray], npt.NDArray], completes: Completes) -> None:
        self._split = split  # observations -> the stones of both sides [n, 2], own first
        self._completes = completes

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        stones = self._split(observation)
        wins = self._completes(stones, mask)
        blocks = self._completes(stones[:, ::-1], mask)
        choice = np.where(blocks.any(axis=1, keepdims=True), blocks, mask)
        return np.where(wins.any(axis=1, keepdims=True), wins, choice)


class PerfectTicTacToe(ScriptedPolicy):
    """Bot that takes any cell that keeps the value of the game under perfect play."""

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        stones = _three_stones(observation)
        return mask & (tic_tac_toe.BITS[_optimal_cells()[stones[:, 0], stones[:, 1]]] != 0)


def _completes_four(stones: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the columns [n, 7] in which a stone of the first side gives it four in a line."""
    one, rows = np.uint64(1), np.uint64(connect_four.ROWS)
    column = np.arange(connect_four.COLUMNS, dtype=np.uint64) * rows
    height = np.bitwise_count(((stones[:, :1] | stones[:, 1:]) >> column) & ((one << rows) - one))
    return connect_four.has_four(stones[:, :1] | (one << (column + height))) & mask


def _three_stones(observation: npt.NDArray) -> npt.NDArray[np.int64]:
    cells = observation.reshape(len(observation), 2, tic_tac_toe.CELLS)
    return cells.astype(np.int64) @ (1 << np.arange(tic_tac_toe.CELLS))


def _completes_three(stones: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the cells [n, 9] in which a stone of the first side gives it three in a line."""
    return tic_tac_toe.WINS[stones[:, :1] | (1 << np.arange(tic_tac_toe.CELLS))] & mask


@functools.cache
def _optimal_cells() -> npt.NDArray[np.int64]:
    """Return the cells that keep the value, as bits, by the mover's stones and the opponent's: [512, 512]."""
    optimal = np.zeros((tic_tac_toe.FULL + 1,) * 2, dtype=np.int64)

    @functools.cache
    def value(mover: int, opponent: int) -> int:
        """Return 1, 0 or -1 if the mover wins, draws or loses. Fill `optimal` on the way."""
        if tic_tac_toe.WINS[opponent]:
            return -1
        empty = [1 << c for c in range(tic_tac_toe.CELLS) if not (mover | opponent) >> c & 1]
        if not empty:
            return 0
        values = {cell: -value(opponent, mover | cell) for cell in empty}
        best = max(values.values())
        optimal[mover, opponent] = sum(cell for cell, v in values.items() if v == best)
        return best

    value(0, 0)
    return optimal


def one_ply_connect_four() -> OnePlyBot:
    """Return the bot `one_ply` of connect_four."""
    return OnePlyBot(connect_four.bitboards, _completes_four)


def one_ply_tic_tac_toe() -> OnePlyBot:
    """Return the bot `one_ply` of tic_tac_toe."""
    return OnePlyBot(_three_stones, _completes_three)
