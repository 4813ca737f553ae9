"""Sections on the mix of matches and on speed: throughput, updates, caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from analysis import plots
from analysis.report.markup import Column, Html, Row, Section, paragraph, section, table
from analysis.report.phrases import MISSING, number, percent, short, span, whole, words
from analysis.report.sections.pictures import picture
from analysis.report.story import Story

BARS = 60  # bars in the plot of throughput
SPENT = {
    "playing": "of all runners together, so that it may be above the run's own time",
    "learning": "in updates",
    "broadcasting": "copying new weights out",
    "waiting": "of its learner's process, with nothing to learn from",
}
LEAST_BARS = 3  # fewer bars show only when the run began and ended


def match_mix(story: Story) -> Section:
    """Return the section on the kinds of matches that were played."""
    title = "Matches played"
    rows = story.match_mix
    if rows.empty:
        return section("match-mix", title, paragraph("No match has been played yet."))
    columns = [
        Column("player", lambda row: "no learner" if pd.isna(row["player"]) else row["player"]),
        Column("purpose", lambda row: row["purpose"]),
        Column("kind of match", lambda row: words(str(row["match_type"]))),
        Column("matches", lambda row: whole(row["matches"]), numeric=True),
        Column("share", lambda row: percent(row["share"]), True, "of the player's matches with this purpose"),
    ]
    caption = "Kinds of matches that each player learned from, as shares of its matches over time."
    plot = None
    if not story.is_tournament:
        kinds = rows[rows["purpose"] == "training"].groupby("player")["match_type"].nunique()
        figure = plots.match_mix(story.match_mix_over_time)
        plot = picture("match-mix-plot", figure, caption, folded=len(kinds) > 0 and kinds.max() == 1)
    mixed = table("match-mix-table", "Matches by kind", columns, rows.to_dict("records"), sortable=True)
    return section("match-mix", title, plot, mixed, _by_role(story))


def _by_role(story: Story) -> Html | None:
    """Return the table of matches between kinds of competitors; None where none met another."""
    rows = story.matches_by_role
    if rows.empty:
        return None
    columns = [
        Column("home", lambda row: _kind(row["home_role"], row["home_kind"])),
        Column("away", lambda row: _kind(row["away_role"], row["away_kind"])),
        Column("purpose", lambda row: row["purpose"]),
        Column("games", lambda row: whole(row["games"]), numeric=True),
        Column("share", lambda row: percent(row["share"]), True, "of all games with this purpose"),
        Column("win rate", lambda row: percent(row["win_rate"]), True, "of home; a draw is half a win"),
    ]
    caption = "Matches by role: two kinds of competitors have a row from each side"
    return table("roles-table", caption, columns, rows.to_dict("records"), sortable=True)


def _kind(role: Any, kind: str) -> str:
    """Return the kind of a competitor in words: `main`, `snapshot of main`, `bot`."""
    return kind if pd.isna(role) else words(role) if kind == "player" else f"{kind} of {words(role)}"


def throughput(story: Story) -> Section:
    """Return the section on speed over time, the learners' last updates and caches."""
    shown = [part for part in (_speed(story), _learning(story), _seconds(story), _caches(story)) if part]
    nothing = paragraph("Nothing has been played or learned yet.")
    return section("throughput", "Speed", *(shown or [nothing]))


