"""Tron for four or two (after the arcade game of 1982): each seat leaves a wall; the last to live wins.

On a board of 8 x 8 cells all living seats move at once, by one cell. A seat dies when it runs over the
edge, into a wall, or into a cell that another seat enters too; its wall stays. The four starting places
are mapped onto one another by quarter turns of the board, those of two seats by half a turn, so all seats
are equal. The places and directions at the start are chance.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs import chance
from league.envs.base import BatchedGame
from league.envs.scene import Board, Piece, Spot
from storage.arrays import Bools, Indices

SIZE, NUM_SEATS = 8, 4
LEFT, AHEAD, RIGHT = 0, 1, 2
DIRECTIONS, _ARROWS = ("up", "right", "down", "left"), "↑→↓←"

# The board is the middle of a larger field, so that all that a head sees is inside the field.
SIGHT = SIZE - 1  # cells to each side
VIEW = 2 * SIGHT + 1
WIDTH = SIZE + 2 * SIGHT
_STEP = np.array([-WIDTH, 1, WIDTH, -1])  # to the next cell of the field, by direction
BOARD = SIGHT * (WIDTH + 1) + np.add.outer(WIDTH * np.arange(SIZE), np.arange(SIZE))  # its cells
FREE, WALL, HEAD, EDGE = 0, 1, 1 + NUM_SEATS, 1 + 2 * NUM_SEATS  # plus the seat, for a wall or head
_EMPTY = np.full(WIDTH * WIDTH, EDGE, dtype=np.int8)
_EMPTY[BOARD] = FREE
# The cells that a head sees, by its direction: [4, VIEW * VIEW] offsets in the field.
_FORWARD, _SIDEWAYS = np.arange(SIGHT, -SIGHT - 1, -1), np.arange(-SIGHT, SIGHT + 1)
_SEES = np.stack(
    [np.add.outer(_FORWARD * _STEP[d], _SIDEWAYS * _STEP[(d + 1) % 4]).ravel() for d in range(4)]
)
# [16, 4]: each cell of the lower left quarter, and the same after one, two and three quarter turns
_STARTS = np.stack([np.rot90(BOARD, k)[SIZE // 2 :, : SIZE // 2].ravel() for k in range(4)], axis=1)


class Tron(BatchedGame):
    """Action: left 0, ahead 1, right 2, relative to the head. A seat is rewarded when it dies: -1 for the
    first, then -1/3, 1/3, and 1 for the last; of two seats, -1 and 1. Seats that die at once share
    their places. Option: `seats`, 4 or 2.

    Observation, int8 [2, 15, 15]: blocked cells, and living heads, with the own head in the middle,
    facing up. The whole board is seen. The owners of walls are not shown.
    """

    id: ClassVar[str] = "tron"
    renders = True
    open_actions = open_state = True

    def __init__(self, num_slots: int, *, seats: int = NUM_SEATS, step_limit: int | None = None) -> None:
        if seats not in (2, NUM_SEATS):
            raise ValueError(f"{self.id}: seats is {seats!r}, expected 2 or {NUM_SEATS}")
        self.num_seats = seats
        self.observation_spaces = (Box(0, 1, (2, VIEW, VIEW), np.int8),) * seats
        self.action_spaces = (Discrete(3),) * seats
        self._quarters = np.arange(0, NUM_SEATS, NUM_SEATS // seats)  # quarter turns, by seat
        super().__init__(num_slots, step_limit=step_limit)
        self._field = np.tile(_EMPTY, (num_slots, 1))
        self._place = np.zeros((num_slots, seats), dtype=np.int64)  # cells of the heads
        self._facing = np.zeros((num_slots, seats), dtype=np.int64)  # directions
        self._lives = np.zeros((num_slots, seats), dtype=np.bool_)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        places = _STARTS[chance.below(seeds, 0, len(_STARTS))][:, self._quarters]
        self._field[slots] = _EMPTY
        self._field[slots[:, None], places] = HEAD + np.arange(self.num_seats)
        self._place[slots] = places
        self._facing[slots] = (chance.below(seeds, 1, 4)[:, None] + self._quarters) % 4
        self._lives[slots] = True

    def _turn(self) -> tuple[Indices, Indices]:
        slot, seat = np.nonzero(self._lives & self.active[:, None])
        return slot, seat

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        cells = self._place[slot, seat][:, None] + _SEES[self._facing[slot, seat]]
        seen = self._field[slot[:, None], cells]
        blocked, heads = seen != FREE, (seen >= HEAD) & (seen < EDGE)
        return np.stack([blocked, heads], axis=1).view(np.int8).reshape(-1, 2, VIEW, VIEW)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return np.ones((len(slot), 3), dtype=np.bool_)

    def was_cut(self, slot: Indices, seat: Indices) -> Bools:
        """Return for n seats of truncated matches whether they were alive [n]."""
        return self._lives[slot, seat]

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        facing = (self._facing[slot, seat] + action - AHEAD) % 4
        target = self._place[slot, seat] + _STEP[facing]
        entered = np.full((self.num_slots, self.num_seats), -1, dtype=np.int64)
        entered[slot, seat] = target
        crowded = (entered[slot] == target[:, None]).sum(axis=1) > 1
        dies = crowded | (self._field[slot, target] != FREE)
        self._field[slot, self._place[slot, seat]] = WALL + seat
        self._facing[slot, seat] = facing
        self._lives[slot[dies], seat[dies]] = False
        slot_on, seat_on, target = slot[~dies], seat[~dies], target[~dies]
        self._field[slot_on, target] = HEAD + seat_on
        self._place[slot_on, seat_on] = target
        self._pay(slot[dies], seat[dies])

    def _pay(self, slot: Indices, seat: Indices) -> None:
        """Reward the n seats that just died, ordered by slot; end matches with at most one survivor."""
        left, fallen = self._lives.sum(axis=1), np.bincount(slot, minlength=self.num_slots)
        # they share the places from `left` on (0 is the best); neighbouring places of four differ by 2/3
        self._rewards[slot, seat] = 1 - (2 * left[slot] + fallen[slot] - 1) / (self.num_seats - 1)
        over = (fallen > 0) & (left <= 1)
        self._over |= over
        self._rewards[over] += self._lives[over]

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the board: heads with their directions, walls by seat; the same for all seats."""
        signs = {FREE: " .", **{WALL + s: f" {s}" for s in range(self.num_seats)}}
        signs |= {HEAD + s: f"{_ARROWS[self._facing[slot, s]]}{s}" for s in range(self.num_seats)}
        rows = self._field[slot, BOARD].tolist()
        return "\n".join(" ".join(signs[cell] for cell in row) for row in rows)

    def scene(self, slot: int, seat: int | None = None) -> Board:
        """Return the board, the same for all seats, with the cells that `seat` may enter as its actions."""
        cells = self._field[slot, BOARD].tolist()
        pieces, words = [], []
        for row, line in enumerate(cells):
            for column, sign in enumerate(line):
                if HEAD <= sign < EDGE:
                    facing = int(self._facing[slot, sign - HEAD])
                    pieces.append(Piece(row, column, sign - HEAD, "head", facing))
                    place = f"column {column}, row {row}, facing {DIRECTIONS[facing]}"
                    words.append(f"The head of seat {sign - HEAD} is in {place}.")
                elif sign != FREE:
                    pieces.append(Piece(row, column, sign - WALL, "wall"))
        spots = []
        if seat is not None and self._lives[slot, seat]:
            for action in (LEFT, AHEAD, RIGHT):
                direction = (self._facing[slot, seat] + action - AHEAD) % 4
                found = np.argwhere(self._place[slot, seat] + _STEP[direction] == BOARD)
                if len(found):  # else the cell is beyond the edge
                    spots.append(Spot(action, int(found[0, 0]), int(found[0, 1])))
                    sign = cells[found[0, 0]][found[0, 1]]
                    words.append(f"{DIRECTIONS[direction]} is {'free' if sign == FREE else 'blocked'}.")
        words = sorted(words, key=lambda said: not said.startswith(f"The head of seat {seat} "))
        return Board(SIZE, SIZE, pieces, spots, " ".join(words))

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return the direction on the board: up, right, down or left."""
        return DIRECTIONS[(self._facing[slot, seat] + action - AHEAD) % 4]
