"""Plots of what is played: kinds of matches over time, and speed over the env steps of the league."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.plots.names import with_short_names
from analysis.plots.sheet import EDGE, Sheet, grid, legend, legend_height, message, one_run, step_axis
from analysis.plots.style import BANDS, HATCHES, HUES, INK, PAPER, SMALL, WIDTH, steps, words
from storage.arrays import Floats

SPANS = 120  # most spans of time; in longer runs a span has several minutes
PANELS = 10  # most players: those with most matches
TYPES = len(BANDS)  # most match types; the others are counted together
OTHER = "other types"

# The usual branches look the same in every run.
_FIRST = ("pfsp", "self_play", "forgotten", "past_main", "current_main")


@with_short_names
def match_mix(match_mix_over_time: pd.DataFrame) -> Figure:
    """Draw for each player the shares of match types among its training matches, stacked.

    `match_mix_over_time` is History's `match_mix(over_time=True)` of one run: minutes, over the league's env
    steps. A run of more than SPANS minutes is cut into spans of several.
    """
    one_run(match_mix_over_time)
    frame = match_mix_over_time
    if not frame.empty:
        frame = frame[(frame["purpose"] == "training") & frame["player"].notna()]
    if frame.empty:
        return message("match-mix", "No training matches", "No player has learned from a match in this run.")
    player, kind = frame["player"].astype(str), frame["match_type"].astype(str)
    matches, minute = frame["matches"].to_numpy(dtype=float), frame["minute"].to_numpy(dtype=np.int64)
    played = matches_by(player, matches)
    types = _types(kind, matches)
    kind = kind.where(kind.isin(types), OTHER)
    width = -(-(int(minute.max()) + 1) // SPANS)
    spans = int(minute.max()) // width + 1
    span = match_mix_over_time["minute"].to_numpy(dtype=np.int64) // width
    ends = np.zeros(max(spans, int(span.max()) + 1))
    np.maximum.at(ends, span, match_mix_over_time["league_env_steps"].to_numpy(dtype=float))
    edges = np.append(0.0, np.maximum.accumulate(ends)[:spans])  # env steps of the league between spans
    shown = list(played)[:PANELS]
    sheet = Sheet("match-mix", _title(kind, matches), _caption(width, spans, len(played) - len(shown)), 0)
    keys = [
        Patch(facecolor=color, edgecolor=INK, linewidth=0, hatch=hatch, label=words(name))
        for name, (color, hatch) in _looks(types).items()
    ]
    below = legend_height(sheet, keys)
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    tall = 120.0 if rows <= 2 else 84.0
    sheet.resize(below + 26 + rows * (tall + 24))
    wide = (WIDTH - 2 * EDGE - 34 - 10 - (columns - 1) * 16) / columns  # 10: half of the last label
    for place, name in enumerate(shown):
        row, column = divmod(place, columns)
        bottom = below + 30 + (rows - 1 - row) * (tall + 24)
        axes = sheet.axes(EDGE + 34 + column * (wide + 16), bottom, wide, tall)
        mine = (player == name).to_numpy()
        counts = np.zeros((len(types), spans))
        np.add.at(
            counts, (pd.Index(types).get_indexer(pd.Index(kind[mine])), minute[mine] // width), matches[mine]
        )
        _panel(axes, sheet.elided(f"{name}: {played[name]:,.0f}", wide), counts, edges, types)
        if column:
            axes.set_yticklabels([])
        if place + columns >= len(shown):
            axes.set_xlabel("env steps of the league")
        else:
            axes.set_xticklabels([])
    legend(sheet, keys, 0.0)
    return sheet.figure


def matches_by(names: pd.Series, matches: Floats) -> dict[str, float]:
    """Return the number of matches of each name, largest first."""
    total = pd.Series(matches).groupby(names.to_numpy()).sum()
    counts = {str(name): float(count) for name, count in total.items()}
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _types(kind: pd.Series, matches: Floats) -> list[str]:
    """Return the match types with their own band: the usual ones first, then by matches."""
    found = list(matches_by(kind, matches))
    if len(found) > TYPES:
        found = [*found[: TYPES - 1], OTHER]
    return sorted(found, key=lambda name: (name not in _FIRST, found.index(name)))


def _looks(types: list[str]) -> dict[str, tuple[str, str]]:
    free = (place for place in range(TYPES) if place >= len(_FIRST) or _FIRST[place] not in types)
    places = [_FIRST.index(name) if name in _FIRST else next(free) for name in types]
    return {name: (BANDS[place], HATCHES[place]) for name, place in zip(types, places, strict=True)}


def _panel(axes: Axes, title: str, counts: Floats, edges: Floats, types: list[str]) -> None:
    total = counts.sum(0)
    share = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    below = np.zeros(counts.shape[1])
    for row, (name, (color, hatch)) in enumerate(_looks(types).items()):
        above = below + share[row]
        if share[row].any():
            look: Any = {"facecolor": color, "edgecolor": INK if hatch else PAPER, "hatch": hatch}
            axes.stairs(above, edges, baseline=below, fill=True, linewidth=0, label=name, **look)
        below = above
    axes.set_xlim(0, max(edges[-1], 1.0))
    axes.set_ylim(0, 1)
    axes.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(steps))
    axes.set_title(title, loc="left", size=SMALL, pad=3)


def _title(kind: pd.Series, matches: Floats) -> str:
    total = matches_by(kind, matches)
    first, count = next(iter(total.items()))
    share = 100 * count / matches.sum()
    return f"Players learned most from {words(first)} matches: {share:.0f} % of {matches.sum():,.0f}"


def _caption(width: int, spans: int, left_out: int) -> str:
    each = f"{width} minutes" if width > 1 else "minute"
    text = "Shares of match types among the matches that each player learned from"
    text += f", for each {each}." if spans > 1 else "."
    text += " Behind each name: its matches."
    return text + (f" {left_out} players with fewer matches are left out." if left_out else "")


_TALL = 170.0


@with_short_names
def speed(frame: pd.DataFrame) -> Figure:
    """Draw the env steps a second over the league's env steps, a bar for each stretch of time.

    `frame` has a row for each stretch, in order: `league_env_steps` (at its end) and `env_steps_a_second`.
    Stretches in which nothing was played have no width: a run that stood still shows only its slower bars.
    """
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