def _speed(story: Story) -> Html | None:
    totals = story.totals
    if totals.first is None or totals.minutes <= 0.0:
        return None
    # a match counts where it began, so a bar is twice as long as one takes, or there would be gaps
    took = story.sql("SELECT sum(seconds) / sum(matches) AS each FROM played WHERE NOT is_placing")["each"]
    width = max(1.0, totals.minutes * 60.0 / BARS, 2.0 * float(took.iloc[0]))
    rows = story.sql(
        f"SELECT CAST(floor(epoch(started_at - (SELECT min(started_at) FROM played)) / {width!r}) AS "
        f"BIGINT) AS bar,"
        " sum(p.env_steps) AS env_steps FROM played p WHERE NOT is_placing GROUP BY bar ORDER BY bar"
    )
    speeds = pd.Series(rows["env_steps"].to_numpy(float), rows["bar"]) / width
    speeds = speeds.reindex(range(int(rows["bar"].max()) + 1), fill_value=0.0)
    seconds = 60.0 * totals.trained
    steps, matches = short(totals.env_steps / seconds), short(totals.matches / seconds)
    sentence = f"{steps} env steps and {matches} matches a second on average, over {span(seconds / 60.0)}"
    if len(speeds) < LEAST_BARS:
        return paragraph(f"{sentence}.")
    frame = pd.DataFrame({"league_env_steps": (speeds * width).cumsum(), "env_steps_a_second": speeds})
    return picture("throughput-plot", plots.speed(frame), f"{sentence}; a bar is {span(width / 60.0)}.")


def _learning(story: Story) -> Html | None:
    updates = story.updates
    if updates.empty:
        return None
    of_player = updates.groupby("player", observed=True, sort=True)
    middle = of_player["lag"].median()
    last = of_player.last().assign(lag=middle, began=of_player["entropy"].first()).reset_index()
    columns = [
        Column("player", lambda row: row["player"]),
        Column("updates", lambda row: whole(row["updates"]), numeric=True),
        Column("env steps", lambda row: whole(row["env_steps"]), True, "env steps that it learned from"),
        Column("lag", lambda row: number(row["lag"], 1), True, "updates behind, median"),
        Column("entropy", _moved, True, "first and last"),
        Column("policy loss", lambda row: number(row["policy_loss"], 4), numeric=True),
        Column("value loss", lambda row: number(row["value_loss"], 4), numeric=True),
        Column("gradient norm", lambda row: number(row["gradient_norm"], 3), numeric=True),
    ]
    caption = "Last update of each learner; lag: age of its experience in updates"
    return table("learning-table", caption, columns, last.to_dict("records"), sortable=True)


def _moved(row: Row) -> str:
    return f"{number(row['began'])} → {number(row['entropy'])}"


def _seconds(story: Story) -> Html | None:
    """Return the table of what each learner's time was spent on; None for runs that did not measure it."""
    updates = story.updates
    if updates.empty:
        return None
    found = pd.DataFrame(
        {name: [float(own.get(f"seconds_{name}", 0.0)) for own in updates["metrics"]] for name in SPENT}
    )
    total = found.groupby(updates["player"].to_numpy()).sum()
    if not total.to_numpy().any():
        return None
    columns = [
        Column("player", lambda row: row["player"]),
        *(Column(name, _amount(name), True, why) for name, why in SPENT.items()),
    ]
    rows = total.rename_axis("player").reset_index().to_dict("records")
    return table("seconds-table", "Seconds of each player, over the whole run", columns, rows, sortable=True)


def _amount(name: str) -> Callable[[Row], str]:
    return lambda row: number(row[name], 1)


def _caches(story: Story) -> Html | None:
    rows = story.sql(
        "SELECT node, tier, max_by(hits, seq) AS hits, max_by(misses, seq) AS misses,"
        " max_by(resident, seq) AS resident, max_by(bytes, seq) AS bytes"
        " FROM caches GROUP BY node, tier ORDER BY node, tier"
    )
    if rows.empty:
        return None
    columns = [
        Column("node", lambda row: row["node"]),
        Column("tier", lambda row: row["tier"]),
        Column("hits", lambda row: whole(row["hits"]), numeric=True),
        Column("misses", lambda row: whole(row["misses"]), numeric=True),
        Column("hit rate", lambda row: _hit_rate(row["hits"], row["misses"]), numeric=True),
        Column("snapshots", lambda row: whole(row["resident"]), True, "snapshots in the cache now"),
        Column("MiB", lambda row: number(row["bytes"] / 2**20, 1), numeric=True),
    ]
    return table("caches-table", "Caches of snapshots at the end", columns, rows.to_dict("records"))


def _hit_rate(hits: int, misses: int) -> str:
    return percent(hits / (hits + misses)) if hits + misses else MISSING
