"""HTML that cannot be broken by what is put into it: text is escaped unless it is `Html` already.

Names, reasons and settings come from a run, and a run may come from a stranger. So a page is built of
`element`, which escapes, and never of strings that are glued together.
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
    """Text that a browser may take as markup."""

    __slots__ = ()


Content = str | int | None


def text(value: object) -> Html:
    """`value` as it reads. What nobody would see, such as marks that turn the direction of writing, is
    spelled out: a name must not look like another."""
    plain = _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value))
    return Html(html.escape(plain, quote=True))


def join(parts: Iterable[Content]) -> Html:
    """One after the other; None is nothing."""
    return Html("".join(part if isinstance(part, Html) else text(part) for part in parts if part is not None))


def element(tag: str, *children: Content, **attributes: str | int | bool | None) -> Html:
    """`<tag attributes>children</tag>`. Attributes lose a trailing underscore (`class_`) and have dashes for
    underscores; True stands for one without a value, None and False for none."""
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
