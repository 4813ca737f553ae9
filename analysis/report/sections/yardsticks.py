"""Section on yardsticks: fixed measures, by which two runs can be compared."""

from __future__ import annotations

import pandas as pd

from analysis import plots
from analysis.report.markup import Column, Row, Section, drawn, table
from analysis.report.phrases import number, whole
from analysis.report.sections.pictures import picture
from analysis.report.story import Story

TITLE = "Yardsticks"


def yardsticks(story: Story) -> Section:
    """Return the section with the figures of snapshots on yardsticks."""
    frame = story.yardsticks
    plot = rows = None
    if not frame["player"].isna().all():
        plot = picture(
            "yardsticks-plot",
            plots.yardsticks(frame),
            "Positions have known scores for every move, found by a solver. Games are against opponents that "
            "never change. Neither is learned from or rated.",
        )
        rows = table(
            "yardsticks-table",
            "Newest measured snapshot of each player, and bots for comparison",
            _COLUMNS,
            newest(frame).to_dict("records"),
            sortable=True,
        )
    return drawn("yardsticks.html", "yardsticks", TITLE, story=story, plot=plot, table=rows)


def newest(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the newest figures of each player's newest snapshot on each yardstick, and of each bot."""
    same = ["competitor", "yardstick", "part", "measure", "mode"]
    latest = frame.sort_values("created_at", kind="stable").drop_duplicates(same, keep="last")
    who = latest["player"].where(latest["player"].notna(), latest["competitor"])
    top = latest["env_steps"].fillna(0).groupby([who, latest["yardstick"]]).transform("max")
    return latest[latest["env_steps"].fillna(0) == top].sort_values(
        ["kind", "yardstick", "measure", "part", "mode", "competitor"], kind="stable", ignore_index=True
    )


def _interval(row: Row) -> str:
    return f"[{number(row['low'], 3)}, {number(row['high'], 3)}]"


_COLUMNS = [
    Column("competitor", lambda row: row["competitor"]),
    Column("yardstick", lambda row: row["yardstick"]),
    Column("measure", lambda row: row["measure"]),
    Column("part", lambda row: row["part"], title="decisive: the move decides between win, draw and loss"),
    Column("mode", lambda row: row["mode"], title="greedy: the likeliest action; sample: by probabilities"),
    Column("value", lambda row: number(row["value"], 3), numeric=True),
    Column("95 %", _interval),
    Column("samples", lambda row: whole(row["samples"]), True, "number of positions or games"),
]
