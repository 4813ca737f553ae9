"""Plot of the lineage of snapshots: a lane per player, and lines from each snapshot to its children."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.names import with_short_names
from analysis.plots.sheet import (
    EDGE,
    Sheet,
    grid,
    message,
    one_run,
    paths,
    step_axis,
    strength_marks,
    strength_scale,
)
from analysis.plots.style import GREY, SMALL, WIDTH, bins, looks, role_of
from storage.arrays import Floats

LANES = 14  # most players with a lane: those with most snapshots
LEVELS = 3  # heights of the lines to resets below a lane, one parent after another
_ROOM = 30.0  # height of a lane in points


@dataclass(frozen=True, slots=True)
class _Places:
    """Positions and parents of S snapshots."""

    x: Floats  # [S] env steps of the league
    lane: np.ndarray  # [S] 0 is the lowest
    # [S] "first": of its player; "next": parent is the player's last one; "reset": any other
    kind: np.ndarray
    parent: np.ndarray  # [S] place of the parent in the frame; -1: none, or not in the frame
    lanes: list[str] = field(default_factory=list)


@with_short_names
def lineage_tree(snapshots: pd.DataFrame, leaderboard: pd.DataFrame) -> Figure:
    """Draw snapshots in their players' lanes where they were frozen, coloured by rating.

    A straight line joins a snapshot to its player's previous one, if that is its parent. A reset, from an
    older snapshot or from scratch, is a diamond, and a line below the lane joins it to the snapshot that it
    was reset to. A line between lanes joins a snapshot to a parent of another player.

    `snapshots` and `leaderboard` are History's frames of one run.
    """
    one_run(snapshots, leaderboard)
    if snapshots.empty:
        return message("lineage", "No snapshots yet", "No snapshot has been frozen: the run has just begun.")
    ordered = snapshots.sort_values(["league_env_steps", "created_at"], kind="stable").reset_index(drop=True)
    counts = ordered["player"].astype(str).value_counts()
    kept = [player for player in dict.fromkeys(ordered["player"].astype(str)) if player in counts[:LANES]]
    shown = ordered[ordered["player"].astype(str).isin(kept)].reset_index(drop=True)
    places = _places(shown, kept[::-1])
    of_role = looks(shown["role"])
    rating = leaderboard.set_index(leaderboard["competitor"].astype(str))["mu"].astype(float)
    mu: Floats = np.asarray(rating.reindex(shown["snapshot_id"].astype(str)), dtype=np.float64)
    sheet = Sheet("lineage", _title(shown, places, leaderboard), _caption(ordered, shown, places), 0)
    names = [sheet.elided(player, 96) for player in places.lanes]
    left = EDGE + max(sheet.width_of(name, SMALL) for name in names) + 12
    sheet.resize(len(kept) * _ROOM + 74)
    axes = sheet.axes(left, 70, WIDTH - left - EDGE - 6, len(kept) * _ROOM)
    step_axis(axes, places.x)
    _lines(axes, places, shown, of_role)
    _nodes(axes, places, mu)
    axes.set_ylim(-0.6, len(kept) - 0.4)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    grid(axes, "x")
    known = mu[np.isfinite(mu)]
    if len(known) and np.ptp(known) > 0.0:
        strength_scale(sheet, 0.0, bins(mu)[1])
    return sheet.figure


def _places(shown: pd.DataFrame, lanes: list[str]) -> _Places:
    """Return the places of snapshots, which are in order of freezing."""
    index = {name: place for place, name in enumerate(shown["snapshot_id"].astype(str))}
    lane_of = {player: lane for lane, player in enumerate(lanes)}
    players = shown["player"].astype(str).tolist()
    parent = np.array([index.get(str(name), -1) for name in shown["parent_id"]], dtype=np.int64)
    before = pd.Series(range(len(shown))).groupby(players).shift().to_numpy()  # the player's last one
    kind = np.where(np.isnan(before), "first", np.where(parent == before, "next", "reset"))
    x = shown["league_env_steps"].to_numpy(dtype=float)
    return _Places(x, np.array([lane_of[player] for player in players]), kind, parent, lanes)


def _title(shown: pd.DataFrame, places: _Places, leaderboard: pd.DataFrame) -> str:
    resets = int((places.kind == "reset").sum())
    count = len(shown)
    text = f"{count:,} snapshot{'s' * (count != 1)}, {resets or 'none'} after a reset"
    rated = leaderboard[leaderboard["competitor"].astype(str).isin(shown["snapshot_id"].astype(str))]
    # in order of strength, one without games is where it belongs, and untrained weights are last
    rated = rated[~rated["apart"]] if "apart" in rated.columns else rated[rated["games"] > 0]
    if not rated.empty:
        text += f"; rated best: {rated['competitor'].iloc[0]}"
    return text


def _caption(ordered: pd.DataFrame, shown: pd.DataFrame, places: _Places) -> str:
    text = "Lines lead from each snapshot to the ones trained from it."
    if (places.kind == "reset").any():
        text += " Diamonds: resets; a line below the lane leads back to what they were reset to."
    if len(shown) < len(ordered):
        players = ordered["player"].nunique() - shown["player"].nunique()
        text += f" {players} players with {len(ordered) - len(shown)} snapshots are left out."
    return text


def _lines(axes: Axes, places: _Places, shown: pd.DataFrame, of_role: dict) -> None:
    """Draw one path for each kind of line and lane, which is fast for thousands of lines."""
    x, lane, parent = places.x, places.lane, places.parent
    has = parent >= 0
    same = has & (lane == lane[parent])
    reset_to = dict.fromkeys(parent[same & (places.kind == "reset")])
    turn = {place: level for level, place in enumerate(reset_to)}
    roles = shown["role"].map(role_of).tolist()
    for row, player in enumerate(places.lanes):
        mine = np.flatnonzero(lane == row)
        look = of_role[role_of(roles[mine[0]])]
        straight = mine[same[mine] & (places.kind[mine] != "reset")]
        _path(axes, [x[parent[straight]], x[straight]], [row, row], look.color, 1.4, 0.9, f"next {player}")
        back = mine[same[mine] & (places.kind[mine] == "reset")]
        down = row - 0.22 - 0.09 * np.array([turn[place] % LEVELS for place in parent[back]])
        ends = [x[parent[back]], x[parent[back]], x[back], x[back]]
        _path(axes, ends, [row, down, down, row], look.color, 0.8, 0.45, f"reset {player}")
        over = mine[has[mine] & ~same[mine]]
        _path(axes, [x[parent[over]], x[over]], [lane[parent[over]], row], GREY, 0.8, 0.7, f"over {player}")


def _path(
    axes: Axes, xs: list[Floats], ys: list[Floats | int], color: str, width: float, alpha: float, label: str
) -> None:
    if len(xs[0]):
        look = {"color": color, "linewidth": width, "alpha": alpha, "label": label}
        paths(axes, xs, ys, solid_joinstyle="round", **look)


def _nodes(axes: Axes, places: _Places, mu: Floats) -> None:
    count = len(places.x)
    size = 6.0 if count <= 40 else 4.5 if count <= 250 else 3.2
    looks = (("next", "o", size), ("first", "o", size), ("reset", "D", 0.8 * size))
    kinds = [(f"snapshots {kind}", places.kind == kind, marker, own) for kind, marker, own in looks]
    strength_marks(axes, (places.x, places.lane), mu, kinds, markeredgewidth=0.4, zorder=3)
