"""Plot of what snapshots score on fixed yardsticks, over the league's env steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.plots.sheet import EDGE, Sheet, grid, key, legend, legend_height, message, one_run, step_axis
from analysis.plots.style import GREY, HUES, INK, MUTED, PAPER, SMALL, WIDTH, drawing

_ACTS = {"greedy": "likeliest action", "sample": "by its probabilities"}
_TALL = 118.0  # points of a panel
_MOST_POINTS = 100  # of a line: more would cover one another
_MOST_NAME = 84.0  # points of width for the names of bots, beside their lines


@dataclass(frozen=True, slots=True)
class _Panel:
    """A panel: the figures of one measure on positions, or all scores in games."""

    label: str
    rows: pd.DataFrame  # of snapshots
    bots: pd.DataFrame


def yardsticks(yardsticks: pd.DataFrame) -> Figure:
    """Draw what each player's snapshots score on yardsticks, by the env steps at which they were frozen.

    There is a panel for each measure on positions, with bots as grey lines for comparison, and one for all
    scores in games against fixed opponents. Filled circles are likeliest actions, open squares actions by
    probabilities. Bars are intervals. Of several measurements of one snapshot the newest is drawn. Of more
    than 100 snapshots of a player every k-th is drawn, counted back from the newest.

    `yardsticks` is History's frame of one run.
    """
    one_run(yardsticks)
    with drawing():
        frame = _newest(yardsticks)
        if frame["player"].isna().all():
            return message(
                "yardsticks",
                "No snapshot was measured on yardsticks",
                "To measure one, run `league yardstick RUN ID`, or set evaluation.yardsticks in the config.",
            )
        panels = list(_panels(frame))
        series = list(dict.fromkeys(_series(row) for panel in panels for row in _records(panel.rows)))
        color = {
            name: HUES[place % len(HUES)] for place, name in enumerate(dict.fromkeys(s[0] for s in series))
        }
        sheet = Sheet("yardsticks", _title(frame), _caption(frame), 0)
        keys = [
            key(color[name], _marker(mode), f"{name}, {_ACTS.get(mode, mode)}", **_fill(mode))
            for name, mode in series
        ]
        below = legend_height(sheet, keys)
        sheet.resize(below + len(panels) * (_TALL + 30) + 14)
        steps = frame["league_env_steps"].dropna().to_numpy(dtype=float)
        names = frame["competitor"][frame["player"].isna()].astype(str).unique()
        aside = min(max((sheet.width_of(name, SMALL) for name in names), default=-6.0), _MOST_NAME) + 12
        for place, panel in enumerate(reversed(panels)):
            bottom = below + place * (_TALL + 30) + 34
            axes = sheet.axes(50, bottom, WIDTH - 50 - EDGE - aside, _TALL)
            _curves(axes, panel.rows, color)
            axes.set_ylim(*_limits(panel))
            axes.set_ylabel(panel.label)
            step_axis(axes, steps, "env steps of the league" if place == 0 else "")
            _bots(axes, panel.bots, sheet)
            grid(axes)
        legend(sheet, keys, 0.0)
        return sheet.figure


def _newest(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the newest figures on whole yardsticks, in order of freezing.

    Values that are no shares, which only a stranger's run has, are left out.
    """
    shares = frame[["low", "value", "high"]].to_numpy(dtype=float)
    shown = (frame["part"] == "all").to_numpy() & np.all((shares >= 0.0) & (shares <= 1.0), axis=1)
    whole = frame[shown]
    whole = whole.sort_values("created_at", kind="stable")
    same = ["competitor", "yardstick", "measure", "mode"]
    return whole.drop_duplicates(same, keep="last").sort_values(
        ["league_env_steps", *same], kind="stable", ignore_index=True
    )


def _panels(frame: pd.DataFrame) -> Iterator[_Panel]:
    of_bots = frame["player"].isna()
    positions = frame[frame["kind"] == "positions"]
    names = positions["yardstick"].unique()
    for (yardstick, measure), rows in positions.groupby(["yardstick", "measure"], sort=True, observed=True):
        own = rows[~of_bots[rows.index]]
        if not own.empty:
            where = f", {yardstick}" if len(names) > 1 else ""
            yield _Panel(f"{measure}{where}", own, rows[of_bots[rows.index]])
    games = frame[(frame["kind"] == "games") & ~of_bots]
    if not games.empty:
        yield _Panel("points per game", games, games.iloc[:0])


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _series(row: dict[str, object]) -> tuple[str, str]:
    """Return the name of a row's line, and how its snapshots act."""
    against = f" against {row['yardstick']}" if row["kind"] == "games" else ""
    return f"{row['player']}{against}", str(row["mode"])


