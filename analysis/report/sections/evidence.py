"""Sections on findings, decisions and incidents, each with its evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.report.markup import Column, Section, drawn, paragraph, section, table
from analysis.report.phrases import moment, whole, words
from analysis.report.story import Story

MOST_DECISIONS = 300  # the newest; the others are available in SQL
MOST_ITEMS = 12  # shown items of a list or mapping in the evidence
MOST_FINDINGS = 100


def findings(story: Story) -> Section:
    """Return the section on findings of the diagnostics."""
    title = "Findings"
    if not story.totals.matches:
        return section("findings", title, paragraph("No match has been played yet."))
    found = story.findings
    if not found:
        what = (
            "The diagnostics found no forgetting, regression, circling, cycle, stagnation, lag, starvation, "
            "drift or jump of a seat."
        )
        return section("findings", title, paragraph(what))
    shown = [(finding, evidence_of(finding.evidence)) for finding in found[:MOST_FINDINGS]]
    return drawn("findings.html", "findings", title, found=shown, more=len(found) - MOST_FINDINGS)


def decisions(story: Story) -> Section:
    """Return the section on decisions of the league builder."""
    title = "Decisions"
    rows = story.decisions
    if rows.empty:
        what = "No decision has been made yet: no player was frozen or reset."
        return section("decisions", title, paragraph(what))
    of_reason = rows.groupby(["kind", "player", "reason"], dropna=False, observed=True)
    counts = of_reason.size().reset_index(name="times")
    counts = counts.sort_values(["times", "player", "kind", "reason"], ascending=[False, True, True, True])
    columns = [
        Column("player", lambda row: row["player"]),
        Column("decision", lambda row: words(str(row["kind"]))),
        Column("reason", lambda row: row["reason"]),
        Column("times", lambda row: row["times"], numeric=True),
    ]
    newest, shown = _newest(rows, MOST_DECISIONS)
    for row in newest:
        row["subject"] = row["snapshot_id"] if isinstance(row["snapshot_id"], str) else row["player"]
    by_reason = counts.to_dict("records")
    data = {
        "table": table("decisions-table", "Number of decisions by reason", columns, by_reason, sortable=True),
        "newest": [(row, evidence_of(row["evidence"])) for row in newest],
    }
    return drawn("decisions.html", "decisions", title, story=story, shown=shown, **data)


def _newest(rows: pd.DataFrame, most: int) -> tuple[list[dict[Any, Any]], str]:
    """Return at most so many rows, the newest first, and which they are, in words."""
    shown = "all of them" if len(rows) <= most else f"the last {most} of {len(rows):,}"
    return rows.iloc[::-1].head(most).to_dict("records"), shown


def evidence_of(evidence: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the name and the readable value of each fact."""
    return [(str(name), _plain(value)) for name, value in (evidence or {}).items()]


def _plain(value: Any) -> str:
    """Return a JSON value as readable text."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        items = [f"{key}: {_plain(item)}" for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [_plain(item) for item in value]
    else:
        return str(value)
    more = len(items) - MOST_ITEMS
    return ", ".join(items[:MOST_ITEMS]) + (f", and {more} more" if more > 0 else "") or "none"


MOST_INCIDENTS = 50


def incidents(story: Story) -> Section:
    """Return the section on deaths of processes, objects lost with their nodes, and matches set aside."""
    title = "Incidents"
    rows = story.incidents
    if rows.empty:
        return section("incidents", title, paragraph("Nothing has died, and no matches were set aside."))
    costs = ["matches", "env_steps", "updates"]
    of_kind = rows.groupby("kind", sort=False)
    sums = of_kind[costs].sum().assign(times=of_kind.size()).reset_index()
    cost = [
        Column("matches", lambda row: whole(row["matches"]), True, "under way: played again, or set aside"),
        Column("env steps", lambda row: whole(row["env_steps"]), True, "of experience not learned from"),
        Column("updates", lambda row: whole(row["updates"]), True, "that were made and are lost"),
    ]
    kinds = [
        Column("kind", lambda row: words(str(row["kind"]))),
        Column("times", lambda row: whole(row["times"]), numeric=True),
        *cost,
    ]
    columns = [
        Column("when", lambda row: moment(row["happened_at"]), title="UTC"),
        Column("who", lambda row: row["who"]),
        Column("node", lambda row: row["node"]),
        Column("cause", lambda row: row["cause"]),
        *cost,
        Column("then", lambda row: "; kept in ".join(filter(None, [row["remedy"], row["kept"]]))),
    ]
    newest, shown = _newest(rows, MOST_INCIDENTS)
    by_kind, each = "Incidents by kind, and what they cost", "Who, where, why, and what took its place"
    data = {
        "by_kind": table("incidents-by-kind", by_kind, kinds, sums.to_dict("records")),
        "table": table("incidents-table", each, columns, newest, sortable=True),
    }
    return drawn("incidents.html", "incidents", title, story=story, shown=shown, **data)
