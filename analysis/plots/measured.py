"""Plots of what was measured of snapshots, over env steps: exploitability, and figures on yardsticks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from analysis.plots.names import with_short_names
from analysis.plots.sheet import (
    EDGE,
    Sheet,
    grid,
    key,
    legend,
    legend_height,
    message,
    one_run,
    paths,
    step_axis,
)
from analysis.plots.style import GREY, HUES, INK, MUTED, PAPER, SMALL, WIDTH

_WORDS = {"exact": "exact", "lower_bound": "lower bound by a trained best response"}
_DECADES = 8.0  # least ratio of the greatest to the least value for a logarithmic axis
_ACTS = {"greedy": "likeliest action", "sample": "by its probabilities"}
_TALL = 118.0  # points of a panel
_MOST_POINTS = 100  # of a line: more would cover one another
_MOST_NAME = 84.0  # points of width for the names of bots, beside their lines


@with_short_names
def exploitability(exploitability: pd.DataFrame) -> Figure:
    """Draw the gain of a best response against each snapshot, by the env steps at which it was frozen.

    Exact values are filled circles on a line, lower bounds open triangles on dashes with their intervals.
    There is one panel per unit; its axis is logarithmic if values are positive and span more than a factor of
    8. Of several measurements of one snapshot and kind, the newest exact one or the greatest lower bound is
    drawn.

    `exploitability` is History's frame of one run.
    """
    one_run(exploitability)
    if exploitability.empty:
        return message(
            "exploitability",
            "Exploitability was not measured",
            "To measure it, run `league exploit RUN ID`, for one snapshot or several.",
        )
    frame = _one_each(exploitability)
    units = sorted(frame["unit"].astype(str).unique())
    players = list(dict.fromkeys(frame.sort_values("league_env_steps")["player"].astype(str)))
    kinds = [kind for kind in _WORDS if (frame["kind"] == kind).any()]
    sheet = Sheet("exploitability", _exploited_title(frame), _exploited_caption(frame, kinds), 0)
    keys = [
        key(text=f"{player}, {_WORDS[kind]}", **_mark(HUES[place % len(HUES)], kind == "exact", "^"))
        for place, player in enumerate(players)
        for kind in kinds
        if ((frame["player"].astype(str) == player) & (frame["kind"] == kind)).any()
    ]
    below = legend_height(sheet, keys)
    tall = 190.0 if len(units) == 1 else 130.0
    sheet.resize(below + len(units) * (tall + 44))
    for row, unit in enumerate(units):
        bottom = below + (len(units) - 1 - row) * (tall + 44) + 34
        axes = sheet.axes(50, bottom, WIDTH - 50 - EDGE - 6, tall)
        mine = frame[frame["unit"].astype(str) == unit]
        size, width = (4.0, 1.0) if len(mine) <= 100 else (2.5, 0.5)
        for place, player in enumerate(players):
            for kind in kinds:
                rows = mine[(mine["player"].astype(str) == player) & (mine["kind"] == kind)]
                if not rows.empty:
                    mark, own = _mark(HUES[place % len(HUES)], kind == "exact", "^"), size
                    own *= 1.0 if kind == "exact" else 1.25
                    _line(axes, rows, f"{kind} {player}", mark, own, width, 0.9, 0.6)
        _value_axis(axes, mine)
        axes.set_ylabel(f"exploitability, {unit}")
        step_axis(axes, mine["league_env_steps"].to_numpy())
        grid(axes)
        sheet.fit(axes, bottom=bottom - 34)
    legend(sheet, keys, 0.0)
    return sheet.figure


def _one_each(frame: pd.DataFrame) -> pd.DataFrame:
    rank = np.where(frame["kind"] == "lower_bound", frame["value"].to_numpy(dtype=float), -np.inf)
    ordered = frame.assign(_rank=rank).sort_values(["_rank", "created_at"], kind="stable")
    last = ordered.drop_duplicates(["snapshot_id", "kind", "unit"], keep="last")
    return last.drop(columns="_rank").sort_values(
        ["league_env_steps", "snapshot_id"], kind="stable", ignore_index=True
    )


def _learned(frame: pd.DataFrame) -> pd.Series:
    """Return whether each measurement is exact or of a response that learned something, as far as known."""
    return frame["worth"] != "nothing_learned" if "worth" in frame else pd.Series(True, frame.index)


def _value_axis(axes: Axes, frame: pd.DataFrame) -> None:
    """Set up a logarithmic axis with ticks at 1, 2 and 5 of each power of ten, or a linear one from zero."""
    value = frame["value"].to_numpy(dtype=float)
    value = value[np.isfinite(value)]
    if len(value) and value.min() > 0 and value.max() > _DECADES * value.min():
        axes.set_yscale("log")
        ends = np.concatenate([value, frame["high"].to_numpy(dtype=float)])
        low, high = value.min() / 1.3, np.nanmax(ends) * 1.15
        axes.set_ylim(low, high)
        decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        each = (1, 2, 5) if len(decades) <= 4 else (1,)
        every = (step * 10.0**decade for decade in decades for step in each)
        ticks = [tick for tick in every if low <= tick <= high]
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_yticklabels([f"{tick:g}" for tick in ticks])
    elif len(value):
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.0), max(high + 0.06 * (high - low), 1e-12))


def _exploited_title(frame: pd.DataFrame) -> str:
    exact = frame[frame["kind"] == "exact"]
    rows = exact if not exact.empty else frame[_learned(frame)]
    if rows.empty:
        return "no response has learned yet to exploit what was measured"
    least = rows.iloc[int(rows["value"].to_numpy(dtype=float).argmin())]
    bound = "" if not exact.empty else "at least "
    word = "least exploitable, " if len(rows) > 1 else "exploitable "
    return f"{least['snapshot_id']} is {word}by {bound}{least['value']:.3g} {least['unit']}"


def _exploited_caption(frame: pd.DataFrame, kinds: list[str]) -> str:
    snapshots = frame["snapshot_id"].nunique()
    against = f"{snapshots} snapshot{'s' * (snapshots > 1)}"
    text = f"Gain of a best response against {against}, by the time of freezing; lower is better."
    if "lower_bound" in kinds:
        text += " Triangles: lower bounds with their intervals; a better response may win more."
        if (idle := int((~_learned(frame)).sum())) > 0:
            text += f" Responses to {idle} learned nothing yet: these bounds are no evidence."
    return text


@with_short_names
def yardsticks(yardsticks: pd.DataFrame) -> Figure:
    """Draw what each player's snapshots score on yardsticks, by the env steps at which they were frozen.

    There is a panel for each measure on positions, with bots as grey lines for comparison, and one for all
    scores in games against fixed opponents. Filled circles are likeliest actions, open squares actions by
    probabilities. Bars are intervals. Of several measurements of one snapshot the newest is drawn. Of more
    than 100 snapshots of a player every k-th is drawn, counted back from the newest.

    `yardsticks` is History's frame of one run.
    """
    one_run(yardsticks)
    frame = _newest(yardsticks)
    if frame["player"].isna().all():
        return message(
            "yardsticks",
            "No snapshot was measured on yardsticks",
            "To measure one, run `league yardstick RUN ID`, or set evaluation.yardsticks in the config.",
        )
    panels = list(_panels(frame))
    series = list(dict.fromkeys(one for _, rows, _ in panels for one in _series(rows)))
    color = {name: HUES[place % len(HUES)] for place, name in enumerate(dict.fromkeys(s[0] for s in series))}
    sheet = Sheet("yardsticks", _yardstick_title(frame), _yardstick_caption(frame), 0)
    keys = [
        key(text=f"{name}, {_ACTS.get(mode, mode)}", **_mark(color[name], mode == "greedy", "s"))
        for name, mode in series
    ]
    below = legend_height(sheet, keys)
    sheet.resize(below + len(panels) * (_TALL + 30) + 14)
    steps = frame["league_env_steps"].dropna().to_numpy(dtype=float)
    names = frame["competitor"][frame["player"].isna()].astype(str).unique()
    aside = min(max((sheet.width_of(name, SMALL) for name in names), default=-6.0), _MOST_NAME) + 12
    for place, (label, rows, bots) in enumerate(reversed(panels)):
        bottom = below + place * (_TALL + 30) + 34
        axes = sheet.axes(50, bottom, WIDTH - 50 - EDGE - aside, _TALL)
        for name, mode in dict.fromkeys(own := _series(rows)):
            line = rows[[each == (name, mode) for each in own]]
            line = line.iloc[::-1].iloc[:: -(-len(line) // _MOST_POINTS)].iloc[::-1]
            size = 3.6 if len(line) <= 40 else 2.0
            _line(
                axes, line, f"{mode} {name}", _mark(color[name], mode == "greedy", "s"), size, 1.0, 0.8, 0.5
            )
        axes.set_ylim(*_limits(rows, bots))
        axes.set_ylabel(label)
        step_axis(axes, steps, "env steps of the league" if place == 0 else "")
        _bots(axes, bots, sheet)
        grid(axes)
    legend(sheet, keys, 0.0)
    return sheet.figure


def _newest(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the newest figures on whole yardsticks, in order of freezing.

    Values that are no shares, which only a stranger's run has, are left out.
    """
    shares = frame[["low", "value", "high"]].to_numpy(dtype=float)
    shown = (frame["part"] == "all").to_numpy() & np.all((shares >= 0.0) & (shares <= 1.0), axis=1)
    whole = frame[shown].sort_values("created_at", kind="stable")
    same = ["competitor", "yardstick", "measure", "mode"]
    return whole.drop_duplicates(same, keep="last").sort_values(
        ["league_env_steps", *same], kind="stable", ignore_index=True
    )