def _marker(mode: str) -> str:
    return "o" if mode == "greedy" else "s"


def _fill(mode: str) -> dict[str, str]:
    return {} if mode == "greedy" else {"markerfacecolor": PAPER}


def _curves(axes: Axes, frame: pd.DataFrame, colors: dict[str, str]) -> None:
    series = [_series(row) for row in _records(frame)]
    for name, mode in dict.fromkeys(series):
        rows = _thinned(frame[[each == (name, mode) for each in series]])
        columns = ("league_env_steps", "value", "low", "high")
        x, value, low, high = (rows[column].to_numpy(dtype=float) for column in columns)
        gaps = np.full(len(x), np.nan)
        axes.plot(
            np.column_stack([x, x, gaps]).ravel(),
            np.column_stack([low, high, gaps]).ravel(),
            color=colors[name],
            linewidth=0.8,
            alpha=0.5,
            label=f"interval {mode} {name}",
        )
        axes.plot(
            x,
            value,
            color=colors[name],
            linewidth=1.0,
            linestyle="-" if mode == "greedy" else (0, (3, 2)),
            marker=_marker(mode),
            markersize=3.6 if len(x) <= 40 else 2.0,
            markerfacecolor=colors[name] if mode == "greedy" else PAPER,
            markeredgewidth=0.9,
            label=f"{mode} {name}",
        )


def _thinned(frame: pd.DataFrame) -> pd.DataFrame:
    every = -(-len(frame) // _MOST_POINTS)
    return frame.iloc[::-1].iloc[::every].iloc[::-1]


def _bots(axes: Axes, frame: pd.DataFrame, sheet: Sheet) -> None:
    """Draw a grey line for each bot, with its name beside the panel; names keep a line's height apart."""
    low, high = axes.get_ylim()
    above = -np.inf
    for row in sorted(_records(frame), key=lambda row: (float(str(row["value"])), str(row["competitor"]))):
        value = float(str(row["value"]))
        label = f"bot {row['competitor']}"
        axes.axhline(value, color=GREY, linewidth=0.9, linestyle=(0, (1, 2)), label=label)
        height = max((value - low) / (high - low) * _TALL, above + 1.35 * SMALL)
        above = height
        name = sheet.elided(str(row["competitor"]), _MOST_NAME, SMALL)
        axes.annotate(
            name, (1.0, height / _TALL), xycoords="axes fraction", xytext=(4, 0), textcoords="offset points",
            ha="left", va="center", size=SMALL, color=INK, alpha=MUTED,
        )  # fmt: skip


def _limits(panel: _Panel) -> tuple[float, float]:
    """Return the ends of the value axis, with some room, within [0, 1] and never closer than a fifth."""
    values = pd.concat([panel.rows["low"], panel.rows["high"], panel.bots["value"]]).to_numpy(dtype=float)
    low, high = float(values.min()), float(values.max())
    room = max(0.08 * (high - low), (0.2 - (high - low)) / 2.0)
    return max(low - room, -0.02), min(high + 1.6 * room, 1.02)


def _title(frame: pd.DataFrame) -> str:
    """Return what the newest measured snapshot scores. The best of many would be the luckiest of them."""
    own = frame[frame["player"].notna()].sort_values(["league_env_steps", "value"], kind="stable")
    best = own[own["measure"] == "best"]
    if not best.empty:
        greedy = best[best["mode"] == "greedy"]
        newest = (best if greedy.empty else greedy).iloc[-1]
        share = f"{100 * newest['value']:.0f} % of {newest['samples']:,} positions"
        return f"{newest['competitor']} chooses a best move in {share}"
    newest = own.iloc[-1]
    return (
        f"{newest['competitor']} scores {newest['value']:.2f} points per game against {newest['yardstick']}"
    )


def _caption(frame: pd.DataFrame) -> str:
    kinds = set(frame["kind"])
    parts = ["Figures on fixed yardsticks by the time of freezing, with 95 % intervals; higher is better."]
    if "positions" in kinds:
        parts.append("best: a best-scored move is chosen. kept: a win stays a win, and a draw a draw.")
    if "games" in kinds:
        parts.append("Points per game: a draw counts half.")
    return " ".join(parts)
