"""The plots, each as a figure with a sentence that says what it shows."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis import plots
from analysis.report.story import Story
from analysis.report.writing.markup import Html, element
from analysis.report.writing.phrases import number, whole, words
from analysis.report.writing.section import Section, paragraph, section
from analysis.report.writing.tables import Column, table


def picture(id_: str, figure: Figure, caption: str, *, chart: str | None = None) -> Html:
    """`figure` inlined; `chart`: the id of the place where a chart may be drawn in its stead."""
    drawn = element("div", Html(plots.svg(figure)), class_="drawing")
    place = None if chart is None else element("div", id=chart, class_="chart")
    return element("figure", drawn, place, element("figcaption", caption), id=id_)


def ratings(story: Story) -> Section:
    if story.ratings.empty:
        return section("ratings", "Ratings over time", paragraph("Nobody has been rated yet."))
    figure = plots.ratings(story.ratings, story.leaderboard)
    return section(
        "ratings",
        "Ratings over time",
        picture(
            "ratings-plot",
            figure,
            "TrueSkill's mu of each player as the league played on, with a band of two sigma; snapshots "
            "stand where "
            "they were frozen. Ratings are relative: all may rise or fall together.",
            chart="ratings-chart",
        ),
    )


def payoff(story: Story) -> Section:
    title = "Who beats whom"
    if story.payoff.empty:
        return section("payoff", title, paragraph("Nobody has met anybody yet."))
    field = story.field
    board = story.leaderboard[story.leaderboard["competitor"].isin(field.names)]
    return section(
        "payoff",
        title,
        picture(
            "payoff-plot",
            plots.payoff_heatmap(story.payoff, story.leaderboard),
            "Points per game of each row against each column, the best rated first. Where strength is all "
            "there is, "
            "colours run smoothly from corner to corner; islands are opponents that somebody cannot handle.",
            chart="payoff-chart",
        ),
        picture(
            "response-plot",
            plots.response_graph(field.met, board, filled=field.filled),
            "From each competitor an arrow to those that beat it best: where arrows end, nobody does better; "
            "where "
            "they go round in circles, no ranking tells the truth.",
        ),
    )


def lineage(story: Story) -> Section:
    title = "Lineage"
    if story.snapshots.empty:
        return section("lineage", title, paragraph("No snapshot has been frozen yet."))
    return section(
        "lineage",
        title,
        picture(
            "lineage-plot",
            plots.lineage_tree(story.snapshots, story.leaderboard),
            "Each snapshot and the one that its weights were trained on from. A new root is a player that "
            "was reset.",
        ),
    )


def exploitability(story: Story) -> Section:
    title = "Exploitability"
    if story.exploitability.empty:
        how = element("code", f"league exploit {story.argument} SNAPSHOT")
        return section(
            "exploitability",
            title,
            paragraph(
                "How much an opponent that knows a snapshot could win from it: not measured yet. ",
                how,
                " does it.",
            ),
        )
    return section(
        "exploitability",
        title,
        picture(
            "exploitability-plot",
            plots.exploitability(story.exploitability),
            "How much an opponent that knows a snapshot could win from it. Exact values come from the whole "
            "game "
            "tree; lower bounds from an opponent that was trained against it, who may have missed something.",
        ),
        table(
            "exploitability-table",
            "What was measured, the newest snapshot first",
            _MEASURED,
            story.exploitability.iloc[::-1]
            .sort_values("env_steps", ascending=False, kind="stable")
            .to_dict("records"),
            sortable=True,
        ),
    )


_MEASURED = [
    Column("snapshot", lambda row: row["snapshot_id"]),
    Column("kind", lambda row: words(str(row["kind"]))),
    Column("value", lambda row: number(row["value"], 4), numeric=True),
    Column("95 %", lambda row: f"[{number(row['low'], 4)}, {number(row['high'], 4)}]"),
    Column("unit", lambda row: row["unit"]),
    Column("trained", lambda row: whole(row["trained_env_steps"]), True, "env steps of the response"),
]
