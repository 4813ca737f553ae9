"""Numbers, spans of time and lists as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.plots.style import words as words
from analysis.statistics.strength import wording

MISSING = "–"
SPACE = "\N{NO-BREAK SPACE}"  # between a number and its unit


def count(value: float, unit: str = "", plural: str | None = None) -> str:
    """Return text such as `1,234 matches`; the default plural is the unit with an s."""
    number = f"{round(value):,}"
    return number if not unit else f"{number} {unit if round(value) == 1 else plural or unit + 's'}"


def short(value: float) -> str:
    """Return text such as `1.2 M`, with three figures at most."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{SPACE}{letter}"
    return f"{value:.3g}"


def number(value: Any, digits: int = 2) -> str:
    """Return `value` rounded to `digits`, or a dash if it is unknown."""
    if value is None or pd.isna(value):
        return MISSING
    return f"{value:,.{digits}f}" if math.isfinite(value) else ("∞" if value > 0 else "−∞")


def whole(value: Any) -> str:
    """Return `value` as a whole number, or a dash if it is unknown."""
    return MISSING if value is None or pd.isna(value) else f"{int(value):,}"


def percent(share: float) -> str:
    """Return a share in percent; only exact 0 and 1 become 0 % and 100 %."""
    if 0.0 < share < 0.005:
        return f"under 1{SPACE}%"
    if 0.995 <= share < 1.0:
        return f"over 99{SPACE}%"
    return f"{100.0 * share:.0f}{SPACE}%"


def span(minutes: float) -> str:
    """Return text such as `under a second`, `35 seconds`, `4.5 minutes`, `3.2 hours`, `2.1 days`."""
    for size, unit in ((1440.0, "day"), (60.0, "hour"), (1.0, "minute")):
        if (value := minutes / size) >= 2.0:
            return f"{value:.2g} {unit}s" if value < 10 else f"{value:.0f} {unit}s"
    return "under a second" if 0.0 < minutes < 1.0 / 60.0 else count(minutes * 60.0, "second")


def moment(when: Any) -> str:
    """Return a time in UTC, to the second."""
    return MISSING if when is None or pd.isna(when) else f"{pd.Timestamp(when):%Y-%m-%d %H:%M:%S} UTC"


def probability(p: Any) -> str:
    """Return a probability as text, never 1 or 0: no measurement is certain."""
    if p is None or pd.isna(p):
        return MISSING
    return wording.probability(float(p))


def sentence(line: str) -> str:
    """Return `line` with a full stop and a capital for a leading `the`: other first words may be names."""
    line = f"The {line[4:]}" if line.startswith("the ") else line
    return line if line.endswith((".", "!", "?")) else f"{line}."


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return text such as `a, b and c` or `a, b, c, d and 7 more`."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
