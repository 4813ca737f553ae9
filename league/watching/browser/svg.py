"""SVG elements: text is escaped, and colours come from classes of `pictures.css`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

Element = ElementTree.Element


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
    given = {name.rstrip("_").replace("_", "-"): _value(value) for name, value in attributes.items()}
    if class_:
        given["class"] = class_
    made = ElementTree.SubElement(parent, tag, given)
    made.text = text or None
    return made


def at(parent: Element, x: float, y: float, class_: str = "", turn: float = 0.0) -> Element:
    """Append a group whose origin is at (x, y) of `parent`, turned by `turn` degrees."""
    turned = f" rotate({turn:g})" if turn else ""
    return add(parent, "g", class_, transform=f"translate({x:g} {y:g}){turned}")


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
