"""Plot of the cyclic plane: competitors placed so that their order around the middle shows cycles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.names import with_short_names
from analysis.plots.pairings import between, filled_in, pairings
from analysis.plots.sheet import (
    Sheet,
    key,
    legend,
    legend_height,
    message,
    one_run,
    strength_marks,
    strength_scale,
)
from analysis.plots.style import INK, PAPER, SMALL, WIDTH, RoleStyle, bins, looks, percent, words
from analysis.solution.cycles import schur, split
from storage.arrays import Floats

NAMED = 9  # most points with names
_SIDE = 300.0


@with_short_names
def cyclic_plane(
    payoff: pd.DataFrame, leaderboard: pd.DataFrame, *, filled: pd.DataFrame | None = None
) -> Figure:
    """Draw competitors in the strongest cyclic plane of the payoff, coloured by rating.

    The plane is the first of `analysis.solution.cycles.schur` (Balduzzi et al. 2019), for the part of the
    payoff that strengths do not explain. A competitor scores more than strengths predict against competitors
    within half a turn counterclockwise, in proportion to the area of their triangle with the middle.

    `payoff` and `leaderboard` are History's frames of one run, `filled` is as in `payoff_heatmap`.
    """
    name = "cyclic-plane"
    one_run(payoff, leaderboard)
    payoff = between(payoff)
    table = pairings(payoff, leaderboard) if not payoff.empty else None
    if table is None or len(table.names) < 3:
        return message(
            name, "No plane of cycles", "A cycle needs three competitors that have met: there are fewer."
        )
    parts = split(filled_in(payoff, table, filled))
    found = schur(parts.cyclic, 1)
    if parts.unexplained_share == 0.0 or not found.points.shape[1]:
        return message(name, "No plane of cycles", "Strengths explain all scores: there are no cycles.")
    places, share = found.points[:, 0], float(found.shares[0])
    sheet = Sheet(
        name, "Results that strengths do not explain", _caption(len(places), parts.unexplained_share), 0
    )
    hollow = {"markerfacecolor": PAPER, "markeredgecolor": INK, "markeredgewidth": 0.8}
    there = [(role, look) for role, look in looks(table.roles).items() if role in table.roles]
    keys = [key(INK, _marker(look), words(role or "bots"), **hollow) for role, look in there]
    below = legend_height(sheet, keys) + 2
    sheet.resize(below + 62 + _SIDE + 6)
    axes = sheet.axes((WIDTH - _SIDE) / 2, below + 62, _SIDE, _SIDE)
    _points(axes, places, table.roles, table.mu)
    energy = f"{percent(share * parts.unexplained_share)} of all energy"
    axes.set_xlabel(f"strongest plane: {100 * share:.0f} % of what is cyclic, {energy}")
    _names(sheet, axes, places, table.names)
    if np.isfinite(table.mu).any():
        strength_scale(sheet, below, bins(table.mu)[1])
    legend(sheet, keys, 0.0)
    return sheet.figure


def _caption(count: int, cyclic: float) -> str:
    return (
        f"{count} competitors. Each scores more than its strength predicts against those counterclockwise "
        "(up to half a turn), the more the further both are from the cross. "
        f"{percent(cyclic)} of all energy looks cyclic; luck in few games looks the same."
    )


def _marker(look: RoleStyle) -> str:
    """Return the marker of a role; a cross becomes filled, to have room for a colour."""
    return "X" if look.marker == "x" else look.marker


def _points(axes: Axes, places: Floats, roles: list[str | None], mu: Floats) -> None:
    reach = float(np.abs(places).max()) * 1.12 or 1.0
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_alpha(0.25)
    axes.plot([0], [0], marker="+", color=INK, markersize=9, markeredgewidth=0.9, label="middle")
    size = 3.6 if len(places) > 250 else 5.5
    kinds = [
        (f"competitors {role}", np.array([own == role for own in roles]), _marker(look), size)
        for role, look in looks(roles).items()
    ]
    strength_marks(axes, (places[:, 0], places[:, 1]), mu, kinds, markeredgewidth=0.3)


def _names(sheet: Sheet, axes: Axes, places: Floats, names: list[str]) -> None:
    """Draw names of the best rated and outermost competitors that cover no point and no other name."""
    low, high = axes.get_xlim()
    at = (places - low) * _SIDE / (high - low)
    taken: list[tuple[float, float, float, float]] = []
    for place in dict.fromkeys([0, *np.argsort(-np.hypot(*places.T), kind="stable")[: 6 * NAMED].tolist()]):
        text = sheet.elided(names[place], 110)
        width, height = sheet.width_of(text, SMALL) + 4, SMALL * 1.3
        x, y = at[place]
        for side in (1, -1):
            left = x + 6 if side > 0 else x - 6 - width
            box = (left, y - height / 2, left + width, y + height / 2)
            covered = (at >= (box[0] - 2, box[1])).all(1) & (at <= (box[2] + 2, box[3])).all(1)
            overlaps = (b[0] < box[2] and box[0] < b[2] and b[1] < box[3] and box[1] < b[3] for b in taken)
            if box[0] < 2 or box[2] > _SIDE - 2 or covered.any() or any(overlaps):
                continue
            look: Any = {"ha": "left" if side > 0 else "right", "va": "center", "size": SMALL, "zorder": 5}
            beside: Any = {"xy": tuple(places[place]), "xytext": (6 * side, 0), "textcoords": "offset points"}
            axes.annotate(text, **beside, **look).set_label("name")
            taken.append(box)
            break
        if len(taken) == NAMED:
            return
