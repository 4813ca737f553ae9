"""Scenes: what a seat may see of a match, as data that can be drawn.

A game that overrides `BatchedGame.scene` is drawn in the browser; other games are shown there as text. A
board has pieces on cells, a tabletop has cards, dice or signs in hands. Neither has coordinates, colours or
markup, so that a game needs no knowledge of pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PieceKind = Literal["disc", "cross", "ring", "wall", "head"]
ItemKind = Literal["card", "die", "sign"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Piece of a seat on a cell; row 0 is on top."""

    row: int
    column: int
    seat: int
    kind: PieceKind = "disc"
    facing: int | None = None  # direction of a head: 0 up, 1 right, 2 down, 3 left
    marked: bool = False  # part of what decided the match


@dataclass(frozen=True, slots=True)
class Spot:
    """Rectangle of cells, a click on which is an action."""

    action: int
    row: int
    column: int
    rows: int = 1
    columns: int = 1


@dataclass(frozen=True, slots=True)
class Board:
    """Pieces on a grid of cells."""

    rows: int
    columns: int
    pieces: Sequence[Piece]
    spots: Sequence[Spot]  # of all actions that have a place, legal or not
    words: str  # the same for people who do not see the picture
    column_names: Sequence[str] = ()
    row_names: Sequence[str] = ()
    holes: bool = False  # whether cells are holes in the board, which pieces are dropped into


@dataclass(frozen=True, slots=True)
class Item:
    """Card, die or sign."""

    face: str | None  # what is on it, such as "king" or "5"; `None`: hidden from who looks
    kind: ItemKind = "card"
    suit: str = ""  # of a card
    action: int | None = None  # that plays it
    seat: int | None = None  # that put it in the middle
    marked: bool = False  # part of what decided the match


@dataclass(frozen=True, slots=True)
class Hand:
    """Hand of a seat."""

    seat: int
    items: Sequence[Item]
    turn: bool = False  # whether the seat must act
    note: str = ""  # such as "bet"


@dataclass(frozen=True, slots=True)
class Tabletop:
    """Hands around a table, with what is in the middle."""

    hands: Sequence[Hand]  # clockwise
    words: str  # the same for people who do not see the picture
    middle: Sequence[Item] = ()
    chips: Sequence[int] = ()  # that each seat has paid, by seat
    notes: Sequence[str] = ()  # lines in the middle


Scene = Board | Tabletop
