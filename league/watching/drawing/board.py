"""Boards as SVG: discs in holes, crosses and rings on a grid, heads with the walls behind them."""

from __future__ import annotations

from league.envs.scene import Board, Piece
from league.watching.drawing.svg import Canvas, Element, Picture, add, at

CELL = 72.0
NAMES = 30.0  # width of the margin with names of rows or columns
EDGE = 10.0
COLOURS = 4  # seats with colours of their own in pictures.css


def draw_board(board: Board, before: Board | None) -> Picture:
    """Return the picture of `board`; pieces that `before` has not are shown as new."""
    left = EDGE + (NAMES if board.row_names else 0.0)
    below = NAMES if board.column_names else 0.0
    width, height = board.columns * CELL, board.rows * CELL
    canvas = Canvas(left + width + EDGE, height + 2 * EDGE + below, "board")
    root = canvas.root
    grid = at(root, left, EDGE)
    add(grid, "rect", "ground", x=-8, y=-8, width=width + 16, height=height + 16, rx=14)
    for row in range(board.rows):
        for column in range(board.columns):
            middle = at(grid, (column + 0.5) * CELL, (row + 0.5) * CELL)
            if board.holes:
                add(middle, "circle", "hole", r=CELL * 0.4)
            else:
                add(
                    middle,
                    "rect",
                    "cell",
                    x=3 - CELL / 2,
                    y=3 - CELL / 2,
                    width=CELL - 6,
                    height=CELL - 6,
                    rx=7,
                )
    known = {(p.row, p.column, p.seat) for p in before.pieces} if before is not None else None
    for piece in board.pieces:
        new = known is not None and (piece.row, piece.column, piece.seat) not in known
        _draw_piece(grid, piece, new)
    for column, name in enumerate(board.column_names):
        x, y = left + (column + 0.5) * CELL, height + EDGE + below
        add(root, "text", "name", name, x=x, y=y, text_anchor="middle")
    for row, name in enumerate(board.row_names):
        add(root, "text", "name", name, x=EDGE + 4, y=EDGE + (row + 0.5) * CELL + 6, text_anchor="middle")
    for spot in board.spots:
        x, y = left + spot.column * CELL, EDGE + spot.row * CELL
        canvas.spot(spot.action, x, y, spot.columns * CELL, spot.rows * CELL)
    return canvas.picture()


def _draw_piece(grid: Element, piece: Piece, new: bool) -> None:
    state = f"{' new' if new else ''}{' marked' if piece.marked else ''}"
    turn = 90.0 * (piece.facing or 0)
    middle = at(grid, (piece.column + 0.5) * CELL, (piece.row + 0.5) * CELL)
    group = add(middle, "g", f"piece {piece.kind} seat{piece.seat % COLOURS}{state}")
    size = CELL * 0.4
    match piece.kind:
        case "disc":  # colours alone do not tell seats apart: one has a ring, the other a dot
            add(group, "circle", "body", r=size)
            if piece.seat % 2 == 0:
                add(group, "circle", "sign", r=size * 0.55)
            else:
                add(group, "circle", "sign full", r=size * 0.22)
        case "cross":
            reach = size * 0.62
            add(
                group,
                "path",
                "line",
                d=f"M{-reach:g} {-reach:g}L{reach:g} {reach:g}M{reach:g} {-reach:g}L{-reach:g} {reach:g}",
            )
        case "ring":
            add(group, "circle", "line", r=size * 0.68)
        case "wall":
            add(group, "rect", "body", x=3 - CELL / 2, y=3 - CELL / 2, width=CELL - 6, height=CELL - 6, rx=7)
            add(group, "text", "number", str(piece.seat), y=7, text_anchor="middle")
        case "head":
            turned = at(group, 0, 0, turn=turn)
            add(turned, "rect", "body", x=3 - CELL / 2, y=3 - CELL / 2, width=CELL - 6, height=CELL - 6, rx=7)
            add(turned, "path", "arrow", d="M0 -26L19 2L8 2L8 24L-8 24L-8 2L-19 2Z")
            add(group, "text", "on-arrow", str(piece.seat), y=8, text_anchor="middle")
    if piece.marked:
        add(group, "circle", "halo", r=CELL * 0.45)
