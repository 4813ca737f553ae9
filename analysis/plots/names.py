"""Names of snapshots as people read them: `main-0 · 55.1M` for `main-0@55069421`, by their env steps.

They are for pages and plots alone; tables, SQL and commands have the exact names.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec
from weakref import WeakKeyDictionary
from xml.sax.saxutils import escape

import pandas as pd
from matplotlib.figure import Figure

from analysis.plots.sheet import printable
from analysis.plots.style import drawing

P = ParamSpec("P")

_STEPS = re.compile(r"(@|(?<= to )|(?<= from ))(\d+)(?![\w.])")
_COLUMNS = ("competitor", "home", "away", "snapshot_id", "parent_id", "yardstick")
_MOST_DIGITS = 9
_TEXT = re.compile(r"(<text\b[^>]*>)([^<]*)(</text>)")
_exact: WeakKeyDictionary[Figure, Mapping[str, str]] = WeakKeyDictionary()  # by the names that are shown


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return each of `names` as it is shown: different names differ, by as many digits as that takes."""
    exact = set(names)
    for digits in range(3, _MOST_DIGITS):
        shown = {name: _STEPS.sub(functools.partial(_shorter, digits=digits), name) for name in exact}
        if len(set(shown.values())) == len(exact):
            return shown
    return {name: name for name in exact}


def _shorter(found: re.Match[str], digits: int) -> str:
    value = float(f"{int(found[2]):.{digits}g}")
    size, unit = next(((s, u) for s, u in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s), (1.0, ""))
    return f"{' · ' if found[1] else ''}{value / size:.{digits}g}{unit}"


def with_short_names(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Return `draw` in our style, with the names in its frames as they are shown."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        frames = [given for given in (*args, *kwargs.values()) if isinstance(given, pd.DataFrame)]
        shown = short_names(
            name
            for frame in frames
            for column in _COLUMNS
            if column in frame
            for name in frame[column].unique()
            if isinstance(name, str)
        )

        def turned(given: Any) -> Any:
            if not isinstance(given, pd.DataFrame):
                return given
            own = {c: given[c].astype(object).map(lambda n: shown.get(n, n)) for c in _COLUMNS if c in given}
            return given.assign(**own) if own else given.rename(index=shown, columns=shown)

        with drawing():
            figure = draw(*map(turned, args), **{name: turned(given) for name, given in kwargs.items()})
        _exact[figure] = {short: name for name, short in shown.items() if short != name}
        return figure

    return drawn


def with_exact(svg: str, figure: Figure) -> str:
    """Return the SVG of `figure` with the exact name of each snapshot that a text names, for the pointer."""
    exact = {escape(short): escape(printable(name)) for short, name in _exact.get(figure, {}).items()}

    def explained(found: re.Match[str]) -> str:
        inside = [short for short in exact if short in found[2]]
        if not inside:
            return found[0]
        longest = max(inside, key=lambda short: (len(short), short))
        return f"{found[1]}{found[2]}<title>{exact[longest]}</title>{found[3]}"

    return _TEXT.sub(explained, svg) if exact else svg
