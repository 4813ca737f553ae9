"""Plot of ratings over the league's env steps: players over time, and snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.plots.names import with_short_names
from analysis.plots.sheet import (
    EDGE,
    Sheet,
    grid,
    key,
    legend,
    legend_height,
    marks,
    message,
    one_run,
    paths,
    step_axis,
)
from analysis.plots.style import BOT, INK, SMALL, WIDTH, RoleStyle, looks, role_of, spread, words
from analysis.statistics.strength.wording import probability
from storage.arrays import Floats

POINTS = 200  # points of a line, which is about 270 points wide
ERROR_BARS = 120  # most snapshots with error bars
LINES = 12  # most players with lines: the best


@with_short_names
def ratings(ratings: pd.DataFrame, leaderboard: pd.DataFrame) -> Figure:
    """Draw mu of each player over env steps with a band of 2 sigma.

    Snapshots are points where they were frozen, at their current rating. Bots are dashed lines.

    `ratings` and `leaderboard` are History's frames of one run. A line shows the last rating in each of
    POINTS equal spans of env steps.
    """
    one_run(ratings, leaderboard)
    if ratings.empty or leaderboard.empty:
        return message(
            "ratings", "No ratings yet", "No competitor has been rated: the run has recorded no match."
        )
    ratings = ratings.assign(competitor=ratings["competitor"].astype(str))
    ratings = ratings.sort_values("league_env_steps", kind="stable")
    board = leaderboard
    of_role = looks(board["role"])
    players, snapshots, bots = (board[board["kind"] == kind] for kind in ("player", "snapshot", "bot"))
    shown = players.head(LINES)
    keys = _keys(of_role, snapshots)
    sheet = Sheet("ratings", _title(board), _caption(players, snapshots, bots), 250)
    named = pd.concat([shown, bots])
    levels = named["mu"].to_numpy(dtype=float)
    ends = [
        (f"{who} {mu:.1f}", float(mu), of_role[role_of(role)])
        for who, mu, role in zip(named["competitor"], levels, named["role"], strict=True)
    ]
    beside = min(max((sheet.width_of(text, SMALL) for text, _, _ in ends), default=0.0) + 20, 150.0)
    below = legend_height(sheet, keys)
    axes = sheet.axes(40, below + 30, WIDTH - 40 - EDGE - beside, 250 - below - 36)
    seen = [board["mu"].to_numpy(dtype=float)]
    for row in shown.itertuples():
        rows = ratings[ratings["competitor"] == str(row.competitor)]
        seen.append(_line(axes, str(row.competitor), rows, of_role[role_of(row.role)]))
    _snapshots(axes, snapshots, ratings, of_role)
    for who, mu in zip(bots["competitor"], bots["mu"].to_numpy(dtype=float), strict=True):
        axes.axhline(mu, color=BOT.color, dashes=BOT.dashes, linewidth=1.0, label=f"bot {who}")
    grid(axes)
    step_axis(axes, ratings["league_env_steps"].to_numpy())
    # A newcomer's bar is very long and would compress all others, so bars set no limits.
    low, high = min(map(np.min, seen)), max(map(np.max, seen))
    axes.set_ylim(low - 0.06 * (high - low + 1), high + 0.06 * (high - low + 1))
    axes.set_ylabel("TrueSkill rating μ")
    legend(sheet, keys, 0.0)
    sheet.fit(axes, bottom=below)
    _name_ends(sheet, axes, ends)
    return sheet.figure


def _title(board: pd.DataFrame) -> str:
    played = board[board["games"] > 0]
    if played.empty:
        return "No competitor is rated yet"
    if "p_best" in board.columns and board["p_best"].notna().any():
        best = board[board["p_best"].notna()].iloc[0]
        sure = probability(best["p_best"])
        return f"{best['competitor']} is rated best by all games ({sure}); TrueSkill's ratings are below"
    best = played.iloc[0]
    return f"{best['competitor']} is rated best: μ = {best['mu']:.1f} ± {2 * best['sigma']:.1f}"


def _caption(players: pd.DataFrame, snapshots: pd.DataFrame, bots: pd.DataFrame) -> str:
    texts = []
    if len(players):
        texts.append("Lines: players, with bands of μ ± 2σ.")
    if len(snapshots):
        bars = ", with bars of ± 2σ" if len(snapshots) <= ERROR_BARS else ""
        texts.append(f"Points: snapshots where they were frozen, at their current rating{bars}.")
    if len(bots):
        texts.append("Dashed: bots.")
    if len(players) > LINES:
        texts.append(f"{len(players) - LINES} lower rated players have no line.")
    return " ".join(texts)


def _keys(of_role: dict[str | None, RoleStyle], snapshots: pd.DataFrame) -> list[Line2D]:
    present = {role_of(role) for role in snapshots["role"]}
    return [
        key(look.color, look.marker, f"snapshots of {words(role)}" if role else "snapshots without a role")
        for role, look in of_role.items()
        if role in present
    ]


def _line(axes: Axes, player: str, rows: pd.DataFrame, look: RoleStyle) -> Floats:
    """Draw the player's line and band, and return the values that the y axis must show."""
    x, mu, sigma = (rows[column].to_numpy(dtype=float) for column in ("league_env_steps", "mu", "sigma"))
    kept = last_of_spans(x, POINTS)
    x, mu, sigma = x[kept], mu[kept], sigma[kept]
    axes.fill_between(x, mu - 2 * sigma, mu + 2 * sigma, color=look.color, alpha=0.16, linewidth=0)
    (line,) = axes.plot(x, mu, color=look.color, linewidth=1.6, marker="." if len(x) == 1 else "")
    if look.dashes:
        line.set_dashes(look.dashes)
    line.set_label(f"player {player}")
    sure = sigma <= 2 * np.median(sigma) if len(sigma) else np.zeros(0, dtype=bool)
    return np.concatenate([mu, (mu - 2 * sigma)[sure], (mu + 2 * sigma)[sure]]) if len(mu) else np.zeros(1)


