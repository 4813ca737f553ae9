"""Safe HTML: text is escaped unless it is `Html` already.

Names, reasons and settings come from a run, and the author of a run may be unknown. So pages are built with
`element`, which escapes text, and never by joining strings.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final

_VOID: Final = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


class Html(str):
    """Text that a browser may read as markup."""

    __slots__ = ()


Content = str | int | None


def text(value: object) -> Html:
    """Return `value` as escaped text, without invisible characters."""
    return Html(html.escape(visible(str(value)), quote=True))


def visible(plain: str) -> str:
    """Return `plain` with invisible characters as escape sequences, so that no name can look like another.

    Marks that change the direction of writing are such characters.
    """
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)


def join(parts: Iterable[Content]) -> Html:
    """Return all parts joined, text escaped; `None` is left out."""
    return Html("".join(part if isinstance(part, Html) else text(part) for part in parts if part is not None))


def element(tag: str, *children: Content, **attributes: str | int | bool | None) -> Html:
    """Return `<tag attributes>children</tag>`.

    Names of attributes lose a trailing underscore (`class_`), and other underscores become dashes. `True` is
    an attribute without a value; `None` and `False` leave the attribute out. Raise ValueError for an invalid
    name.
    """
    given = [
        _attribute(name, value)
        for name, value in attributes.items()
        if value is not None and value is not False
    ]
    opening = "".join([f"<{_name(tag)}", *given, ">"])
    return Html(opening) if tag in _VOID else Html(f"{opening}{join(children)}</{tag}>")


def _attribute(name: str, value: str | int | bool) -> str:
    name = _name(name.rstrip("_").replace("_", "-"))
    return f" {name}" if value is True else f' {name}="{text(value)}"'


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"found '{name}', expected the name of an element or attribute")
    return name
