"""The verdict of a sweep: aggregates of each setting over its seeds, and a sentence on each.

A setting is worse than the leading one if the interval of the difference of their means, Welch's, leaves
out 0. With k settings each of the k - 1 intervals is of level 1 - 0.05 / (k - 1), so that all of them hold
together in 95 % of sweeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.seeds.aggregates import LEVEL, Aggregate, Interval, aggregate, difference
from analysis.sweeps.figures import LESS_IS_BETTER
from storage.errors import Mistake


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of a sweep by one figure."""

    setting: str
    figure: str
    scores: tuple[float, ...]  # of its seeds, in order
    aggregate: Aggregate
    behind: Interval | None  # by how much its mean is worse than the leader's; None: it leads
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
    setting: str, best: str, by: str, found: Aggregate, behind: Interval | None, others: int
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


def ends(interval: Interval) -> str:
    """Return the ends of an interval in brackets; "" if they are not known."""
    if not math.isfinite(interval.low):
        return ""
    return f" [{number(interval.low)}, {number(interval.high)}]"
