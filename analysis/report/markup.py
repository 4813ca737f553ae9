"""What pages are drawn with: templates that escape all text, and sections, tables and paragraphs.

Names, reasons and settings come from a run, and the author of a run may be unknown. So markup is written in
templates (`templates/*.html`), which escape every value that is not `Html` already, and spell out characters
that cannot be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup as Html

from analysis.report import phrases

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_FOLDERS: Final = ("report/templates", "server")

Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a page. Its `id` is constant, so that a live page can replace the element of that id."""

    id: str
    title: str
    html: str  # the whole `<section id=...>`, its heading included


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the content of a row's cell, and whether the content is a number."""

    heading: str
    cell: Callable[[Row], str | int | None]
    numeric: bool = False
    title: str | None = None  # meaning of the heading, in a few words


def visible(plain: str) -> str:
    """Return `plain` with invisible characters as escape sequences, so that no name can look like another.

    Marks that change the direction of writing are such characters.
    """
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)


@cache
def resource(path: str) -> str:
    """Return the text of a file of the package, such as `report/style.css`."""
    return (files("analysis") / path).read_text(encoding="utf-8")


def draw(template: str, **data: Any) -> str:
    """Return what the template of that file name draws from `data`. Raise UndefinedError for missing data."""
    return _environment().get_template(template).render(data)


def part(name: str, **data: Any) -> Html:
    """Return what the macro `name` of `parts.html` draws from `data`, for use in a template."""
    macro: Callable[..., Html] = getattr(_environment().get_template("parts.html").module, name)
    return macro(**data)


def drawn(template: str, id_: str, title: str, **data: Any) -> Section:
    """Return the section that a template, an extension of `section.html`, draws from `data`."""
    return Section(id_, title, draw(template, id=id_, title=title, **data))


def section(id_: str, title: str, *parts: str | None) -> Section:
    """Return a section of these parts; `None` is left out, and text that is not `Html` is escaped."""
    return drawn("section.html", id_, title, parts=parts)


def paragraph(*parts: str | None) -> Html:
    """Return a paragraph of these parts; `None` is left out."""
    return part("paragraph", parts=parts)


def bullets(items: Sequence[str]) -> Html | None:
    """Return a bullet list, or `None` if there are no items."""
    return part("bullets", items=items) if items else None


def table(
    id_: str,
    caption: str,
    columns: list[Column],
    rows: Iterable[Row],
    *,
    sortable: bool = False,
    searchable: str | None = None,
) -> Html:
    """Return a table in a region that scrolls by itself. The first column is the heading of its row.

    `sortable`: page.js turns the headings into buttons. `searchable`: label of the search field, if any.
    """
    shown = {"columns": columns, "rows": list(rows), "sortable": sortable, "searchable": searchable}
    return part("table", id=id_, caption=caption, **shown)


@cache
def _environment() -> Environment:
    """Return the environment of all templates; each phrase is a filter."""
    environment = Environment(
        loader=FileSystemLoader([str(files("analysis") / folder) for folder in _FOLDERS]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_finalize,
    )
    for name in ("count", "listed", "moment", "number", "percent", "probability", "short", "span", "whole"):
        environment.filters[name] = getattr(phrases, name)
    environment.filters |= {"ended": phrases.sentence, "words": phrases.words}
    return environment


def _finalize(value: object) -> object:
    """Return what is to be shown of a value of a template, before it is escaped."""
    if value is None:
        return ""
    return value if isinstance(value, Html) else visible(str(value))
