"""What the runs of a sweep show: figures of a finished run, and a verdict on each setting over its seeds.

strength         Elo of the newest snapshot of the mains above the run's anchor, from all recorded games
score            of a game of one seat: mean score of the last tenth of the training matches
exploitability   of the newest snapshot that was measured by `league exploit`; less is better
<yardstick>, <measure>, <mode>    the newest figure on a fixed yardstick, over all of its parts

Of several mains or snapshots the mean counts. A setting is worse than the leading one if the interval of the
difference of their means, Welch's, leaves out 0. With k settings each of the k - 1 intervals is of level 1 -
0.05 / (k - 1), so that all of them hold together in 95 % of sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.history.history import History
from analysis.statistics.seeds import LEVEL, Aggregate, Estimate, aggregate, difference
from storage.errors import Mistake
from storage.suggestions import did_you_mean

FIGURES = ("strength", "score", "exploitability")  # beside those on yardsticks
LESS_IS_BETTER = ("exploitability",)
LAST_SHARE = 0.1  # of the training matches


def check_figure(name: str) -> None:
    """Raise Mistake for a name that no run can have a figure of: known before anything is trained."""
    if name not in FIGURES and ", " not in name:
        raise Mistake(
            f"--by '{name}': {did_you_mean(name, FIGURES)} (a figure on a yardstick is written as a sweep "
            "prints it: 'positions, best, greedy')"
        )


def figures_of(run: Path) -> dict[str, float]:
    """Return the figures that `run` has, by name, those that compare runs best first."""
    with History(run) as history:
        snapshots = history.snapshots()
        newest = snapshots.sort_values("env_steps").groupby("player").tail(1)
        mains = newest[newest["role"] == "main"]
        chosen = {*(mains if len(mains) else newest)["snapshot_id"]}
        found = _yardsticks(history.yardsticks(), chosen)
        if len(measured := history.exploitability()):
            found["exploitability"] = float(measured.iloc[-1]["value"])
        for score in history.sql(_SCORE)["score"].dropna():
            found["score"] = float(score)
        order = {place.competitor: place.elo for place in history.order().places}
    values = [float(order[name]) for name in sorted(chosen) if name in order]
    if values and all(map(math.isfinite, values)):
        found["strength"] = sum(values) / len(values)
    return found


def _yardsticks(rows: pd.DataFrame, chosen: set[str]) -> dict[str, float]:
    rows = rows[rows["competitor"].isin(chosen) & (rows["part"] == "all")]
    latest = rows.sort_values("created_at").groupby(["yardstick", "measure", "mode", "competitor"]).tail(1)
    means = latest.groupby(["yardstick", "measure", "mode"])["value"].mean()
    return {
        ", ".join(name): value for name, value in zip(means.index.to_list(), means.to_list(), strict=True)
    }


_SCORE = f"""
WITH alone AS (FROM seated WHERE purpose = 'training' AND num_seats = 1 AND learning)
SELECT sum(a.score) / sum(seats) AS score FROM alone a
WHERE seq > (SELECT {1 - LAST_SHARE} * max(seq) FROM alone)
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of a sweep by one figure."""

    setting: str
    figure: str
    scores: tuple[float, ...]  # of its seeds, in order
    aggregate: Aggregate
    behind: Estimate | None  # by how much its mean is worse than the leader's; None: it leads
    sentence: str


def figure_names(figures: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return the names of figures that every run has, in the order of the first run."""
    runs = [run for several in figures.values() for run in several]
    return [name for name in (runs[0] if runs else {}) if all(name in run for run in runs)]


def verdict(figures: Mapping[str, Sequence[Mapping[str, float]]], by: str | None = None) -> list[Line]:
    """Return a line for each setting, the best first: `figures` has those of its finished runs by seed.

    `by` names the figure; default: the first that every run has. Raise Mistake for one that is not there.
    """
    figures = {setting: runs for setting, runs in figures.items() if runs}
    if not figures:
        return []
    names = figure_names(figures)
    by = by or next(iter(names), None)
    if by is None or by not in names:
        known = ", ".join(f"'{name}'" for name in names) or "none"
        raise Mistake(f"--by '{by or ''}': not every run has this figure; those that all have: {known}")
    scores = {setting: np.array([run[by] for run in runs]) for setting, runs in figures.items()}
    sign = -1.0 if by in LESS_IS_BETTER else 1.0
    order = sorted(scores, key=lambda setting: -sign * float(scores[setting].mean()))
    best, others = order[0], len(order) - 1
    lines = []
    for setting in order:
        found = aggregate(scores[setting])
        behind = None
        if setting != best:
            level = 1.0 - (1.0 - LEVEL) / others
            behind = difference(sign * scores[best], sign * scores[setting], level=level)
        sentence = _sentence(setting, best, by, found, behind, others)
        lines.append(Line(setting, by, tuple(scores[setting].tolist()), found, behind, sentence))
    return lines


def _sentence(
    setting: str, best: str, by: str, found: Aggregate, behind: Estimate | None, others: int
) -> str:
    seeds = f"{found.n} seed{'s' if found.n != 1 else ''}"
    said = f"{setting}: {by} {number(found.mean.value)}{ends(found.mean)}, mean of {seeds}"
    if behind is None:
        return f"{said}; the highest place" if others else said
    gap = f"{number(behind.value)}{ends(behind)} behind {best}"
    if not math.isfinite(behind.low):
        return f"{said}; {gap}: one seed says nothing of chance, so nothing follows"
    return f"{said}; {gap}: {'worse' if behind.low > 0 else 'these seeds do not show which is better'}"


def number(value: float) -> str:
    """Return a figure with four significant digits."""
    return f"{value:.4g}"


def ends(interval: Estimate) -> str:
    """Return the ends of an interval in brackets; "" if they are not known."""
    if not math.isfinite(interval.low):
        return ""
    return f" [{number(interval.low)}, {number(interval.high)}]"
