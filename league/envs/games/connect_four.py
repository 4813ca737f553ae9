"""Connect Four on 7 columns of 6 rows: four of one's own in a line win, a full board is a draw.

The stones of a seat are one uint64: column c, row r (0 at the bottom) is bit 6c + r. The 42 bits in
this order are a plane of the observation (`np.unpackbits`). There is no guard bit between columns;
instead, a line may start only where it does not run out of its column.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from league.envs.scene import Board, Piece, Spot
from storage.arrays import Bools, Indices

COLUMNS, ROWS = 7, 6
CELLS = COLUMNS * ROWS


def _rows(first: int, last: int) -> int:
    """Return all cells of the rows first..last, as bits."""
    return sum(1 << (ROWS * c + r) for c in range(COLUMNS) for r in range(first, last + 1))


_EVERYWHERE = (1 << CELLS) - 1
# Shift from a stone to the next of its line, and the cells from which a line of four has room. A
# line that leaves the last column needs no check: no stone is above bit 41.
_LINES = (
    (1, _rows(0, ROWS - 4)),  # up
    (ROWS, _EVERYWHERE),  # along the row
    (ROWS + 1, _rows(0, ROWS - 4)),  # up to the right
    (ROWS - 1, _rows(3, ROWS - 1)),  # down to the right
)
_SHIFTS = tuple((np.uint64(s), np.uint64(2 * s), np.uint64(room)) for s, room in _LINES)
_ONE = np.uint64(1)
_SEAT_ORDER = np.array([[0, 1], [1, 0]])
SIGNS = "XO"  # by seat


def has_four(stones: npt.NDArray[np.uint64]) -> Bools:
    """Return for each bitboard, in an array of any shape, whether it holds four in a line."""
    found = np.zeros_like(stones)
    for shift, double, room in _SHIFTS:
        pairs = stones & (stones >> shift)
        found |= pairs & (pairs >> double) & room
    return found != 0


def fours(stones: int) -> int:
    """Return the stones of one bitboard that are part of four in a line."""
    found = 0
    for shift, room in _LINES:
        starts = stones & stones >> shift & stones >> 2 * shift & stones >> 3 * shift & room
        for number in range(4):
            found |= starts << number * shift
    return found


def planes(stones: npt.NDArray[np.uint64]) -> npt.NDArray[np.int8]:
    """Unpack bitboards [n, k] into cells [n, 42 k], 0 or 1, column by column from the bottom."""
    octets = np.ascontiguousarray(stones if sys.byteorder == "little" else stones.byteswap()).view(np.uint8)
    cells = np.unpackbits(octets.reshape(-1, 8), axis=1, count=CELLS, bitorder="little")
    return cells.view(np.int8).reshape(len(stones), -1)


def bitboards(cells: npt.NDArray) -> npt.NDArray[np.uint64]:
    """Pack cells [n, 42 k] into bitboards [n, k]: the inverse of `planes`."""
    octets = np.packbits(cells.reshape(-1, CELLS) != 0, axis=1, bitorder="little")
    padded = np.zeros((len(octets), 8), dtype=np.uint8)
    padded[:, : octets.shape[1]] = octets
    return padded.view("<u8").astype(np.uint64).reshape(len(cells), -1)


class ConnectFour(BatchedGame):
    """Action: the column. Observation: own stones, then the opponent's, int8 [2, columns, rows].

    The winner gets +1, the loser -1; a draw is 0 for both.
    """

    id: ClassVar[str] = "connect_four"
    num_seats = 2
    observation_spaces = (Box(0, 1, (2, COLUMNS, ROWS), np.int8),) * 2
    action_spaces = (Discrete(COLUMNS),) * 2
    renders = True
    open_actions = open_state = True
    match_arrays = ("_stones", "_height", "_mover")

    def __init__(self, num_slots: int, *, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        self._stones = np.zeros((num_slots, 2), dtype=np.uint64)  # by seat
        self._height = np.zeros((num_slots, COLUMNS), dtype=np.uint8)
        self._mover = np.zeros(num_slots, dtype=np.int64)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._stones[slots] = 0
        self._height[slots] = 0
        self._mover[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._mover[slot]

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        return planes(self._stones[slot[:, None], _SEAT_ORDER[seat]]).reshape(-1, 2, COLUMNS, ROWS)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return self._height[slot] < ROWS

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        row = self._height[slot, action]
        self._height[slot, action] = row + 1
        mine = self._stones[slot, seat] | (_ONE << (action * ROWS + row).astype(np.uint64))
        self._stones[slot, seat] = mine
        self._mover[slot] = 1 - seat
        won = np.flatnonzero(has_four(mine))
        winners = slot[won]
        self._rewards[winners, seat[won]] = 1.0
        self._rewards[winners, 1 - seat[won]] = -1.0
        self._over[winners] = True
        self._over[slot[self.env_steps[slot] == CELLS]] = True

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the board, with column numbers, and the seat to play; the same for both seats."""
        board = planes(self._stones[[slot]]).reshape(2, COLUMNS, ROWS)
        signs = np.where(board[0] == 1, SIGNS[0], np.where(board[1] == 1, SIGNS[1], "."))
        rows = [" ".join(row) for row in signs.T[::-1]]
        mover = self._mover[slot]
        turn = [f"seat {mover} ({SIGNS[mover]}) to play"] if self.active[slot] else []
        return "\n".join([*rows, " ".join(map(str, range(COLUMNS))), *turn])

    def scene(self, slot: int, seat: int | None = None) -> Board:
        """Return the board; the same for both seats. A click on any cell of a column is meant for it."""
        pieces = []
        for owner, stones in enumerate(self._stones[slot].tolist()):
            won = fours(stones)
            for cell in range(CELLS):
                column, row = divmod(cell, ROWS)
                if stones >> cell & 1:
                    pieces.append(Piece(ROWS - 1 - row, column, owner, marked=bool(won >> cell & 1)))
        board = planes(self._stones[[slot]]).reshape(2, COLUMNS, ROWS)
        columns = []
        for column in range(COLUMNS):
            filled = range(int(self._height[slot, column]))
            columns.append(", ".join("seat 0" if board[0, column, row] else "seat 1" for row in filled))
        words = "; ".join(f"column {c}: {said}" for c, said in enumerate(columns) if said)
        return Board(
            ROWS,
            COLUMNS,
            pieces,
            [Spot(column, 0, column, rows=ROWS) for column in range(COLUMNS)],
            f"Stones from the bottom up. {words}." if words else "The board is empty.",
            column_names=[str(column) for column in range(COLUMNS)],
            holes=True,
        )

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return a name such as "column 3"."""
        return f"column {action}"
