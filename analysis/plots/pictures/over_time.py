"""Plots of scores and of speed over the league's env steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis.plots.sheet import EDGE, Sheet, grid, key, legend, legend_height, message, step_axis
from analysis.plots.style import HUES, WIDTH, drawing, steps

LINES = len(HUES)  # most players with a line
_TALL = 170.0


def scores(frame: pd.DataFrame) -> Figure:
    """Draw the mean score per match of each player that learns, with its 95 % interval.

    `frame` has a row for each player and stretch of the run: `competitor`, `league_env_steps` (at the end of
    the stretch), `mean`, `low`, `high`, `matches`.
    """
    with drawing():
        if frame.empty:
            return message("scores", "No scores yet", "No match that was learned from is recorded yet.")
        players = list(dict.fromkeys(frame["competitor"].astype(str)))[:LINES]
        last = frame.groupby("competitor").last().loc[players[0]]
        subtitle = "Mean score per match with its 95 % interval, in stretches of the run; higher is better."
        title = f"{players[0]} scored {last['mean']:.3g} [{last['low']:.3g}, {last['high']:.3g}] at last"
        sheet = Sheet("scores", title, subtitle, 0)
        keys = [key(HUES[place], "o", player) for place, player in enumerate(players)]
        below = legend_height(sheet, keys)
        sheet.resize(below + _TALL + 40)
        axes = sheet.axes(50, below + 34, WIDTH - 50 - EDGE - 6, _TALL)
        for place, player in enumerate(players):
            rows = frame[frame["competitor"].astype(str) == player]
            x, mean, low, high = (
                rows[name].to_numpy(dtype=float) for name in ("league_env_steps", "mean", "low", "high")
            )
            axes.fill_between(x, low, high, color=HUES[place], alpha=0.16, linewidth=0)
            axes.plot(x, mean, color=HUES[place], linewidth=1.6, label=f"scores {player}",
                      marker="o" if len(x) == 1 else "")  # fmt: skip
        axes.set_ylabel("score per match")
        step_axis(axes, np.append(frame["league_env_steps"].to_numpy(dtype=float), 0.0))
        grid(axes)
        sheet.fit(axes, bottom=below)
        legend(sheet, keys, 0.0)
        return sheet.figure


def speed(frame: pd.DataFrame) -> Figure:
    """Draw the env steps a second over the league's env steps, a bar for each stretch of time.

    `frame` has a row for each stretch, in order: `league_env_steps` (at its end) and `env_steps_a_second`.
    Stretches in which nothing was played have no width: a run that stood still shows only its slower bars.
    """
    with drawing():
        if frame.empty:
            return message("speed", "No speed yet", "No match is recorded yet.")
        ends = frame["league_env_steps"].to_numpy(dtype=float)
        values = frame["env_steps_a_second"].to_numpy(dtype=float)
        moved = np.diff(np.append(0.0, ends)) > 0
        title = f"At most {steps(float(values.max()))} env steps a second"
        sheet = Sheet("speed", title, "Speed of the whole league: a bar for each stretch of time.", 0)
        sheet.resize(_TALL)
        axes = sheet.axes(50, 34, WIDTH - 50 - EDGE - 6, _TALL - 40)
        edges = np.append(0.0, ends[moved])
        axes.stairs(values[moved], edges, fill=True, color=HUES[0], alpha=0.75, label="speed")
        axes.set_ylim(0, float(values.max()) * 1.06 or 1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(steps))
        axes.set_ylabel("env steps a second")
        step_axis(axes, edges)
        grid(axes)
        sheet.fit(axes)
        return sheet.figure
