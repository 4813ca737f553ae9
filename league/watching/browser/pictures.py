"""Frames: what a page shows of a match at one moment, as text and as a scene in SVG.

A scene is a board of discs, crosses and heads, or a table with cards, dice and signs.
Text is escaped, and colours come from classes of `pictures.css`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from xml.etree import ElementTree

from league.envs.base import BatchedGame
from league.envs.scene import Board, Hand, Item, Piece, Scene, Tabletop
from league.watching.words import by_order

CELL = 72.0
NAMES = 30.0  # width of the margin with names of rows or columns
EDGE = 10.0
COLOURS = 4  # seats with colours of their own in pictures.css

Element = ElementTree.Element
Frame = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """Drawing of a scene."""

    svg: str
    spots: dict[int, tuple[float, float, float, float]]  # left, top, width, height of actions, in per cent


class Canvas:
    """Picture that is being drawn, `width` by `height` units large."""

    def __init__(self, width: float, height: float, kind: str) -> None:
        self._width, self._height = width, height
        box = f"0 0 {width:g} {height:g}"
        # Hidden from screen readers: the page has the words of the scene beside it.
        self.root = Element(
            "svg",
            {"xmlns": "http://www.w3.org/2000/svg", "viewBox": box, "class": kind, "aria-hidden": "true"},
        )
        self._spots: dict[int, tuple[float, float, float, float]] = {}

    def spot(self, action: int, x: float, y: float, width: float, height: float) -> None:
        """Record the rectangle of `action`."""
        left, top = 100 * x / self._width, 100 * y / self._height
        self._spots[action] = (left, top, 100 * width / self._width, 100 * height / self._height)

    def picture(self) -> Picture:
        """Return what was drawn."""
        return Picture(ElementTree.tostring(self.root, encoding="unicode"), self._spots)


def add(parent: Element, tag: str, class_: str = "", text: str = "", **attributes: Any) -> Element:
    """Append an element to `parent` and return it; underscores in names become dashes.

    Attributes are numbers or texts.
    """
    given = {
        name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else f"{value:g}"
        for name, value in attributes.items()
    }
    if class_:
        given["class"] = class_
    made = ElementTree.SubElement(parent, tag, given)
    made.text = text or None
    return made


def at(parent: Element, x: float, y: float, class_: str = "", turn: float = 0.0) -> Element:
    """Append a group whose origin is at (x, y) of `parent`, turned by `turn` degrees."""
    turned = f" rotate({turn:g})" if turn else ""
    return add(parent, "g", class_, transform=f"translate({x:g} {y:g}){turned}")


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
                add(middle, "rect", "cell", **_box(CELL, CELL, 3, 7))
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
            add(group, "rect", "body", **_box(CELL, CELL, 3, 7))
            add(group, "text", "number", str(piece.seat), y=7, text_anchor="middle")
        case "head":
            turned = at(group, 0, 0, turn=turn)
            add(turned, "rect", "body", **_box(CELL, CELL, 3, 7))
            add(turned, "path", "arrow", d="M0 -26L19 2L8 2L8 24L-8 24L-8 2L-19 2Z")
            add(group, "text", "on-arrow", str(piece.seat), y=8, text_anchor="middle")
    if piece.marked:
        add(group, "circle", "halo", r=CELL * 0.45)


CARD_WIDTH, CARD_HEIGHT = 84.0, 118.0  # of a card
SIDE = 64.0  # of a die
_RED = "♥♦"
_PIPS = {  # places of the dots of a die, in thirds of its side
    "1": [(0, 0)],
    "2": [(-1, -1), (1, 1)],
    "3": [(-1, -1), (0, 0), (1, 1)],
    "4": [(-1, -1), (1, -1), (-1, 1), (1, 1)],
    "5": [(-1, -1), (1, -1), (0, 0), (-1, 1), (1, 1)],
    "6": [(-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)],
}
_SIGNS = {
    "rock": (
        "M-34 14C-38 -8 -20 -32 4 -30C28 -30 40 -8 34 12C30 28 -28 30 -34 14Z",
        "M-12 -10C-4 -18 8 -18 16 -10",
    ),
    "paper": ("M-26 -34H12L28 -18V34H-26Z", "M-16 -12H16M-16 2H16M-16 16H8M12 -34V-18H28"),
    "scissors": (
        "M-24 20A11 11 0 1 0 -2 20A11 11 0 1 0 -24 20ZM2 20A11 11 0 1 0 24 20A11 11 0 1 0 2 20Z",
        "M-8 11L16 -36M8 11L-16 -36",
    ),
}


def _box(width: float, height: float, margin: float, rx: float) -> dict[str, Any]:
    """Return the attributes of a rectangle around the origin, smaller by `margin` on each side."""
    x, y = margin - width / 2, margin - height / 2
    return {"x": x, "y": y, "width": width - 2 * margin, "height": height - 2 * margin, "rx": rx}


def size_of(item: Item) -> tuple[float, float]:
    """Return width and height of an item."""
    return (SIDE, SIDE) if item.kind == "die" else (CARD_WIDTH, CARD_HEIGHT)


def draw_item(parent: Element, item: Item, x: float, y: float) -> None:
    """Draw an item with its middle at (x, y)."""
    group = at(parent, x, y, f"item {item.kind}{' marked' if item.marked else ''}")
    width, height = size_of(item)
    box = _box(width, height, 0, 9)
    if item.face is None:
        add(group, "rect", "back", **box)
        add(group, "rect", "pattern", **_box(width, height, 8, 5))
        add(group, "text", "unknown", "?", y=14, text_anchor="middle")
    elif item.kind == "die":
        add(group, "rect", "front", **box)
        if item.face not in _PIPS:
            add(group, "text", "rank", item.face, y=12, text_anchor="middle")
        for column, row in _PIPS.get(item.face, []):
            add(group, "circle", "pip", cx=column * SIDE * 0.27, cy=row * SIDE * 0.27, r=SIDE * 0.085)
    elif item.kind == "sign":
        add(group, "rect", "front", **box)
        body, lines = _SIGNS.get(item.face, ("", ""))
        drawn = at(group, 0, -10)
        add(drawn, "path", "shape", d=body)
        add(drawn, "path", "stroke", d=lines)
        add(group, "text", "small", item.face, y=height / 2 - 12, text_anchor="middle")
    else:
        _draw_card(group, item, box)


def _draw_card(group: Element, item: Item, box: dict[str, Any]) -> None:
    assert item.face is not None
    colour = " red" if item.suit in _RED and item.suit else ""
    add(group, "rect", "front", **box)
    index = item.face[0].upper() if len(item.face) > 2 else item.face
    x, y = 15 - CARD_WIDTH / 2, 24 - CARD_HEIGHT / 2
    word = len(item.face) > 2
    for turn in (0.0,) if word else (0.0, 180.0):  # a word takes the place of the lower corner
        corner = at(group, 0, 0, turn=turn)
        add(corner, "text", f"corner{colour}", index, x=x, y=y, text_anchor="middle")
        if item.suit:
            add(corner, "text", f"corner suit{colour}", item.suit, x=x, y=y + 20, text_anchor="middle")
    add(group, "text", f"rank{colour}", item.suit or index, y=16, text_anchor="middle")
    if word:
        add(group, "text", "small", item.face, y=CARD_HEIGHT / 2 - 20, text_anchor="middle")


TABLE_WIDTH = 640.0
GAP = 12.0
# Height of the table; place and width of each hand, clockwise from the one below.
_TWO = (500.0, ((320.0, 398.0, 560.0), (320.0, 102.0, 560.0)))
_FOUR = (570.0, ((320.0, 468.0, 560.0), (92.0, 285.0, 150.0), (320.0, 102.0, 560.0), (548.0, 285.0, 150.0)))


def draw_tabletop(table: Tabletop, seat: int | None, names: Sequence[str]) -> Picture:
    """Return the picture of `table` from `seat` (`None`: the first), with the names of its seats."""
    hands = list(table.hands)
    first = next((n for n, hand in enumerate(hands) if hand.seat == seat), 0)
    hands = hands[first:] + hands[:first]
    height, places = _TWO if len(hands) < 3 else _FOUR
    canvas = Canvas(TABLE_WIDTH, height, "tabletop")
    add(canvas.root, "rect", "ground", x=4, y=4, width=TABLE_WIDTH - 8, height=height - 8, rx=28)
    for hand, (x, y, room) in zip(hands, places, strict=False):
        below = y > height / 2
        _draw_hand(canvas, hand, names[hand.seat], x, y, room, below)
        if table.chips:
            _draw_chips(canvas.root, table.chips[hand.seat], x + 180, height / 2 + (50 if below else -50))
    _draw_middle(canvas.root, table, [hand.seat for hand in hands], height)
    return canvas.picture()


def _draw_hand(canvas: Canvas, hand: Hand, name: str, x: float, y: float, room: float, below: bool) -> None:
    """Draw a hand with its middle at (x, y), no wider than `room`; `below`: at the lower edge."""
    narrow = room < 200
    group = at(canvas.root, x, y, f"hand seat{hand.seat % 4}{' turn' if hand.turn else ''}")
    line = CARD_HEIGHT / 2 + 24 if below else -CARD_HEIGHT / 2 - 12
    label = add(group, "text", "holder", "", x=0, y=line, text_anchor="middle")
    label.text = _short(name, 15 if narrow else 44)
    if hand.note:
        inside = -CARD_HEIGHT / 2 - 14 if below else CARD_HEIGHT / 2 + 26
        add(group, "text", "note", hand.note, x=0, y=inside, text_anchor="middle")
    widths = [size_of(item)[0] for item in hand.items]
    total = sum(widths) + GAP * (len(widths) - 1)
    last = widths[-1] if widths else 0.0
    squeeze = min(1.0, (room - last) / max(total - last, 1.0))
    left = -min(total, room) / 2
    for number, item in enumerate(hand.items):
        width, height = size_of(item)
        at_x = left + squeeze * sum(w + GAP for w in widths[:number]) + width / 2
        draw_item(group, item, at_x, 0)
        if item.action is not None:
            canvas.spot(item.action, x + at_x - width / 2, y - height / 2, width, height)


def _draw_middle(root: Element, table: Tabletop, seats: Sequence[int], height: float) -> None:
    """Draw what is in the middle: a card in front of the seat that put it there, else in a row."""
    x, y = TABLE_WIDTH / 2, height / 2
    ways = (
        ((0.0, 34.0), (-62.0, 0.0), (0.0, -34.0), (62.0, 0.0))
        if len(seats) > 2
        else ((0.0, 34.0), (0.0, -34.0))
    )
    owned = [item for item in table.middle if item.seat is not None]
    common = [item for item in table.middle if item.seat is None]
    for number, item in enumerate(common):
        draw_item(root, item, x + (number - (len(common) - 1) / 2) * (size_of(item)[0] + GAP), y)
    for item in owned:
        dx, dy = ways[seats.index(item.seat) % len(ways)]
        group = add(root, "g", transform=f"translate({x + dx:g} {y + dy:g}) scale(0.72)")
        draw_item(group, item, 0, 0)
    corner = len(seats) > 2
    for number, note in enumerate(table.notes):
        line = 46.0 + 26 * number if corner else y + 6 + (number - (len(table.notes) - 1) / 2) * 26
        place = 78.0 if corner else x - 190 if common else x
        add(root, "text", "said", _short(note, 30), x=place, y=line, text_anchor="middle")


def _draw_chips(root: Element, paid: int, x: float, y: float) -> None:
    """Draw a pile of chips and their number."""
    group = at(root, x, y, "chips")
    for number in range(min(paid, 8)):
        add(group, "ellipse", "chip", cx=0, cy=14 - 8 * number, rx=22, ry=9)
    add(group, "text", "amount", f"{paid} {'chip' if paid == 1 else 'chips'}", x=32, y=16)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def draw(scene: Scene, before: Scene | None, seat: int | None, names: Sequence[str]) -> Picture:
    """Return the picture of `scene`, seen from `seat`; `before` is the scene of the step before."""
    if isinstance(scene, Board):
        return draw_board(scene, before if isinstance(before, Board) else None)
    return draw_tabletop(scene, seat, names)


@cache
def style() -> str:
    """Return the style sheet of all pictures."""
    return (files("league.watching.browser") / "pictures.css").read_text(encoding="utf-8")


def frame(
    game: BatchedGame,
    scene: Scene | None,
    before: Scene | None,
    seat: int | None,
    titles: Sequence[str],
    said: Sequence[str],
    turn: Sequence[str],
    view: int | None = None,
) -> Frame:
    """Return what the page shows of slot 0, as `seat` may see it (`None`: everything), drawn for `view`."""
    text = by_order(game.render(0, seat)) if game.renders else ""
    made: Frame = {"text": text, "said": list(said), "turn": list(turn)}
    if scene is None:
        return {**made, "picture": None, "spots": {}, "words": text}
    picture = draw(scene, before, view, titles)
    return {**made, "picture": picture.svg, "spots": _spots(picture.spots), "words": by_order(scene.words)}


def _spots(spots: Mapping[int, tuple[float, float, float, float]]) -> dict[str, list[float]]:
    return {str(action): [round(number, 2) for number in place] for action, place in spots.items()}
