"""Sheet: the figure of a plot with its title, subtitle and legend, all placed in points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.plots.style import (
    INK,
    MUTED,
    PAPER,
    SMALL,
    STRENGTHS,
    TEXT,
    TITLE,
    WIDTH,
    bins,
    looks,
    steps,
    words,
)
from storage.arrays import Floats
from storage.errors import Mistake

EDGE = 8.0  # margin in points
LINE = 1.25  # line height relative to the font size


class Sheet:
    """A figure of WIDTH points with a title on top; below it `body` points of height for axes.

    A pixel of the figure is a point (dpi 72), so that matplotlib measures in points too. Its texts have the
    labels "title" and "subtitle".
    """

    def __init__(self, name: str, title: str, subtitle: str, body: float) -> None:
        self.figure = Figure(figsize=(1.0, 1.0), dpi=72)
        self.figure.set_label(name)
        inner = WIDTH - 2 * EDGE
        self._head = [
            ("title", line, TITLE, "bold") for line in self.wrapped(printable(title), inner, TITLE, "bold")
        ]
        self._head += [("subtitle", line, SMALL, "normal") for line in self.wrapped(subtitle, inner, SMALL)]
        self.resize(body)

    def resize(self, body: float) -> None:
        """Change the height of the body. Call this before placing anything in it."""
        self.body = body
        self.height = body + EDGE + sum(size * LINE for _, _, size, _ in self._head) + 8 + EDGE
        self.figure.set_size_inches(WIDTH / 72, self.height / 72)
        for text in tuple(self.figure.texts):
            text.remove()
        top = self.height - EDGE
        for label, line, size, weight in self._head:
            y, alpha = top / self.height, MUTED if label == "subtitle" else 1.0
            self.figure.text(
                EDGE / WIDTH, y, line, size=size, weight=weight, alpha=alpha, va="top", label=label
            )
            top -= size * LINE

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Return new axes at a place of the body, in points from its lower left corner."""
        rect = (left / WIDTH, (bottom + EDGE) / self.height, width / WIDTH, height / self.height)
        return self.figure.add_axes(rect)

    def fit(self, axes: Axes, bottom: float = 0.0) -> None:
        """Move the left and lower edges of `axes`: its labels then begin at EDGE and `bottom`."""
        box = axes.get_tightbbox(_renderer(), for_layout_only=False)
        assert box is not None
        place = axes.get_position().transformed(self.figure.transFigure)
        left, bottom = place.x0 + EDGE - box.x0, place.y0 + bottom + EDGE - box.y0
        size = (place.x1 - left) / WIDTH, (place.y1 - bottom) / self.height
        axes.set_position((left / WIDTH, bottom / self.height, *size))

    def width_of(self, text: str, size: float, weight: str = "normal") -> float:
        """Return the width of `text` in points."""
        return _measured(text, size, weight)

    def wrapped(self, text: str, width: float, size: float, weight: str = "normal") -> list[str]:
        """Return `text` in lines of at most `width` points."""
        space = self.width_of("a a", size, weight) - 2 * self.width_of("a", size, weight)
        lines: list[list[str]] = []
        left = 0.0
        for word in printable(text).split():
            word = self.elided(word, width, size, weight)
            taken = self.width_of(word, size, weight)
            if lines and taken + space <= left:
                lines[-1].append(word)
                left -= taken + space
            else:
                lines.append([word])
                left = width - taken
        return [" ".join(line) for line in lines]

    def elided(self, text: str, width: float, size: float = SMALL, weight: str = "normal") -> str:
        """Return `text`, shortened in the middle to `width` points: names differ at their ends."""
        text = printable(text)
        if self.width_of(text, size, weight) <= width:
            return text
        best, least, most = "…", 2, min(len(text), 120) - 1
        while least <= most:
            kept = (least + most) // 2
            short = f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"
            if self.width_of(short, size, weight) <= width:
                best, least = short, kept + 1
            else:
                most = kept - 1
        return best


@cache
def _renderer() -> RendererAgg:
    """Return what measures texts; a pixel is a point."""
    return FigureCanvasAgg(Figure(figsize=(1.0, 1.0), dpi=72)).get_renderer()


@lru_cache(maxsize=8192)
def _measured(text: str, size: float, weight: str) -> float:
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(_renderer().get_text_width_height_descent(text, font, ismath=False)[0])


def printable(text: str) -> str:
    """Return `text` with a replacement for characters that XML forbids or that break a line."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def one_run(*frames: pd.DataFrame) -> None:
    """Raise Mistake if the frames are of several runs, whose players may have the same names."""
    runs = sorted({str(run) for frame in frames if "run" in frame for run in frame["run"].unique()})
    if len(runs) > 1:
        named = ", ".join(runs[:3]) + " ..." * (len(runs) > 3)
        raise Mistake(
            f"plots: found frames of {len(runs)} runs ({named}), expected one: choose it by the column 'run'"
        )


def message(name: str, title: str, sentence: str) -> Figure:
    """Return a figure with a message instead of a plot."""
    sheet = Sheet(name, title, "", 60)
    for place, line in enumerate(sheet.wrapped(sentence, WIDTH - 4 * EDGE, TEXT)):
        y = (EDGE + 46 - place * TEXT * LINE) / sheet.height
        sheet.figure.text(0.5, y, line, size=TEXT, ha="center", va="top", alpha=MUTED, label="message")
    return sheet.figure


def step_axis(axes: Axes, values: Any, label: str = "env steps of the league", ticks: int = 5) -> None:
    """Set up the x axis in env steps, with at most `ticks` ticks such as 0, 500k, 1M."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    high = float(finite.max()) if len(finite) else 1.0
    low = min(float(finite.min()), 0.0) if len(finite) else 0.0
    room = (high - low or 1.0) * 0.02
    axes.set_xlim(low - room, (high if high > low else low + 1.0) + room)
    if high > low:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10]))
    else:
        axes.set_xticks([low])
    axes.xaxis.set_major_formatter(FuncFormatter(steps))
    axes.set_xlabel(label)


