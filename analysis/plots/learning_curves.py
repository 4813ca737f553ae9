"""Plots of learning curves: strengths, scores and lengths, win rates, ends of matches, reports of learners.

Each draws History's `curves` over env steps of the league or over time; `strengths` draws its `strengths`. Of
several runs, names have their run in front; `ends` is of one run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
    printable,
    step_axis,
)
from analysis.plots.style import BOT, HUES, INK, SMALL, TEXT, WIDTH, looks, percent, words

Over = Literal["steps", "time"]

LINES = len(HUES)  # most lines of a panel: those with most samples
PLAYERS = 4  # most players with a panel of win rates
_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 1.5), (2, 1), (6, 1.5, 1, 1.5), (8, 2), (4, 1, 1, 1, 1, 1))
_REPORTED = {
    "entropy": "entropy, nats",
    "policy_loss": "policy loss",
    "value_loss": "value loss",
    "gradient_norm": "gradient norm",
    "lag": "lag, updates",
    "validation_loss": "held-out policy loss",
    "accuracy": "held-out accuracy",
}
_TALL, _LOW = 128.0, 84.0  # points: of panels across the sheet, and of two side by side
_AXIS = 40.0  # points of a panel's axis and the room above it
_LEFT = 50.0  # points for the numbers of the value axis
_BAND = "with its 95 % interval"
_HOURS = 180.0  # minutes, from which on time is shown in hours


@dataclass(frozen=True, slots=True)
class _Panel:
    """Lines of one panel: the rows of each have the same `name`."""

    label: str
    rows: pd.DataFrame
    share: bool = False  # whether values are within [0, 1]
    whole: bool = False  # whether the axis is all of [0, 1]
    title: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the lines, those with most samples first."""
        return _most(self.rows)[:LINES]


@with_short_names
def strengths(frame: pd.DataFrame, over: Over = "steps") -> Figure:
    """Draw how strong snapshots are over env steps or time: `History.strengths`, of any runs.

    Mains are lines with a point for each snapshot; other snapshots are points alone, and bots dashed lines.
    """
    frame = frame[frame["unit"] == frame["unit"].iloc[0]] if len(frame) else frame
    if not frame["main"].any():
        return message("strengths", "No strengths yet", "No snapshot has played yet.")
    axis, several = _axis(frame, over), frame["run"].nunique() > 1
    everyone = frame.assign(x=axis.values, value=frame["strength"], name=_named(frame), samples=1)
    rows = everyone[everyone["main"]]
    elo = frame["unit"].iloc[0] == "Elo"
    newest = rows.groupby("name", sort=False).tail(1)
    best = newest.sort_values("strength", kind="stable").iloc[-1]
    ends = (rows[rows["name"] == best["name"]]["strength"].iloc[0], best["strength"])
    first, last = (f"{one:+.0f}" if elo else f"{one:.3g}" for one in ends)
    title = f"{best['player']} went from {first} to {last}{' Elo' * elo}"
    if several:  # a number beside another would look like a verdict, which it is not
        title = "How strong each run became, by its own games"
    above = {str(one) for one in frame["yardstick"].fillna("the mean of all")}
    what = f"Elo above {above.pop()}" if len(above) == 1 else "Elo above the yardstick"
    what += " of the same run" * several
    bots = everyone[frame["player"].isna()]
    others = everyone[~frame["main"] & frame["player"].notna()].fillna({"role": "no role"})
    subtitle = f"Strength of the mains' snapshots {_BAND}, by the games of their own run"
    subtitle += f": {what}." if elo else ": the mean score."
    subtitle += " Points alone: snapshots of other players." * bool(len(others))
    if (more := rows["name"].nunique() - LINES) > 0:
        subtitle += f" {more} players with fewer snapshots are left out."
    panel = _Panel("strength, Elo" if elo else "mean score", rows)
    roles = [(str(role), looks(others["role"])[role]) for role in others["role"].unique()]
    keys = [key(look.color, look.marker, f"snapshots of {words(role)}") for role, look in roles]
    figure = _stacked("strengths", title, subtitle, [panel], axis, more=keys, tall=1.5 * _TALL)
    (axes,) = figure.axes
    for name in panel.names:
        own = rows[rows["name"] == name]
        marks(axes, own["x"], own["value"], ".", 4.0, color=INK)
    for role, look in roles:
        own = others[others["role"] == role]
        x, low, high = (own[column].to_numpy(dtype=float) for column in ("x", "low", "high"))
        paths(axes, [x, x], [low, high], color=look.color, linewidth=0.8, alpha=0.45)
        marks(axes, x, own["value"], look.marker, 3.6, color=look.color)
    above_line: Any = {"xytext": (0, 1.5), "textcoords": "offset points", "ha": "right", "va": "bottom"}
    above_line |= {"size": SMALL, "color": BOT.color}
    for bot, value in zip(bots["snapshot_id"], bots["value"], strict=True):
        axes.axhline(value, color=BOT.color, dashes=BOT.dashes, linewidth=1.0)
        name, at = printable(str(bot)), (1.0, value)
        axes.annotate(name, at, xycoords=("axes fraction", "data"), **above_line)
    seen = np.concatenate([rows[["low", "high"]].to_numpy(dtype=float).ravel(), everyone["value"]])
    room = 0.06 * (np.nanmax(seen) - np.nanmin(seen) + 1e-9)
    # bars of newcomers, which are long, set no limits
    axes.set_ylim(np.nanmin(seen) - room, np.nanmax(seen) + room)
    return figure


