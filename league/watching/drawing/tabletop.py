"""Tabletops as SVG: hands around a table, seen from one seat, which is below."""

from __future__ import annotations

from collections.abc import Sequence

from league.envs.scene import Hand, Item, Tabletop
from league.watching.drawing.items import HEIGHT, draw_item, size_of
from league.watching.drawing.svg import Canvas, Element, Picture, add, at

WIDTH = 640.0
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
    canvas = Canvas(WIDTH, height, "tabletop")
    add(canvas.root, "rect", "ground", x=4, y=4, width=WIDTH - 8, height=height - 8, rx=28)
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
    line = HEIGHT / 2 + 24 if below else -HEIGHT / 2 - 12
    label = add(group, "text", "holder", "", x=0, y=line, text_anchor="middle")
    label.text = _short(name, 15 if narrow else 44)
    if hand.note:
        inside = -HEIGHT / 2 - 14 if below else HEIGHT / 2 + 26
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
    x, y = WIDTH / 2, height / 2
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
        _draw_small(root, item, x, y, *ways[seats.index(item.seat) % len(ways)])
    corner = len(seats) > 2
    for number, note in enumerate(table.notes):
        line = 46.0 + 26 * number if corner else y + 6 + (number - (len(table.notes) - 1) / 2) * 26
        place = 78.0 if corner else x - 190 if common else x
        add(root, "text", "said", _short(note, 30), x=place, y=line, text_anchor="middle")


def _draw_small(root: Element, item: Item, x: float, y: float, dx: float, dy: float) -> None:
    group = add(root, "g", "", transform=f"translate({x + dx:g} {y + dy:g}) scale(0.72)")
    draw_item(group, item, 0, 0)


def _draw_chips(root: Element, paid: int, x: float, y: float) -> None:
    """Draw a pile of chips and their number."""
    group = at(root, x, y, "chips")
    for number in range(min(paid, 8)):
        add(group, "ellipse", "chip", cx=0, cy=14 - 8 * number, rx=22, ry=9)
    add(group, "text", "amount", f"{paid} {'chip' if paid == 1 else 'chips'}", x=32, y=16)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