def grid(axes: Axes, which: Any = "y") -> None:
    """Draw faint lines behind the plot."""
    axes.grid(True, axis=which, color=INK, alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)


def paths(axes: Axes, xs: Sequence[Any], ys: Sequence[Any], **look: Any) -> None:
    """Draw the n lines through the points of `xs` and `ys`, each [n] or one for all, as one path.

    A vertical bar is `[x, x], [low, high]`. One path is fast for thousands of lines.
    """
    gap = np.full(len(xs[0]), np.nan)
    points = [np.column_stack([*(np.broadcast_to(one, gap.shape) for one in each), gap]) for each in (xs, ys)]
    axes.plot(points[0].ravel(), points[1].ravel(), **look)


def marks(axes: Axes, x: Any, y: Any, marker: str, size: float, **look: Any) -> None:
    """Draw a marker of this size at each of n points, without a line."""
    axes.plot(x, y, linestyle="none", marker=marker, markersize=size, **look)


def strength_marks(
    axes: Axes,
    at: tuple[Floats, Floats],
    mu: Floats,
    kinds: Iterable[tuple[str, npt.NDArray[np.bool_], str, float]],
    **look: Any,
) -> None:
    """Draw a marker at each of the points `at` [n], coloured by rating: one path for each kind and colour.

    `kinds` have a label, the points of that kind [n], marker and size.
    """
    level = np.where(np.isfinite(mu), bins(mu)[0], -1)
    for label, own, marker, size in kinds:
        for color in np.unique(level):
            chosen = own & (level == color)
            if chosen.any():
                face = STRENGTHS(int(color)) if color >= 0 else PAPER
                own_look = {"markeredgecolor": INK, "markerfacecolor": face, "label": f"{label} {color}"}
                marks(axes, at[0][chosen], at[1][chosen], marker, size, **own_look, **look)


def cells(axes: Axes, colors: npt.NDArray, extent: tuple[float, float, float, float]) -> AxesImage:
    """Draw `colors` [rows, columns, 3 or 4], in [0, 1], as sharp cells that fill `extent`."""
    shown = (colors * 255).round().astype(np.uint8)
    return axes.imshow(shown, extent=extent, aspect="auto", interpolation="none")


def color_scale(
    sheet: Sheet,
    place: tuple[float, float, float],
    colors: Colormap,
    ticks: Sequence[float],
    labels: Sequence[str],
    most: float,
) -> Axes:
    """Draw a colour scale from 0 to `most` at `place` (left, bottom, width), and return its axes."""
    left, bottom, width = place
    bar = sheet.axes(left, bottom, width, 7)
    cells(bar, colors(np.arange(colors.N))[None, :, :3], (0, most, 0, 1))
    bar.set_yticks([])
    bar.set_xticks(ticks, labels)
    bar.tick_params(length=0, pad=3)
    bar.spines[:].set_visible(False)
    return bar


def key(color: str, marker: str, text: str, **look: Any) -> Line2D:
    """Return an entry of a legend: a marker in a colour."""
    own = {"linestyle": "none", "markersize": 5.0, "markeredgecolor": color, **look}
    return Line2D([], [], color=color, marker=marker, label=printable(text), **own)


def role_keys(roles: Iterable[str | None]) -> list[Patch]:
    """Return an entry of a legend for each role, bots last."""
    present = set(roles)
    return [
        Patch(facecolor=look.color, label=printable(words(role or "bots")))
        for role, look in looks(present).items()
        if role in present
    ]


def legend(sheet: Sheet, handles: Sequence[Artist], bottom: float) -> None:
    """Draw a legend at `bottom` points of the body, in as many rows as needed."""
    if not handles:
        return
    sheet.figure.legend(
        handles=list(handles),
        loc="lower left",
        bbox_to_anchor=(EDGE / WIDTH, (bottom + EDGE) / sheet.height),
        bbox_transform=sheet.figure.transFigure,
        ncols=_columns(sheet, handles),
        frameon=False,
        fontsize=SMALL,
        borderaxespad=0.0,
        borderpad=0.0,
        handletextpad=0.5,
        handlelength=1.2,
        columnspacing=1.2,
        labelspacing=0.35,
    )


def legend_height(sheet: Sheet, handles: Sequence[Artist]) -> float:
    """Return the height of the legend of these handles in points."""
    return -(-len(handles) // _columns(sheet, handles)) * SMALL * 1.5 + 6 if handles else 0.0


def strength_scale(sheet: Sheet, bottom: float, bounds: Floats) -> None:
    """Draw the colour scale of ratings with the bounds of its ranges."""
    text = "rating μ"
    left = EDGE + sheet.width_of(text, SMALL) + 8
    shown = list(range(0, len(bounds), 2))
    labels = [f"{bounds[place]:.1f}" for place in shown]
    bar = color_scale(sheet, (left + 10, bottom + 14, 160), STRENGTHS, shown, labels, STRENGTHS.N)
    bar.text(-14 / 20, 0.5, text, ha="right", va="center", size=SMALL, alpha=MUTED)


def _columns(sheet: Sheet, handles: Sequence[Artist]) -> int:
    for handle in handles:
        handle.set_label(sheet.elided(str(handle.get_label()), WIDTH - 2 * EDGE - 27))
    widest = max(sheet.width_of(str(handle.get_label()), SMALL) for handle in handles) + 27
    return max(1, min(len(handles), int((WIDTH - 2 * EDGE + 10) // widest)))
