"""Tic-tac-toe: three of one's own in a line win, a full board is a draw.

The stones of a seat are nine bits, cell 3 * row + column. Cells and lines come from tables.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from league.envs.scene import Board, Piece, PieceKind, Spot
from storage.arrays import Bools, Floats, Indices

CELLS = 9
FULL = (1 << CELLS) - 1
LINES = (0o7, 0o70, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124)  # an octal digit is a row
_BOARDS = np.arange(FULL + 1)
BITS = ((_BOARDS[:, None] >> np.arange(CELLS)) & 1).astype(np.int8)  # [512, 9]: the cells of a board
WINS = np.any([(_BOARDS & line) == line for line in LINES], axis=0)  # [512]: holds three in a line
_SEAT_ORDER = np.array([[0, 1], [1, 0]])
SIGNS = "XO"  # by seat


class TicTacToe(BatchedGame):
    """Action: the cell. Observation: own stones, then the opponent's, int8 [2, rows, columns].

    The winner gets +1, the loser -1; a draw is 0 for both.
    """

    id: ClassVar[str] = "tic_tac_toe"
    num_seats = 2
    observation_spaces = (Box(0, 1, (2, 3, 3), np.int8),) * 2
    action_spaces = (Discrete(CELLS),) * 2
    renders = True
    open_actions = open_state = True
    match_arrays = ("_stones", "_mover")

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        self._stones = np.zeros((num_slots, 2), dtype=np.int64)  # by seat
        self._mover = np.zeros(num_slots, dtype=np.int64)

    def starts(self) -> Floats:
        return np.ones(1)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._stones[slots] = 0
        self._mover[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._mover[slot]

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        return BITS[self._stones[slot[:, None], _SEAT_ORDER[seat]]].reshape(-1, 2, 3, 3)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return BITS[self._stones[slot].sum(axis=1)] == 0

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        mine = self._stones[slot, seat] | (1 << action)
        self._stones[slot, seat] = mine
        self._mover[slot] = 1 - seat
        won = np.flatnonzero(WINS[mine])
        winners = slot[won]
        self._rewards[winners, seat[won]] = 1.0
        self._rewards[winners, 1 - seat[won]] = -1.0
        self._over[winners] = True
        self._over[slot[self.env_steps[slot] == CELLS]] = True

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the board and the seat to play; the same for both seats."""
        first, second = BITS[self._stones[slot]].tolist()
        cells = [SIGNS[0] if x else SIGNS[1] if o else "." for x, o in zip(first, second, strict=True)]
        rows = [f"{row + 1} {' '.join(cells[3 * row : 3 * row + 3])}" for row in range(3)]
        mover = self._mover[slot]
        turn = [f"seat {mover} ({SIGNS[mover]}) to play"] if self.active[slot] else []
        return "\n".join(["  a b c", *rows, *turn])

    def scene(self, slot: int, seat: int | None = None) -> Board:
        """Return the board; the same for both seats."""
        pieces = []
        for owner, stones in enumerate(self._stones[slot].tolist()):
            won = 0
            for line in LINES:
                won |= line if stones & line == line else 0
            for cell in range(CELLS):
                if stones >> cell & 1:
                    kind: PieceKind = "ring" if owner else "cross"
                    pieces.append(Piece(cell // 3, cell % 3, owner, kind, marked=bool(won >> cell & 1)))
        said = [f"{self.action_name(slot, 0, 3 * p.row + p.column)}: {SIGNS[p.seat]}" for p in pieces]
        return Board(
            3,
            3,
            pieces,
            [Spot(cell, cell // 3, cell % 3) for cell in range(CELLS)],
            f"{', '.join(said)}." if said else "The board is empty.",
            column_names=tuple("abc"),
            row_names=tuple("123"),
        )

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return a name such as "a3", for the left cell of the lowest row."""
        return "abc"[action % 3] + str(action // 3 + 1)
