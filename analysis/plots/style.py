"""How plots look: colours of roles, scales of colour, numbers on axes, and matplotlib's settings while
drawing.

Hues are Okabe and Ito's, which people with any colour vision tell apart (Color Universal Design, 2008);
markers and dashes tell roles apart without hue. `INK` and `PAPER` stand for the page's own colours:
`saving.svg` puts the page's in their place, so that a plot is readable on light and on dark.
"""

from __future__ import annotations

import contextlib
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
MUTED = 0.68  # opacity of what is said beside: at 4.5 : 1 and more on either page
GREY = "#8a8f94"
TITLE, TEXT, SMALL = 12.0, 9.5, 8.5  # font sizes, points of a page WIDTH wide
WIDTH = 432.0  # points: at 400 pixels a screen its small print is 7 pixels high, at 760 it is 15

_SETTINGS: Any = {  # matplotlib types each of its keys
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same widths on every machine
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "text.parse_math": False,  # a name may hold dollars
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

WIN_RATES: Colormap = LinearSegmentedColormap.from_list(
    "win rates", ["#8c3b00", "#e08a4c", "#f3f0ea", "#5fa3cf", "#08436e"], N=64
)
STRENGTHS: Colormap = ListedColormap(
    ["#2c2f6b", "#34508f", "#3c73a2", "#4d95ab", "#6fb3a5", "#9bc78f", "#c6d46f", "#e9d74f"], "strengths"
)


@dataclass(frozen=True, slots=True)
class Look:
    """What all competitors of one role share."""

    color: str
    marker: str
    dashes: tuple[float, ...]  # on, off, ... in points; empty: solid


BOT = Look(GREY, "x", (3.0, 2.0))
_ROLES: dict[str | None, Look] = {
    "main": Look("#0072b2", "o", ()),
    "main_exploiter": Look("#d55e00", "^", (6.0, 1.5)),
    "league_exploiter": Look("#009e73", "s", (6.0, 1.5, 1.0, 1.5)),
}
_OTHERS = (
    Look("#cc79a7", "D", (2.0, 1.0)),
    Look("#e69f00", "v", (8.0, 2.0)),
    Look("#56b4e9", "P", (4.0, 1.0, 1.0, 1.0, 1.0, 1.0)),
)
HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito's
BANDS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#6b5b95", "#b8b04a")
HATCHES = ("", "////", "----", "\\\\\\\\", "||||", "xxxx", "++++", "//")

_drawing = threading.RLock()


def looks(roles: Iterable[object]) -> dict[str | None, Look]:
    """The look of each role; None, that of bots. AlphaStar's roles always look the same, others share the
    remaining ones in order of their names."""
    own = sorted({str(role) for role in roles if isinstance(role, str)} - _ROLES.keys())
    found: dict[str | None, Look] = dict(_ROLES)
    found |= {role: _OTHERS[place % len(_OTHERS)] for place, role in enumerate(own)}
    return found | {None: BOT}


def role_of(value: object) -> str | None:
    """A role as a frame holds it; missing ones are None there, NaN or NA."""
    return value if isinstance(value, str) else None


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """matplotlib set up as these plots want it, whatever its user's settings are, and put back afterwards.

    Settings belong to the process: one thread draws at a time.
    """
    with _drawing, matplotlib.rc_context(), warnings.catch_warnings():
        # Text stays text in SVG: the reader's fonts may well have the letter that ours lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def steps(value: float, _: object = None) -> str:
    """A count for people: 950, 1.5k, 12M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """A share for people: 62 %, 0.4 %, under 0.1 %."""
    value = 100 * share
    if value >= 1 or value == 0:
        return f"{value:.0f} %"
    return f"{value:.1g} %" if value >= 0.1 else "under 0.1 %"


def bins(values: Floats, colors: Colormap = STRENGTHS) -> tuple[npt.NDArray[np.int64], Floats]:
    """For each of `values` [n] which of the colours it has, and the bounds of their ranges [colors + 1]:
    equal ones between the least and the greatest finite value."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    bounds = np.linspace(low, high, colors.N + 1)
    inner = np.searchsorted(bounds[1:-1], np.nan_to_num(values, nan=low), side="right")
    return inner.astype(np.int64), bounds


def spread(wanted: Floats, gap: float, low: float, high: float) -> Floats:
    """Places [n] nearest to those `wanted` (least squares), at least `gap` apart, in the same order and
    between `low` and `high`, where there is room for all."""
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
