"""Style of plots: colours of roles, colour scales, numbers on axes, and matplotlib's settings while drawing.

Hues are Okabe and Ito's, which are distinct for any colour vision (Color Universal Design, 2008). Markers and
dashes distinguish roles without hue. `saving.svg` replaces `INK` and `PAPER` by the page's own colours, so
that plots are readable on light and dark pages.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.colors import Colormap, LinearSegmentedColormap, ListedColormap

from storage.arrays import Floats

INK = "#1b1f24"
PAPER = "#fdfefe"
MUTED = 0.68  # opacity of secondary text: contrast of at least 4.5 : 1 on light and dark pages
GREY = "#8a8f94"
TITLE, TEXT, SMALL = 12.0, 9.5, 8.5  # font sizes in points, for a sheet of WIDTH
WIDTH = 360.0  # points: small text is 9 pixels high on a page of 400 pixels, 14 at the 600 of a wide one

_SETTINGS: Any = {  # matplotlib has a type for each key
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # part of matplotlib: the same widths on every machine
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "text.parse_math": False,  # a name may contain dollars
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.color": INK,
    "hatch.linewidth": 0.4,
    "figure.facecolor": PAPER,
    "savefig.facecolor": "auto",
    "path.simplify": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "checkpoint-league",
    "svg.image_inline": True,
}

WIN_RATE_COLORS = ("#8c3b00", "#e08a4c", "#f3f0ea", "#5fa3cf", "#08436e")  # at 0, 1/4, 1/2, 3/4 and 1
WIN_RATES: Colormap = LinearSegmentedColormap.from_list("win rates", WIN_RATE_COLORS, N=64)
STRENGTHS: Colormap = ListedColormap(
    ["#2c2f6b", "#34508f", "#3c73a2", "#4d95ab", "#6fb3a5", "#9bc78f", "#c6d46f", "#e9d74f"], "strengths"
)


@dataclass(frozen=True, slots=True)
class RoleStyle:
    """Colour, marker and dashes of the competitors of one role."""

    color: str
    marker: str
    dashes: tuple[float, ...]  # on, off, ... in points; empty: solid


BOT = RoleStyle(GREY, "x", (3.0, 2.0))
_ROLES: dict[str | None, RoleStyle] = {
    "main": RoleStyle("#0072b2", "o", ()),
    "main_exploiter": RoleStyle("#d55e00", "^", (6.0, 1.5)),
    "league_exploiter": RoleStyle("#009e73", "s", (6.0, 1.5, 1.0, 1.5)),
}
_OTHERS = (
    RoleStyle("#cc79a7", "D", (2.0, 1.0)),
    RoleStyle("#e69f00", "v", (8.0, 2.0)),
    RoleStyle("#56b4e9", "P", (4.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
)
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito's
BANDS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#6b5b95", "#b8b04a")
HATCHES = ("", "////", "----", "\\\\\\\\", "||||", "xxxx", "++++", "//")

_drawing = threading.RLock()


def looks(roles: Iterable[object]) -> dict[str | None, RoleStyle]:
    """Return the look of each role; `None` is the key of bots.

    AlphaStar's roles always look the same. Other roles share the remaining looks in order of their names.
    """
    own = sorted({str(role) for role in roles if isinstance(role, str)} - _ROLES.keys())
    found: dict[str | None, RoleStyle] = dict(_ROLES)
    found |= {role: _OTHERS[place % len(_OTHERS)] for place, role in enumerate(own)}
    return found | {None: BOT}


def role_of(value: object) -> str | None:
    """Return the role of a frame's value, `None` for a missing one (`None`, NaN or NA)."""
    return value if isinstance(value, str) else None


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Set matplotlib up for these plots within the block, and restore the user's settings afterwards.

    Settings belong to the process, so only one thread draws at a time.
    """
    with _drawing, matplotlib.rc_context(), warnings.catch_warnings():
        # Text stays text in SVG: a reader's fonts may have a glyph that this font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        settings: Any = matplotlib.rcParams
        dict.update(settings, _checked())
        yield


@functools.cache
def _checked() -> dict[str, Any]:
    """Return all settings, checked once: to check them for each figure takes as long as a small one."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        return {name: value for name, value in dict.items(matplotlib.rcParams) if name != "backend"}


def words(name: str) -> str:
    """Return the name of a role or of a kind of match with spaces."""
    return name.replace("_", " ")


def steps(value: float, _: object = None) -> str:
    """Return a count as text such as 950, 1.5k, 12M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share as text such as 62 %, 0.4 %, under 0.1 %."""
    value = 100 * share
    if value >= 1 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1g} %" if value >= 0.1 else "under 0.1 %"


def bins(values: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the index in STRENGTHS for each of `values` [n], and the bounds [colours + 1] of the ranges.

    Ranges are equal, between the least and the greatest finite value.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    bounds = np.linspace(low, high, STRENGTHS.N + 1)
    inner = np.searchsorted(bounds[1:-1], np.nan_to_num(values, nan=low), side="right")
    return inner.astype(np.int64), bounds


def spread(wanted: Floats, gap: float, low: float, high: float) -> Floats:
    """Return the places [n] nearest to `wanted` (least squares) that are at least `gap` apart.

    They have the same order, and are between `low` and `high` if there is room.
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[tuple[float, int]] = []  # mean, size: pool adjacent violators
    for rank, place in enumerate(order):
        mean, size = float(wanted[place]) - rank * gap, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    places = np.concatenate([np.full(size, mean) for mean, size in blocks] or [np.zeros(0)])
    places = np.clip(places, low, high - gap * max(len(wanted) - 1, 0)) + gap * np.arange(len(wanted))
    found = np.empty(len(wanted))
    found[order] = places
    return found
