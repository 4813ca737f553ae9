"""Plot of speed over the league's env steps."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis.plots.sheet import EDGE, Sheet, grid, message, step_axis
from analysis.plots.style import HUES, WIDTH, drawing, steps

_TALL = 170.0


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
