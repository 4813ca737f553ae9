"""Heatmap of the payoff: win rates between competitors, or leads in score."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.plots.names import with_short_names
from analysis.plots.pairings import Pairings, between, filled_in, pairings
from analysis.plots.sheet import (
    EDGE,
    Sheet,
    cells,
    color_scale,
    legend,
    legend_height,
    message,
    one_run,
    role_keys,
)
from analysis.plots.style import GREY, INK, SMALL, TEXT, WIDTH, WIN_RATES, RoleStyle, looks
from analysis.solution import nash_clusters
from storage.arrays import Floats

CELLS = 200  # largest number of rows: about two per point of the page's width
NAMED = 100  # largest number of names beside the rows; a chart with as many rows names all of them
NUMBERED = 12  # most competitors for which cells show numbers

RULED = 40  # most lines between clusters; more would cover the cells
FEW = 10  # games that an opponent needs to be named the hardest
SCALE_HEIGHT = 30.0  # height of the colour scale in points

Order = Literal["rating", "nash_cluster"]


@with_short_names
def payoff_heatmap(
    payoff: pd.DataFrame,
    leaderboard: pd.DataFrame,
    order: Order = "rating",
    *,
    filled: pd.DataFrame | None = None,
    most: int = 0,
) -> Figure:
    """Draw points per game of each row against each column, or its lead in score where games count scores.

    Rows and columns are in the order of the leaderboard, or by Nash cluster and by that order within it.
    Pairings that were never played are hatched.

    `payoff` and `leaderboard` are History's frames of one run; `filled` is `Payoffs.matrix()` of that payoff
    with competitors as index and columns, computed here if it is not given (for Nash clusters only). With
    more than CELLS competitors a cell is the mean over the played pairings of a block of neighbours. With
    `most` only so many are drawn: the first, and of each stretch of the order the one with most games.
    """
    one_run(payoff, leaderboard)
    payoff = between(payoff)
    if payoff.empty:
        return message(
            "payoff", "No payoffs yet", "No two competitors have met: there is nothing to compare."
        )
    table = pairings(payoff, leaderboard)
    edges: list[int] = []
    if order == "nash_cluster":
        clusters = nash_clusters(filled_in(payoff, table, filled))
        edges = np.cumsum([len(cluster) for cluster in clusters])[:-1].tolist()  # where later clusters begin
        table = table.ordered(np.concatenate([np.sort(cluster) for cluster in clusters]))
    title = _cluster_title(table, edges) if edges else _title(table)
    whole, places = len(table.names), np.arange(len(table.names))
    if 0 < most < whole:  # the first, and of each stretch the one with most games
        games = table.games.sum(1)
        games[0] = np.inf
        places = np.array([part[games[part].argmax()] for part in np.array_split(places, most)])
        table, edges = table.ordered(places), []
    count = len(table.names)
    block = -(-count // CELLS)
    shown = blocks(table.score, block)
    of_role = looks(table.roles)
    keys = role_keys(table.roles)
    caption = _caption(table, block, len(edges) + 1 if edges else 0, whole)
    sheet = Sheet("payoff", title, caption, 400)
    below = legend_height(sheet, keys) + SCALE_HEIGHT
    rows = list(range(0, count, -(-count // NAMED)))
    labels = [f"{places[row] + 1}  {sheet.elided(table.names[row], 152)}" for row in rows]
    left = EDGE + max(sheet.width_of(label, SMALL) for label in labels) + 16
    side = WIDTH - left - EDGE
    tall = max(side, 1.25 * SMALL * len(rows))
    sheet.resize(below + tall + 34)
    axes = sheet.axes(left, below + 30, side, tall)
    _cells(axes, shown, count)
    _names(sheet, axes, rows, labels, [str(place + 1) for place in places], side)
    _roles(sheet, axes, table, of_role)
    for edge in edges if len(edges) <= RULED else ():
        for line in (axes.axhline, axes.axvline):
            line(edge - 0.5, color=INK, linewidth=0.8 if len(edges) < 12 else 0.4, label="cluster")
    if count <= NUMBERED:
        _numbers(axes, table)
    _scale(sheet, below - SCALE_HEIGHT, table.most)
    legend(sheet, keys, 0.0)
    return sheet.figure


def blocks(score: Floats, block: int) -> Floats:
    """Return the means of square blocks of `score` [N, N], without its diagonal.

    The result is [ceil(N / block), ceil(N / block)]. A block in which all values are NaN is NaN.
    """
    if block == 1:
        return score
    score = score.copy()
    np.fill_diagonal(score, np.nan)
    size = -(-len(score) // block) * block
    padded = np.full((size, size), np.nan)
    padded[: len(score), : len(score)] = score
    grid = padded.reshape(size // block, block, size // block, block).swapaxes(1, 2)
    played = ~np.isnan(grid)
    count = played.sum((2, 3))
    total = np.where(played, grid, 0.0).sum((2, 3))
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _title(table: Pairings) -> str:
    """Return a title on the best rated competitor with many opponents, and its hardest opponent."""
    met = table.games > 0
    known = met.sum(1)
    # Newcomers are excluded: they have met few opponents.
    best = int(np.argmax(known >= known.max() / 2))
    opponents = np.flatnonzero(met[best])
    ahead = int((table.score[best, opponents] > 0.5).sum())
    often = opponents[table.games[best, opponents] >= min(FEW, table.games[best].max())]
    hardest = int(often[np.argmin(table.score[best, often])])
    per_game = "" if table.most is None else " per game"
    points = f"{table.value(best, hardest)}{per_game} in {table.games[best, hardest]:,.0f} games"
    plural = "s" * (len(opponents) > 1)
    ahead_of = f"{table.names[best]} is ahead of {ahead} of its {len(opponents)} opponent{plural}"
    return f"{ahead_of}; hardest: {table.names[hardest]}, {points}"


def _cluster_title(table: Pairings, edges: list[int]) -> str:
    first = table.names[: edges[0]]
    if len(first) == 1:
        return f"{first[0]} is the first Nash cluster by itself"
    named = ", ".join(first[:2]) + (f" and {len(first) - 2} more" if len(first) > 2 else "")
    return f"{len(first)} competitors form the first Nash cluster: {named}"


def _caption(table: Pairings, block: int, clusters: int, whole: int) -> str:
    count = len(table.names)
    unruled = " (too many to rule lines between)" if clusters > RULED + 1 else ""
    order = f"in {clusters} Nash clusters{unruled}, the strongest first"
    order = order if clusters else "by rating, the best first"
    what = "Points" if table.most is None else "Lead in score"
    who = f"{count} competitors" if count == whole else f"{count} of {whole} competitors, spread evenly,"
    text = f"{what} per game of the row against the column, {who} {order}."
    pairs = count * (count - 1) // 2
    unmet = int((table.games[np.triu_indices(count, 1)] == 0).sum())
    if unmet:
        text += f" {unmet:,} of {pairs:,} pairings were never played (hatched)."
    if block > 1:
        text += f" A cell is the mean over {block} × {block} neighbours."
    return text


def _cells(axes: Axes, shown: Floats, count: int) -> None:
    colors = WIN_RATES(np.nan_to_num(shown, nan=0.5))
    colors[np.isnan(shown), 3] = 0.0
    if len(shown) == count:
        np.fill_diagonal(colors[..., 3], 0.0)
    span = len(shown) * -(-count // len(shown))  # the last block may be cut
    unmet: Any = {"facecolor": "none", "edgecolor": to_rgba(INK, 0.45), "hatch": "////", "linewidth": 0}
    axes.add_patch(Rectangle((-0.5, -0.5), count, count, zorder=-1, **unmet))
    extent = (-0.5, span - 0.5, span - 0.5, -0.5)
    cells(axes, colors, extent).set_label("cells")
    if len(shown) == count:
        own = np.zeros((count, count, 4))
        own[np.arange(count), np.arange(count)] = to_rgba(GREY)
        cells(axes, own, extent).set_label("diagonal")
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(count - 0.5, -0.5)


def _names(
    sheet: Sheet, axes: Axes, rows: list[int], labels: list[str], places: list[str], side: float
) -> None:
    """Draw names beside rows, but only places below columns, which need no rotation."""
    axes.set_axis_off()  # texts alone: a tick takes matplotlib five times as long
    box = axes.get_position()
    beside, below = -9 / (WIDTH * box.width), -3 / (sheet.height * box.height)
    for row, label in zip(rows, labels, strict=True):
        look: Any = {"size": SMALL, "ha": "right", "va": "center_baseline", "label": "row"}
        axes.text(beside, row, label, transform=axes.get_yaxis_transform(), **look)
    widest = sheet.width_of(places[-1], SMALL) + 8
    for column in rows[:: -(-len(rows) // max(int(side // widest), 1))]:
        look = {"size": SMALL, "ha": "center", "va": "top"}
        axes.text(column, below, places[column], transform=axes.get_xaxis_transform(), **look)
    lower = below * (5.5 + 1.2 * SMALL) / 3
    axes.text(0.5, lower, "opponent, by place", transform=axes.transAxes, size=TEXT, ha="center", va="top")


def _roles(sheet: Sheet, axes: Axes, table: Pairings, of_role: dict[str | None, RoleStyle]) -> None:
    """Draw a strip between names and cells in the colours of the rows' roles."""
    box = axes.get_position()
    strip = sheet.figure.add_axes((box.x0 - 8 / WIDTH, box.y0, 5 / WIDTH, box.y1 - box.y0))
    rows: Floats = np.array([to_rgb(of_role[role].color) for role in table.roles])
    cells(strip, rows[:, None], (0, 1, len(rows) - 0.5, -0.5))
    strip.set_axis_off()


def _numbers(axes: Axes, table: Pairings) -> None:
    for row, column in np.argwhere(np.isfinite(table.score) & ~np.eye(len(table.names), dtype=bool)):
        value = table.score[row, column]
        color = "#ffffff" if abs(value - 0.5) > 0.28 else "#111111"
        shown = f"{100 * value:.0f}" if table.most is None else table.value(row, column)
        axes.text(column, row, shown, ha="center", va="center", size=SMALL, color=color, label="cell")


def _scale(sheet: Sheet, bottom: float, most: float | None) -> None:
    """Draw the colour scale of win rates, or of leads up to `most`."""
    ends = ["0 %", "50 %", "100 % of points"]
    if most is not None:
        ends = [f"{-most:.3g}", "0", f"{most:+.3g} a game"]
    bar = color_scale(sheet, (EDGE + 20, bottom + 17, 120), WIN_RATES, [0, 0.5, 1], ends, 1)
    bar.get_xticklabels()[-1].set(horizontalalignment="left", x=0)
