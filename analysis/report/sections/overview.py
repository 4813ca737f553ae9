"""First section: a summary of what was trained, who is best, how certain that is, and what went wrong."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import PurePath
from typing import Any

import pandas as pd

from analysis import plots
from analysis.history.frames import setting
from analysis.report.exploiters import sentence_of_exploiters
from analysis.report.markup import Html, Section, drawn
from analysis.report.phrases import count, listed, number, sentence, short, span, words
from analysis.report.sections.measured import NOTHING_LEARNED
from analysis.report.sections.pictures import picture
from analysis.report.story import Story
from analysis.report.trend import RECENT, trend_of
from analysis.statistics.strength.wording import above, interval_of
from analysis.tournaments import wording
from storage.retention.retention import QUESTION_OF_SUMS, sentence_of_sums

TITLE = "In short"
MOST_TRENDS, MOST_FINDINGS = 3, 3
_VERDICTS = {
    "improving": "is still improving",
    "declining": "has become weaker",
    "unclear": "shows no clear change",
}
LATELY = 0.8  # recent matches are those after this share of all matches


def overview(story: Story) -> Section:
    """Return the summary of the run."""
    if story.is_tournament:
        verdict = story.verdict
        return drawn(
            "tournament.html",
            "overview",
            TITLE,
            story=story,
            headline=wording.headline(verdict),
            summary=wording.summary(verdict),
            warnings=[sentence(line) for line in wording.warnings(verdict)],
            figures=_figures(story),
        )
    data = {"story": story, "figures": _figures(story)}
    if story.totals.matches:
        data |= _trained(story) | _best(story) | _improving(story) | _wrong(story)
        data |= {
            "branch": _branch(story),
            "picture": _strengths(story),
            "lately": _lately(story),
            "alone": _alone(story),
            "exploiters": sentence_of_exploiters(story.sql),
            "exploited": exploited(story.exploitability),
            "summed": sentence_of_sums(story.sql(QUESTION_OF_SUMS).iloc[0]),
        }
    return drawn("overview.html", "overview", TITLE, **data)


def _strengths(story: Story) -> Html | None:
    """Return the picture of strength over env steps; `None` while it shows no change of a main."""
    frame = story.strengths
    if frame["main"].sum() < 2:
        return None
    caption = (
        "A point is a snapshot, where it was frozen. What a player has learned since shows in its next one. "
        "Bots, which never change, are dashed lines."
    )
    return picture("strengths-plot", plots.strengths(frame), caption)


def _branch(story: Story) -> dict[str, Any] | None:
    """Return the run that this one was branched from, and when; `None` if there is none."""
    if story.branches.empty:
        return None
    own = story.branches.to_dict("records")[-1]
    return {str(name): value for name, value in own.items()} | {"name": PurePath(own["parent"]).name}


def _trained(story: Story) -> dict[str, Any]:
    """Return who was trained by which rules, and how often the run was resumed."""
    roles = Counter(story.players["role"])
    who = listed([count(n, words(role)) for role, n in roles.items()])
    return {
        "who": who[:1].upper() + who[1:],
        "preset": setting(story.config, "league", "preset"),
        "resumed": story.session["sessions"] - 1,
    }


def _best(story: Story) -> dict[str, Any]:
    """Return the strength of the best snapshot in words, and the probability that it is the best."""
    order = story.order
    best = order.best
    if best is None or math.isnan(best.elo):
        return {"strength": None, "chance": None}
    if order.unit != "Elo":  # of a game for one, whose page has no leaderboard
        interval = f"{number(best.elo, 3)} [{number(best.low, 3)}, {number(best.high, 3)}]"
        strength = f"has the best mean score: {interval}"
    else:
        yardstick = "the mean of all" if order.yardstick is None else order.yardstick
        ahead = f"{above(order, best)} Elo above {yardstick}, with the 95 % interval"
        strength = f"leads the leaderboard: {ahead}"
    return {"strength": strength, "chance": None if math.isnan(best.chance) else best.chance}


def _improving(story: Story) -> dict[str, Any]:
    """Return how the strength of the first mains changed, with a verdict on each."""
    trends, verdicts = [], {}
    for player in story.mains[:MOST_TRENDS]:
        trend = trend_of(story.order, story.snapshots, player, story.totals.env_steps)
        if trend is None:
            continue
        says = story.verdict_on(trend)
        verdicts[player] = _VERDICTS[says] + ("" if says == trend.says else " (by the 80 % interval)")
        moved = f"{interval_of(trend.change, trend.low, trend.high)} Elo"
        trends.append({"player": player, "now": trend.now, "before": trend.before, "moved": moved})
    more = len(story.mains) - MOST_TRENDS
    return {"trends": trends, "verdicts": verdicts, "more_mains": more, "recent": RECENT}


def _lately(story: Story) -> list[dict[Any, Any]]:
    """Return recent scores of mains against bots and their own snapshots."""
    rows = story.sql(
        "WITH mains AS (SELECT player FROM players WHERE role = 'main'),"
        " recent AS (SELECT m.home, c.kind, c.competitor, games, wins, draws FROM met m"
        "  JOIN competitors c ON m.away = c.competitor"
        "  WHERE m.home IN (SELECT player FROM mains)"
        "  AND (c.kind = 'bot' OR (c.kind = 'snapshot' AND c.player = m.home))"
        f"  AND m.seq > {LATELY} * (SELECT max(seq) FROM played))"
        " SELECT home, CASE kind WHEN 'bot' THEN competitor ELSE 'its own snapshots' END AS against,"
        " sum(games) AS games, (sum(wins) + 0.5 * sum(draws)) / sum(games) AS rate"
        " FROM recent GROUP BY home, against ORDER BY home, games DESC, against LIMIT 4"
    )
    return rows.to_dict("records")


def _alone(story: Story) -> list[dict[Any, Any]]:
    """Return early and late scores in a game with one seat; nothing in other games."""
    if not story.is_solitary:
        return []
    rows = story.sql(
        "WITH placed AS (SELECT *, seq / (SELECT max(seq) FROM played) AS place FROM seated WHERE learning),"
        f" late AS (SELECT competitor, sum(s.score) / sum(seats) AS late FROM placed s"
        f"  WHERE place > {LATELY} GROUP BY competitor),"
        f" early AS (SELECT competitor, sum(s.score) / sum(seats) AS early FROM placed s"
        f"  WHERE place <= {1.0 - LATELY:.3f} GROUP BY competitor)"
        f" SELECT competitor, late, early FROM late FULL JOIN early USING (competitor)"
        f" ORDER BY competitor LIMIT {MOST_TRENDS}"
    )
    return rows.to_dict("records")


def exploited(rows: pd.DataFrame) -> dict[str, Any] | None:
    """Return the newest of `History.exploitability()` in words; `None` if nothing was measured."""
    rows = rows[rows["worth"] != NOTHING_LEARNED]
    if rows.empty:
        return None
    exact = rows[rows["kind"] == "exact"]
    shown = exact if not exact.empty else rows
    steps = shown["league_env_steps"].fillna(-1)
    newest = shown[steps == steps.max()].sort_values("created_at", kind="stable").iloc[-1]
    bound = "" if newest["kind"] == "exact" else "at least "
    same = shown[(shown["kind"] == newest["kind"]) & (shown["unit"] == newest["unit"])]
    least = same.loc[same["value"].idxmin()]
    measured, rest = same["snapshot_id"].nunique(), ""
    if measured > 1 and least["snapshot_id"] == newest["snapshot_id"]:
        rest = f". It is the least of {measured}"
    elif measured > 1:
        rest = f". The least of {measured} is {bound}{number(least['value'], 3)}, of {least['snapshot_id']}"
    said = f"{bound}{number(newest['value'], 3)}"
    return {"snapshot_id": newest["snapshot_id"], "unit": newest["unit"], "said": said, "rest": rest}


def _wrong(story: Story) -> dict[str, Any]:
    """Return the warnings of the diagnostics; the section on findings has all of them."""
    odd = dict(story.totals.odd_ends)
    if story.is_solitary:  # with one seat, reaching the step limit is a success
        odd.pop("step_limit", None)
    ends = listed([f"{count(n)} by {words(reason)}" for reason, n in odd.items()])
    warnings = [finding.sentence for finding in story.findings if finding.severity == "warning"]
    total = count(sum(odd.values()), "match", "matches")
    return {
        "warnings": [sentence(warning) for warning in warnings[:MOST_FINDINGS]],
        "odd": [f"{total} did not come to an ordinary end ({ends})."] if odd else [],
        "more_warnings": len(warnings) - MOST_FINDINGS,
        "notes": len(story.findings) - len(warnings),
    }


def _figures(story: Story) -> list[tuple[str, str]]:
    """Return the main numbers of the run."""
    totals = story.totals
    figures = [("matches", short(totals.matches)), ("env steps", short(totals.env_steps))]
    if totals.trained:
        figures += [
            ("first to last match" if story.is_tournament else "of training", span(totals.trained)),
            ("env steps a second", short(totals.env_steps / totals.trained / 60.0)),
        ]
    if story.is_tournament:
        figures.append(("competitors", count(len(story.verdict.entrants))))
    else:
        players, snapshots = len(story.players), len(story.snapshots)
        figures += [
            ("player" if players == 1 else "players", count(players)),
            ("snapshot" if snapshots == 1 else "snapshots", count(snapshots)),
        ]
    return figures
