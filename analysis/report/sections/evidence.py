"""Sections on findings of the diagnostics and decisions of the league builder, with their evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from analysis.report.story import Story
from analysis.report.writing.markup import Html, element, join
from analysis.report.writing.phrases import count, sentence, short, span, words
from analysis.report.writing.section import Section, paragraph, section
from analysis.report.writing.tables import Column, Row, table

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
            "The diagnostics found no forgetting, regression, circling, cycle, stagnation, lag, starvation "
            "or drift."
        )
        return section("findings", title, paragraph(what))
    items = (
        element(
            "li",
            element("span", finding.severity, class_=f"mark {finding.severity}"),
            element("strong", words(finding.kind)),
            ": ",
            sentence(finding.sentence),
            _shown(finding.evidence, "numbers"),
        )
        for finding in found[:MOST_FINDINGS]
    )
    more = len(found) - MOST_FINDINGS
    return section(
        "findings",
        title,
        paragraph("Each finding passed a statistical test that is corrected for the number of tests."),
        element("ul", *items, class_="findings"),
        paragraph("And ", count(more, "more"), ": ", element("code", "league diagnose RUN"), ".")
        if more > 0
        else None,
    )


def decisions(story: Story) -> Section:
    """Return the section on decisions of the league builder."""
    title = "Decisions"
    rows = story.decisions
    if rows.empty:
        return section(
            "decisions", title, paragraph("No decision has been made yet: no player was frozen or reset.")
        )
    counts = (
        rows.groupby(["kind", "player", "reason"], dropna=False, observed=True)
        .size()
        .reset_index(name="times")
    )
    counts = counts.sort_values(["times", "player", "kind", "reason"], ascending=[False, True, True, True])
    columns = [
        Column("player", lambda row: row["player"]),
        Column("decision", lambda row: words(str(row["kind"]))),
        Column("reason", lambda row: row["reason"]),
        Column("times", lambda row: row["times"], numeric=True),
    ]
    newest = rows.iloc[::-1].head(MOST_DECISIONS)
    shown = "all of them" if len(newest) == len(rows) else f"the last {MOST_DECISIONS} of {len(rows):,}"
    return section(
        "decisions",
        title,
        paragraph(
            f"Decisions of the league builder and the numbers behind them: {shown}, newest first. As SQL: ",
            element("code", f"league sql {story.argument} @freezes"),
            ".",
        ),
        table(
            "decisions-table",
            "Number of decisions by reason",
            columns,
            counts.to_dict("records"),
            sortable=True,
        ),
        element(
            "div",
            element(
                "ol",
                *(_decision(row) for row in newest.to_dict("records")),
                class_="decisions",
                reversed=True,
            ),
            class_="scroll",
            tabindex=0,
            role="region",
            aria_label="Decisions, newest first",
        ),
    )


def _decision(row: Row) -> Html:
    subject = row["snapshot_id"] if isinstance(row["snapshot_id"], str) else row["player"]
    when = f"{short(row['league_env_steps'])} steps, {span(row['minutes'])}"
    line = join(
        [element("strong", words(str(row["kind"]))), f" {subject}: {row['reason']} ", element("small", when)]
    )
    shown = _shown(row["evidence"], None, line)
    return element("li", shown or line, class_=None if shown else "bare")


def _shown(evidence: Mapping[str, Any] | None, label: str | None, line: Html | None = None) -> Html | None:
    """Return a line that unfolds to show its evidence, or `None` without evidence."""
    if not evidence:
        return None
    pairs = [
        part
        for key, value in evidence.items()
        for part in (element("dt", words(str(key))), element("dd", _plain(value)))
    ]
    return element("details", element("summary", line or label), element("dl", *pairs, class_="evidence"))


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