@with_short_names
def scores(curves: pd.DataFrame, over: Over = "steps", roles: Mapping[str, str] | None = None) -> Figure:
    """Draw the mean score per match of each player that learns, and how long its matches take.

    With the `roles` of players, the first of each role has that role's colour, as in other plots.
    """
    frame, axis = _of(curves, over, "score", "length")
    if frame.empty:
        return message("scores", "No scores yet", "No match that was learned from is recorded yet.")
    score = _Panel("score per match", frame[frame["measure"] == "score"])
    length = _Panel("env steps per match", frame[frame["measure"] == "length"])
    first = _players(curves)[0]
    last = score.rows[score.rows["name"] == first].iloc[-1]
    interval = "" if pd.isna(last["low"]) else f" [{last['low']:.3g}, {last['high']:.3g}]"
    title = f"{first} scored {last['value']:.3g}{interval} at last"
    subtitle = (
        f"Mean score of a match {_BAND}, and its env steps of all seats, in stretches of the run, as players "
        "acted then: with exploration."
    )
    players = _players(curves)[:LINES]
    return _stacked(
        "scores", title, subtitle, [score, length], axis, players, _of_roles(players, roles or {})
    )


@with_short_names
def win_rates(curves: pd.DataFrame, over: Over = "steps") -> Figure:
    """Draw the points per game of live players against each kind of opponent; a panel for each player."""
    frame, axis = _of(curves, over, "win_rate")
    if frame.empty:
        return message("win-rates", "No games yet", "No player that learns has met an opponent yet.")
    own = frame["name"]
    players = [name for name in _players(curves) if (own == name).any()]
    shown, frame = players[:PLAYERS], frame.assign(name=frame["series"].astype(str))
    panels = [_Panel("points per game", frame[own == name], share=True, title=name) for name in shown]
    against = panels[0].names[0]
    last = panels[0].rows[panels[0].rows["name"] == against].iloc[-1]
    title = f"{shown[0]} scored {last['value']:.2f} of its games against {against} at last"
    subtitle = f"Points per game of each player that learns {_BAND}, by opponent; a draw is half a point."
    if len(players) > len(shown):
        subtitle += f" {len(players) - len(shown)} players with fewer games are left out."
    return _stacked("win-rates", title, subtitle, panels, axis, shared=True)


@with_short_names
def ends(curves: pd.DataFrame, over: Over = "steps") -> Figure:
    """Draw how matches of one run end, and what each seat is worth in games of several seats."""
    one_run(curves)
    end, axis = _of(curves, over, "end")
    seat, _ = _of(curves, over, "seat")
    if end.empty:
        return message("ends", "No matches yet", "No match that was learned from is recorded yet.")
    ended = _of_all_players(end)
    usual = ended[ended["name"] == "finished"]["value"]
    title = f"{percent(float(usual.iloc[-1]) if len(usual) else 0.0)} of the last matches were finished"
    panels = [_Panel("share of matches", ended, share=True, whole=True)]
    subtitle = "How matches that were learned from ended, in stretches of the run."
    if not seat.empty and len(usual) == len(ended):
        title, panels, subtitle = "All matches were finished; what each seat is worth", [], ""
    if not seat.empty:
        named = _alike(seat)
        panels.append(_Panel("points per game", named, share=True))
        below = " Below: points" if subtitle else "Points"
        subtitle += f"{below} per game of each seat {_BAND}, whatever competitor has it."
    return _stacked("ends", title, subtitle, panels, axis)


