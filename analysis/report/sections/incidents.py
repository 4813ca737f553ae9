"""Section on incidents: what died or was set aside while the run trained, and what it cost."""

from __future__ import annotations

from analysis.report.markup import Column, Section, drawn, paragraph, section, table
from analysis.report.phrases import moment, whole, words
from analysis.report.story import Story

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
    newest = rows.iloc[::-1].head(MOST_INCIDENTS)
    shown = "all of them" if len(newest) == len(rows) else f"the last {MOST_INCIDENTS} of {len(rows):,}"
    return drawn(
        "incidents.html",
        "incidents",
        title,
        story=story,
        shown=shown,
        by_kind=table(
            "incidents-by-kind",
            "Incidents by kind, and what they cost",
            [
                Column("kind", lambda row: words(str(row["kind"]))),
                Column("times", lambda row: whole(row["times"]), numeric=True),
                *cost,
            ],
            sums.to_dict("records"),
        ),
        table=table(
            "incidents-table",
            "Who, where, why, and what took its place",
            [
                Column("when", lambda row: moment(row["happened_at"]), title="UTC"),
                Column("who", lambda row: row["who"]),
                Column("node", lambda row: row["node"]),
                Column("cause", lambda row: row["cause"]),
                *cost,
                Column("then", lambda row: "; kept in ".join(filter(None, [row["remedy"], row["kept"]]))),
            ],
            newest.to_dict("records"),
            sortable=True,
        ),
    )
