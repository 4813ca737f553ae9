"""Response graph: an arrow from each competitor to the opponent that it does worst against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from analysis.plots.names import with_short_names
from analysis.plots.pairings import Pairings, between, filled_in, pairings
from analysis.plots.sheet import EDGE, Sheet, legend, legend_height, message, one_run, printable, role_keys
from analysis.plots.style import GREY, INK, MUTED, SMALL, WIDTH, looks
from analysis.solution import alpha_rank
from storage.arrays import Floats, Indices

NODES = 16  # most competitors with their own node: those with most mass
PRIOR_GAMES = 2.0  # drawn games added to each pairing: one lost game is not significant
CYCLE = "#d55e00"
_RADIUS = 124.0  # radius of the circle of nodes in points
_ROW = SMALL * 1.45
_BESIDE = 76.0  # points beside a name, for its number and share


@dataclass(frozen=True, slots=True)
class Responses:
    """Response graph over N competitors."""

    hardest: Indices  # [N] worst opponent of each; -1: it loses to no other
    score: Floats  # [N] points per game against it, with the prior
    mass: Floats  # [N] share in alpha-rank's stationary distribution
    end: Indices  # [N] end of the arrows from each: one without an arrow, or the first member of a cycle
    cyclic: npt.NDArray[np.bool_]  # [N] whether it is part of a cycle


@with_short_names
def response_graph(
    payoff: pd.DataFrame, leaderboard: pd.DataFrame, *, filled: pd.DataFrame | None = None
) -> Figure:
    """Draw a node for each competitor, and an arrow to the opponent that it scores least against.

    The size of a node is its share of alpha-rank's stationary distribution (Omidshafiei et al. 2019). An
    arrow is drawn only if the competitor loses on average (PRIOR_GAMES draws added). Cycles of arrows are
    emphasised. With more than NODES competitors, those with least mass share one node.

    `payoff` and `leaderboard` are History's frames of one run, `filled` is as in `payoff_heatmap`.
    """
    one_run(payoff, leaderboard)
    payoff = between(payoff)
    if payoff.empty:
        return message(
            "responses", "No payoffs yet", "No two competitors have met: there is nothing to compare."
        )
    table = pairings(payoff, leaderboard)
    found = responses(table, alpha_rank(filled_in(payoff, table, filled)))
    # The cycle that most arrows lead to is shown if it is short, for any shares of its members.
    common = np.bincount(found.end).argmax()
    first = found.cyclic & (found.end == common)
    first &= first.sum() <= NODES // 2
    order = np.lexsort((np.arange(len(table.names)), -found.mass.round(12), ~first))
    shown = np.sort(order[:NODES])
    rest = np.sort(order[NODES:])
    sheet = Sheet("responses", _title(table, found), _caption(len(rest)), 0)
    nodes = len(shown) + bool(len(rest))
    keys = role_keys(table.roles)
    keyed = legend_height(sheet, keys) + 2
    widest = max(sheet.width_of(printable(table.names[place]), SMALL) for place in shown)
    columns = 2 if widest <= (WIDTH - 2 * EDGE) / 2 - _BESIDE else 1
    below = keyed + -(-nodes // columns) * _ROW + 10
    sheet.resize(below + 2 * _RADIUS + 48)
    axes = sheet.axes(0, below, WIDTH, 2 * _RADIUS + 48)
    axes.set_xlim(-WIDTH / 2, WIDTH / 2)  # a unit is a point
    axes.set_ylim(-_RADIUS - 24, _RADIUS + 24)
    axes.set_axis_off()
    _draw(sheet, table, found, shown, rest, below - 10, columns)
    legend(sheet, keys, 0.0)
    return sheet.figure


def responses(table: Pairings, mass: Floats) -> Responses:
    """Return the arrows of `table` [N] and their ends, with `mass` [N]."""
    games = table.games
    points = np.where(games > 0, table.score, 0.0) * games
    score = np.where(games > 0, (points + 0.5 * PRIOR_GAMES) / (games + PRIOR_GAMES), np.inf)
    hardest = score.argmin(1)
    least = score[np.arange(len(score)), hardest]
    hardest = np.where(least < 0.5, hardest, -1).astype(np.int64)
    step = np.where(hardest >= 0, hardest, np.arange(len(hardest)))
    far = step
    for _ in range(len(step).bit_length()):  # 2^k steps at once: more than there are nodes
        far = far[far]
    end, cyclic = far.copy(), np.zeros(len(step), dtype=bool)
    for node in np.unique(far):
        if hardest[node] < 0:
            continue
        around = [int(node)]
        while step[around[-1]] != node:
            around.append(int(step[around[-1]]))
        cyclic[around] = True
        end[far == node] = min(around)
    return Responses(hardest, least, mass, end, cyclic)


def _title(table: Pairings, found: Responses) -> str:
    common = int(np.bincount(found.end).argmax())
    if not found.cyclic[common]:
        return f"Worst opponents lead to {table.names[common]}, which loses to no other"
    around = [common]
    while found.hardest[around[-1]] != common:
        around.append(int(found.hardest[around[-1]]))
    names = ", ".join(table.names[node] for node in around[:3])
    return f"Worst opponents lead into a cycle of {len(around)}: {names}{' …' if len(around) > 3 else ''}"


def _caption(others: int) -> str:
    text = "An arrow leads from each to its worst opponent, thicker for larger losses; in colour where "
    text += "arrows form a cycle. Size and %: share in alpha-rank's long run. Numbers: places by rating."
    return text + (f" {others:,} others with small shares are one node." if others else "")


def _draw(
    sheet: Sheet, table: Pairings, found: Responses, shown: Indices, rest: Indices, top: float, columns: int
) -> None:
    (axes,) = sheet.figure.axes
    node_of = np.full(len(table.names), len(shown))
    node_of[shown] = np.arange(len(shown))
    count = len(shown) + bool(len(rest))
    mass = np.append(found.mass[shown], found.mass[rest].sum())[:count]
    turn = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    at = _RADIUS * np.column_stack([np.cos(turn), np.sin(turn)])
    radius = np.clip(20 * np.sqrt(mass), 8.0, 20.0)
    of_role = looks(table.roles)
    for node, place in enumerate(shown):
        if found.hardest[place] >= 0:
            target = int(node_of[found.hardest[place]])
            inside = found.cyclic[place] and target < len(shown)
            _arrow(axes, at, radius, node, target, 0.5 - found.score[place], inside)
    if len(rest):
        feared = node_of[found.hardest[rest][found.hardest[rest] >= 0]]
        feared = feared[feared < len(shown)]
        if len(feared):
            _arrow(axes, at, radius, len(shown), int(np.bincount(feared).argmax()), 0.1, False)
    half = (WIDTH - 2 * EDGE) / columns
    rows = -(-count // columns)
    for node in range(count):
        own = node < len(shown)
        color = of_role[table.roles[shown[node]]].color if own else GREY
        name = table.names[shown[node]] if own else f"{len(rest):,} others"
        mark = str(shown[node] + 1) if own else "…"
        look: Any = {"facecolor": color, "edgecolor": INK, "linewidth": 0.5, "zorder": 3}
        axes.add_patch(Circle(tuple(at[node]), radius[node], label=f"node {name}", **look))
        look = {"ha": "center", "va": "center_baseline", "size": SMALL - (len(mark) > 2), "zorder": 4}
        axes.text(at[node, 0], at[node, 1], mark, color="#ffffff", weight="bold", label="mark", **look)
        column, row = divmod(node, rows)
        left, y = EDGE + column * half, (top - (row + 1) * _ROW + EDGE + 4) / sheet.height
        share = f"{100 * mass[node]:.0f} %" if not 0.0005 < mass[node] < 0.005 else "< 1 %"
        label = f"{mark}  {sheet.elided(name, half - _BESIDE)}"
        sheet.figure.text(left / WIDTH, y, label, size=SMALL, va="bottom", label="key")
        right = (left + half - 14) / WIDTH
        sheet.figure.text(right, y, share, size=SMALL, va="bottom", ha="right", alpha=MUTED, label="share")


def _arrow(axes: Axes, at: Floats, radius: Floats, start: int, end: int, loss: float, cyclic: bool) -> None:
    axes.annotate(
        "",
        xy=tuple(at[end]),
        xytext=tuple(at[start]),
        arrowprops={
            "arrowstyle": "-|>,head_length=0.45,head_width=0.2",
            "color": CYCLE if cyclic else INK,
            "alpha": 1.0 if cyclic else 0.45,
            "linewidth": 0.7 + 4.0 * min(loss, 0.5) + 0.6 * cyclic,
            "shrinkA": radius[start] + 1,
            "shrinkB": radius[end] + 2,
        },
    ).set_label(f"arrow {start} {end}")