def last_of_spans(x: Floats, spans: int) -> np.ndarray:
    """Return indices of the first of `x` [n] (ascending) and of the last in each of `spans` equal spans."""
    if not len(x):
        return np.zeros(0, dtype=np.int64)
    width = (x[-1] - x[0]) / spans or 1.0
    span = np.minimum((x - x[0]) // width, spans - 1)
    last = np.flatnonzero(np.append(np.diff(span) > 0, True))
    return np.unique(np.append(0, last))


def _snapshots(
    axes: Axes, board: pd.DataFrame, ratings: pd.DataFrame, of_role: dict[str | None, RoleStyle]
) -> None:
    """Draw a marker for each snapshot, role by role; thousands of snapshots have smaller markers."""
    frozen_at = ratings.groupby("competitor")["league_env_steps"].first()
    many = len(board) > 400
    size = 2.2 if many else 2.8 if len(board) > 100 else 3.6
    roles = board["role"].map(role_of)
    for role, look in of_role.items():
        rows = board[roles == role if role is not None else roles.isna()]
        if rows.empty:
            continue
        x = rows["competitor"].astype(str).map(frozen_at).to_numpy(dtype=float)
        mu, sigma = rows["mu"].to_numpy(dtype=float), rows["sigma"].to_numpy(dtype=float)
        if len(board) <= ERROR_BARS:
            ends = [mu - 2 * sigma, mu + 2 * sigma]
            paths(axes, [x, x], ends, color=look.color, linewidth=0.8, alpha=0.45)
        drawn: Any = {"color": look.color, "alpha": 0.65 if many else 0.9, "label": f"snapshots {role}"}
        marks(axes, x, mu, look.marker, size, markeredgewidth=0.8 * (look.marker == "x"), **drawn)


def _name_ends(sheet: Sheet, axes: Axes, ends: list[tuple[str, float, RoleStyle]]) -> None:
    """Draw names beside the ends of lines, the best first, as far as there is room."""
    low, high = axes.get_ylim()
    box = axes.get_position()
    width, height = (box.x1 - box.x0) * WIDTH, (box.y1 - box.y0) * sheet.height
    gap = SMALL * 1.3
    ends = ends[: int(height // gap) + 1]
    wanted = np.array([(mu - low) / (high - low) * height for _, mu, _ in ends])
    places = spread(wanted, gap, 0.0, height)
    room = WIDTH - EDGE - box.x1 * WIDTH - 16
    for (text, _, look), place, natural in zip(ends, places, wanted, strict=True):
        line = {"color": look.color, "linewidth": 1.4, "linestyle": (0, look.dashes) if look.dashes else "-"}
        where: Any = {"xy": (1.0, natural / height), "xytext": (1.0 + 15 / width, place / height)}
        where |= {"xycoords": "axes fraction", "textcoords": "axes fraction", "va": "center", "ha": "left"}
        arrow = {"arrowstyle": "-", "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 0, **line}
        label = axes.annotate(sheet.elided(text, room), size=SMALL, color=INK, arrowprops=arrow, **where)
        label.set_label("label")
