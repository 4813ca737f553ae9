"""Section: the unit of a report, and the unit that a live page replaces."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.report.writing.markup import Html, element


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a page. Its `id` is constant, so that a live page can replace the element of that id."""

    id: str
    title: str
    html: str  # the whole `<section id=...>`, its heading included


def section(id_: str, title: str, *parts: str | None) -> Section:
    """Return a section of these parts; `None` is left out."""
    heading = element("h2", title, id=f"{id_}-title")
    body = element("section", heading, *parts, id=id_, aria_labelledby=f"{id_}-title")
    return Section(id_, title, body)


def paragraph(*parts: str | None, class_: str | None = None) -> Html:
    """Return a paragraph of these parts; `None` is left out."""
    return element("p", *parts, class_=class_)


def bullets(items: list[Html] | list[str], class_: str | None = None) -> Html | None:
    """Return a bullet list, or `None` if there are no items."""
    return element("ul", *(element("li", item) for item in items), class_=class_) if items else None
