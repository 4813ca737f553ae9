"""Figures of a finished run, by which runs of several settings and seeds are compared.

strength         Elo of the newest snapshot of the mains above the run's anchor, from all recorded games
score            of a game of one seat: mean score of the last tenth of the training matches
exploitability   of the newest snapshot that was measured by `league exploit`; less is better
<yardstick>, <measure>, <mode>    the newest figure on a fixed yardstick, over all of its parts

Of several mains or snapshots the mean counts.
"""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from analysis.history.history import History
from storage.errors import Mistake
from storage.suggestions import did_you_mean

FIGURES = ("strength", "score", "exploitability")  # beside those on yardsticks
LESS_IS_BETTER = ("exploitability",)
LAST_SHARE = 0.1  # of the training matches


def check_figure(name: str) -> None:
    """Raise Mistake for a name that no run can have a figure of: known before anything is trained."""
    if name not in FIGURES and ", " not in name:
        raise Mistake(
            f"--by '{name}': {did_you_mean(name, FIGURES)} A figure on a yardstick is written as a sweep "
            "prints it: 'positions, best, greedy'"
        )


def figures_of(run: Path) -> dict[str, float]:
    """Return the figures that `run` has, by name, those that compare runs best first."""
    with History(run) as history:
        snapshots = history.snapshots()
        newest = snapshots.sort_values("env_steps").groupby("player").tail(1)
        mains = newest[newest["role"] == "main"]
        chosen = {*(mains if len(mains) else newest)["snapshot_id"]}
        found = _yardsticks(history.yardsticks(), chosen)
        found |= _exploitability(history.exploitability())
        found |= _score(history)
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


def _exploitability(rows: pd.DataFrame) -> dict[str, float]:
    return {} if rows.empty else {"exploitability": float(rows.iloc[-1]["value"])}


def _score(history: History) -> dict[str, float]:
    found = history.sql(
        "WITH alone AS (FROM seated WHERE purpose = 'training' AND num_seats = 1 AND learning)"
        " SELECT sum(a.score) / sum(seats) AS score FROM alone a"
        f" WHERE seq > (SELECT {1 - LAST_SHARE} * max(seq) FROM alone)"
    )["score"].dropna()
    return {} if found.empty else {"score": float(found.iloc[0])}
