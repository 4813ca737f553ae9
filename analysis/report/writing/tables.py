"""Tables: rows of a frame as HTML, with the attributes that page.js needs to sort and search them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.report.writing.markup import Content, Html, element

Row = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the content of a row's cell, and whether the content is a number."""

    heading: str
    cell: Callable[[Row], Content]
    numeric: bool = False
    title: str | None = None  # meaning of the heading, in a few words


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
    head = (
        element("th", c.heading, scope="col", class_="n" if c.numeric else None, title=c.title)
        for c in columns
    )
    body = (
        element(
            "tr",
            element("th", columns[0].cell(row), scope="row", class_="n" if columns[0].numeric else None),
            *(element("td", c.cell(row), class_="n" if c.numeric else None) for c in columns[1:]),
        )
        for row in rows
    )
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        id=id_,
        data_sortable=sortable,
        data_search=searchable,
    )
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)
