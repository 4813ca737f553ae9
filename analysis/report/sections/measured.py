"""Sections on what was measured of snapshots: exploitability, and figures on yardsticks."""

from __future__ import annotations

import pandas as pd

from analysis import plots
from analysis.report.markup import Column, Html, Row, Section, drawn, table
from analysis.report.phrases import number, whole, words
from analysis.report.sections.pictures import picture
from analysis.report.story import Story

NASH = "nash"  # behind the name of a snapshot: the mixture of the pool up to it (league.competitors.mixtures)
NOTHING_LEARNED = "nothing_learned"  # worth of a lower bound that is no evidence (league.exploit.worth)
NAMED = 3  # most snapshots that a sentence names


def exploitability(story: Story) -> Section:
    """Return the section with measured exploitabilities."""
    title = "Exploitability"
    rows = story.exploitability
    if rows.empty:
        return drawn("exploitability.html", "exploitability", title, story=story, plot=None)
    caption = (
        "How much an opponent that knows a snapshot can win from it. Exact values come from the whole "
        "game tree. Lower bounds come from an opponent that was trained against the snapshot."
    )
    newest_first = rows.iloc[::-1].sort_values("env_steps", ascending=False, kind="stable").to_dict("records")
    all_of_them = "All measurements, the newest snapshot first"
    data = {
        "story": story,
        "plot": picture("exploitability-plot", plots.exploitability(rows), caption),
        "table": table("exploitability-table", all_of_them, _MEASURED, newest_first, sortable=True),
        "unproved": rows.loc[rows["worth"] == NOTHING_LEARNED, "snapshot_id"].drop_duplicates().tolist(),
        **{"named": NAMED, "pools": pools_of(story)},
    }
    return drawn("exploitability.html", "exploitability", title, **data)


def pools_of(story: Story) -> Html | None:
    """Return the table of measured Nash mixtures by the size of their pool; `None` if there are none."""
    measured = story.exploitability.drop_duplicates(["snapshot_id", "kind", "unit"], keep="last")
    rows = []
    for row in measured.to_dict("records"):
        newest, _, kind = str(row["snapshot_id"]).rpartition(":")
        at = story.snapshots[story.snapshots["snapshot_id"] == newest]
        if kind == NASH and len(at):
            own = story.snapshots[story.snapshots["player"] == at["player"].iloc[0]]
            rows.append(row | {"pool": int((own["env_steps"] <= at["env_steps"].iloc[0]).sum())})
    if not rows:
        return None
    rows.sort(key=lambda row: (row["player"], row["pool"]))
    return table("pools-table", "The Nash mixture of a player's snapshots, by their number", _POOLS, rows)


_POOLS = [
    Column("snapshots", lambda row: whole(row["pool"]), numeric=True),
    Column("mixture", lambda row: row["snapshot_id"]),
    Column("kind", lambda row: words(str(row["kind"]))),
    Column("value", lambda row: number(row["value"], 4), numeric=True),
    Column("unit", lambda row: row["unit"]),
]
_MEASURED = [
    Column("snapshot", lambda row: row["snapshot_id"]),
    Column("kind", lambda row: words(str(row["kind"]))),
    Column("value", lambda row: number(row["value"], 4), numeric=True),
    Column("95 %", lambda row: f"[{number(row['low'], 4)}, {number(row['high'], 4)}]"),
    Column("unit", lambda row: row["unit"]),
    Column("trained", lambda row: whole(row["trained_env_steps"]), True, "env steps of the response"),
    Column("response", lambda row: words(row["worth"]) if isinstance(row["worth"], str) else ""),
]


TITLE = "Yardsticks"


def yardsticks(story: Story) -> Section:
    """Return the section with the figures of snapshots on yardsticks."""
    frame = story.yardsticks
    plot = rows = None
    if not frame["player"].isna().all():
        caption = (
            "Positions have known scores for every move, found by a solver. Games are against opponents that "
            "never change. Neither is learned from or rated."
        )
        plot = picture("yardsticks-plot", plots.yardsticks(frame), caption)
        measured, what = newest(frame).to_dict("records"), "Newest measured snapshot of each player, and bots"
        rows = table("yardsticks-table", f"{what} for comparison", _COLUMNS, measured, sortable=True)
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