def _panels(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """Yield the label, the figures of snapshots and those of bots: of a measure, or all scores in games."""
    of_bots = frame["player"].isna()
    positions = frame[frame["kind"] == "positions"]
    names = positions["yardstick"].unique()
    for (yardstick, measure), rows in positions.groupby(["yardstick", "measure"], sort=True, observed=True):
        own = rows[~of_bots[rows.index]]
        if not own.empty:
            where = f", {yardstick}" if len(names) > 1 else ""
            yield f"{measure}{where}", own, rows[of_bots[rows.index]]
    games = frame[(frame["kind"] == "games") & ~of_bots]
    if not games.empty:
        yield "points per game", games, games.iloc[:0]


def _series(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the name of each row's line, and how its snapshots act."""
    games = (frame["kind"] == "games").tolist()
    against = [f" against {name}" if own else "" for name, own in zip(frame["yardstick"], games, strict=True)]
    rows = zip(frame["player"], against, frame["mode"], strict=True)
    return [(f"{player}{other}", str(mode)) for player, other, mode in rows]


def _bots(axes: Axes, frame: pd.DataFrame, sheet: Sheet) -> None:
    """Draw a grey line for each bot, with its name beside the panel; names keep a line's height apart."""
    low, high = axes.get_ylim()
    above = -np.inf
    found = ((float(value), str(who)) for value, who in zip(frame["value"], frame["competitor"], strict=True))
    for value, who in sorted(found):
        axes.axhline(value, color=GREY, linewidth=0.9, linestyle=(0, (1, 2)), label=f"bot {who}")
        height = above = max((value - low) / (high - low) * _TALL, above + 1.35 * SMALL)
        name = sheet.elided(who, _MOST_NAME, SMALL)
        axes.annotate(
            name, (1.0, height / _TALL), xycoords="axes fraction", xytext=(4, 0), textcoords="offset points",
            ha="left", va="center", size=SMALL, color=INK, alpha=MUTED,
        )  # fmt: skip


def _limits(rows: pd.DataFrame, bots: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of the value axis, with some room, within [0, 1] and never closer than a fifth."""
    values = pd.concat([rows["low"], rows["high"], bots["value"]]).to_numpy(dtype=float)
    low, high = float(values.min()), float(values.max())
    room = max(0.08 * (high - low), (0.2 - (high - low)) / 2.0)
    return max(low - room, -0.02), min(high + 1.6 * room, 1.02)


def _yardstick_title(frame: pd.DataFrame) -> str:
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


def _yardstick_caption(frame: pd.DataFrame) -> str:
    kinds = set(frame["kind"])
    parts = ["Figures on fixed yardsticks by the time of freezing, with 95 % intervals; higher is better."]
    if "positions" in kinds:
        parts.append("best: a best-scored move is chosen. kept: a win stays a win, and a draw a draw.")
    if "games" in kinds:
        parts.append("Points per game: a draw counts half.")
    return " ".join(parts)


def _mark(color: str, filled: bool, hollow: str) -> dict[str, Any]:
    """Return the look of a measurement: a filled circle, or a marker of shape `hollow` without filling."""
    marker, face = ("o", color) if filled else (hollow, PAPER)
    return {"color": color, "marker": marker, "markerfacecolor": face}


def _line(
    axes: Axes, rows: pd.DataFrame, name: str, mark: dict[str, Any], size: float, width: float, *bars: float
) -> None:
    """Draw the values of one series, filled marks on a line and hollow ones on dashes, with their intervals.

    Marks are of `size`, the line of `width`; `bars` is the width and the opacity of intervals.
    """
    columns = ("league_env_steps", "value", "low", "high")
    x, value, low, high = (rows[column].to_numpy(dtype=float) for column in columns)
    if (high > low).any():
        look = {"color": mark["color"], "linewidth": bars[0], "alpha": bars[1]}
        paths(axes, [x, x], [low, high], label=f"interval {name}", **look)
    style = "-" if mark["marker"] == "o" else (0, (3, 2))
    look = {"linestyle": style, "linewidth": width, "markersize": size, "markeredgewidth": 0.9}
    axes.plot(x, value, label=name, **mark, **look)