def _alike(seat: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of seats with names; seats of the same points, as those of a team, are one line."""
    lines: dict[tuple[float, ...], list[str]] = {}
    for number, rows in seat.groupby("series", sort=True):
        lines.setdefault(tuple(rows[["x", "value"]].to_numpy(dtype=float).ravel()), []).append(str(number))
    names = {own[0]: f"seat{'s' * (len(own) > 1)} {', '.join(own)}" for own in lines.values()}
    own = seat[seat["series"].astype(str).isin(list(names))]
    return own.assign(name=own["series"].astype(str).map(names))


def _of_all_players(end: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of reasons among the matches of all players together."""
    reason = end["series"].astype(str).map(words)
    counted = end.assign(n=end["value"] * end["samples"], name=reason)
    total = counted.groupby(["name", "x"], as_index=False)[["n", "samples"]].sum()
    total["value"] = total["n"] / total.groupby("x")["n"].transform("sum")
    # by which lines are ordered and left out
    return total.assign(samples=total["n"], low=np.nan, high=np.nan).sort_values(["name", "x"])


@with_short_names
def learning(curves: pd.DataFrame, over: Over = "steps", roles: Mapping[str, str] | None = None) -> Figure:
    """Draw what learners report: entropy, losses, gradient norm, lag. `roles`: as in `scores`."""
    frame, axis = _of(curves, over, *_REPORTED)
    frame = frame[frame["value"].notna()]
    if frame.empty:
        return message("learning", "No updates yet", "No learner has reported an update yet.")
    measured = ((label, frame[frame["measure"] == measure]) for measure, label in _REPORTED.items())
    panels = [_Panel(label, rows) for label, rows in measured if not rows.empty]
    names = _players(curves)[:LINES]
    own = frame[(frame["measure"] == "entropy") & (frame["name"] == names[0])]["value"]
    title = f"{names[0]} has begun to learn"
    if len(own) > 1:
        title = f"The entropy of {names[0]} went from {own.iloc[0]:.3g} to {own.iloc[-1]:.3g} nats"
    sheet = Sheet("learning", title, "Means of what learners report, in stretches of the run.", 0)
    slots = _of_roles(names, roles or {})
    keys = _keys(names, slots)
    below = legend_height(sheet, keys)
    high = -(-len(panels) // 2)
    sheet.resize(below + high * (_LOW + 40) + 20)
    wide = (WIDTH - 2 * EDGE - _LEFT) / 2 - 14
    for place, panel in enumerate(panels):
        row, column = divmod(place, 2)
        bottom = below + 34 + (high - 1 - row) * (_LOW + 40)
        axes = sheet.axes(_LEFT + column * (wide + 46), bottom, wide - 12, _LOW)
        _draw(axes, panel, names, slots)
        step_axis(axes, axis.values, axis.label if place + 2 >= len(panels) else "", ticks=3)
        axes.set_title(panel.label, loc="left", size=SMALL, pad=3)
    legend(sheet, keys, 0.0)
    return sheet.figure


@dataclass(frozen=True, slots=True)
class _Axis:
    """The x axis that all panels of a figure share."""

    values: pd.Series
    label: str


def _of(curves: pd.DataFrame, over: Over, *measures: str) -> tuple[pd.DataFrame, _Axis]:
    """Return the rows of `measures` with their places `x`, and the axis of all curves."""
    axis = _axis(curves, over)
    return curves.assign(x=axis.values, name=_named(curves))[curves["measure"].isin(measures)], axis


def _axis(frame: pd.DataFrame, over: Over) -> _Axis:
    """Return the places of the rows of `frame` over env steps or time."""
    if over == "steps":
        return _Axis(frame["league_env_steps"].astype(float), "env steps of the league")
    if frame.empty or frame["minutes"].max() < _HOURS:
        return _Axis(frame["minutes"], "minutes since the first match")
    return _Axis(frame["minutes"] / 60.0, "hours since the first match")


def _named(rows: pd.DataFrame) -> pd.Series:
    """Return the player of each row; of several runs, with its run in front."""
    player = rows["player"].astype(str)
    return player if rows["run"].nunique() < 2 else rows["run"].astype(str) + "/" + player


def _players(curves: pd.DataFrame) -> list[str]:
    """Return the players, those with most scores first: each has one colour in all figures."""
    named = curves[curves["player"].notna()]
    named = named.assign(name=_named(named))
    return list(dict.fromkeys([*_most(named[named["measure"] == "score"]), *_most(named)]))


def _most(rows: pd.DataFrame) -> list[str]:
    """Return the names of `rows`, those with most samples first."""
    total = rows.groupby("name", sort=False)["samples"].sum()
    return [str(name) for name in total.sort_values(ascending=False, kind="stable").index]


def _stacked(
    name: str,
    title: str,
    subtitle: str,
    panels: Sequence[_Panel],
    axis: _Axis,
    lines: Sequence[str] | None = None,
    slots: Mapping[str, int] | None = None,
    shared: bool = False,
    more: Sequence[Line2D] = (),
    tall: float = _TALL,
) -> Figure:
    """Return a figure of panels one below the other: each with a legend, or with the same `lines` and one.

    `slots`: the places in HUES of lines, in all panels. `shared`: a name has the same place in all of them.
    `more`: further entries of each legend. `tall`: points of a panel.
    """
    sheet = Sheet(name, title, subtitle, 0)
    shown = [panel.names if lines is None else lines for panel in panels]
    places = _shared(shown) if shared else [slots or _filled(names, {}) for names in shown]
    keys = [[*_keys(names, own), *more] for names, own in zip(shown, places, strict=True)]
    legends = [legend_height(sheet, own) for own in keys]
    if lines is not None:
        legends[:-1] = [0.0] * (len(panels) - 1)
    whole = tall + _AXIS + (14.0 if any(panel.title for panel in panels) else 0.0)
    sheet.resize(sum(legends) + len(panels) * whole)
    bottom = sheet.body
    for place, panel in enumerate(panels):
        bottom -= whole + legends[place]
        if legends[place]:
            legend(sheet, keys[place], bottom)
        axes = sheet.axes(_LEFT, bottom + legends[place] + _AXIS - 8, WIDTH - _LEFT - EDGE - 6, tall)
        _draw(axes, panel, shown[place], places[place])
        last = place + 1 == len(panels)
        step_axis(axes, axis.values, axis.label if last or lines is None else "")
        axes.set_ylabel(panel.label)
        if panel.title:
            axes.set_title(sheet.elided(panel.title, 250.0, TEXT), loc="left", size=TEXT, pad=4)
    return sheet.figure


def _of_roles(players: Sequence[str], roles: Mapping[str, str]) -> dict[str, int]:
    """Return the place in HUES of each player: the first of each role has the colour of its role."""
    look, found = looks(roles.values()), dict[str, int]()
    for player in players:
        hue = HUES.index(look[roles[player]].color) if player in roles else None
        if hue is not None and hue not in found.values():
            found[player] = hue
    return _filled(players, found)


def _shared(panels: Sequence[Sequence[str]]) -> list[dict[str, int]]:
    """Return the places of the lines of each panel: a name has the same one in all panels, if it is free."""
    first: dict[str, int] = {}
    found = []
    for names in panels:
        own: dict[str, int] = {}
        for name in names:
            if name in first and first[name] not in own.values():
                own[name] = first[name]
        own = _filled(names, own, taken=first.values())
        first = own | first
        found.append(own)
    return found


def _filled(names: Sequence[str], found: Mapping[str, int], taken: Iterable[int] = ()) -> dict[str, int]:
    """Return `found` with places for the other `names`: free ones, first those that are not `taken`."""
    own, taken = dict(found), set(taken)
    free = [place for place in range(len(HUES)) if place not in own.values()]
    free.sort(key=lambda place: place in taken)
    for name in names:
        if name not in own:
            own[name] = free.pop(0)
    return own


def _draw(axes: Axes, panel: _Panel, names: Sequence[str], slots: Mapping[str, int]) -> None:
    for name in names:
        place = slots[name]
        rows = panel.rows[panel.rows["name"] == name]
        x, value, low, high = (rows[column].to_numpy(dtype=float) for column in ("x", "value", "low", "high"))
        if np.isfinite(low).any():
            axes.fill_between(x, low, high, color=HUES[place], alpha=0.16, linewidth=0)
        look = _look(place) | {"marker": "o" if len(x) == 1 else "", "markersize": 3.0}
        axes.plot(x, value, linewidth=1.4, label=f"{panel.label}: {name}", **look)
    if panel.whole:
        axes.set_ylim(-0.03, 1.03)
    elif panel.share:
        axes.set_ylim(*_limits(panel.rows[panel.rows["name"].isin(names)]))
    grid(axes)


def _limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of an axis of shares: around 1/2, never closer than a tenth, within [0, 1]."""
    values = rows[["value", "low", "high"]].to_numpy(dtype=float)
    low, high = min(float(np.nanmin(values)), 0.45), max(float(np.nanmax(values)), 0.55)
    room = 0.04 * (high - low)
    return max(low - room, -0.03), min(high + room, 1.03)


def _look(place: int) -> dict[str, Any]:
    """Return the colour and style of the line in a place: lines differ without their colours too."""
    return {"color": HUES[place], "linestyle": (0, _DASHES[place]) if _DASHES[place] else "-"}


def _keys(names: Sequence[str], slots: Mapping[str, int]) -> list[Line2D]:
    """Return the entries of a legend."""
    return [Line2D([], [], linewidth=1.6, label=printable(name), **_look(slots[name])) for name in names]
