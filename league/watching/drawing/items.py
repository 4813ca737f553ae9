"""Cards, dice and signs as SVG, each drawn around the middle of its place."""

from __future__ import annotations

from typing import Any

from league.envs.scene import Item
from league.watching.drawing.svg import Element, add, at

WIDTH, HEIGHT = 84.0, 118.0  # of a card
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


def size_of(item: Item) -> tuple[float, float]:
    """Return width and height of an item."""
    return (SIDE, SIDE) if item.kind == "die" else (WIDTH, HEIGHT)


def draw_item(parent: Element, item: Item, x: float, y: float) -> None:
    """Draw an item with its middle at (x, y)."""
    group = at(parent, x, y, f"item {item.kind}{' marked' if item.marked else ''}")
    width, height = size_of(item)
    box: dict[str, Any] = {"x": -width / 2, "y": -height / 2, "width": width, "height": height, "rx": 9.0}
    if item.face is None:
        add(group, "rect", "back", **box)
        inner: dict[str, Any] = {
            "x": 8 - width / 2,
            "y": 8 - height / 2,
            "width": width - 16,
            "height": height - 16,
            "rx": 5.0,
        }
        add(group, "rect", "pattern", **inner)
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
    x, y = 15 - WIDTH / 2, 24 - HEIGHT / 2
    word = len(item.face) > 2
    for turn in (0.0,) if word else (0.0, 180.0):  # a word takes the place of the lower corner
        corner = at(group, 0, 0, turn=turn)
        add(corner, "text", f"corner{colour}", index, x=x, y=y, text_anchor="middle")
        if item.suit:
            add(corner, "text", f"corner suit{colour}", item.suit, x=x, y=y + 20, text_anchor="middle")
    add(group, "text", f"rank{colour}", item.suit or index, y=16, text_anchor="middle")
    if word:
        add(group, "text", "small", item.face, y=HEIGHT / 2 - 20, text_anchor="middle")
