"""First section: a summary of what was trained, who is best, how certain that is, and what went wrong."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import PurePath

from analysis.history.frames import setting
from analysis.report.sections.pictures import NOTHING_LEARNED
from analysis.report.sections.strength import RECENT, trend_of
from analysis.report.story import Story
from analysis.report.writing.markup import Html, element, join, text
from analysis.report.writing.phrases import (
    count,
    listed,
    moment,
    number,
    percent,
    probability,
    sentence,
    short,
    span,
    words,
)
from analysis.report.writing.section import Section, bullets, paragraph, section
from analysis.statistics.strength.wording import above, interval_of
from analysis.tournaments import wording
from storage.records import MAIN
from storage.retention import said as said_of_sums

TITLE = "In short"
MOST_TRENDS, MOST_FINDINGS = 3, 3
LATELY = 0.8  # recent matches are those after this share of all matches


def overview(story: Story) -> Section:
    """Return the summary of the run."""
    if story.is_tournament:
        return section("overview", TITLE, *_tournament(story), _figures(story))
    if not story.totals.matches:
        ended = _ended(story)
        told = [paragraph(ended)] if ended else []
        return section("overview", TITLE, _begun(story), *told, _figures(story))
    said = [
        _branched(story),
        _trained(story),
        _ended(story),
        _best(story),
        _improving(story),
        _lately(story),
        _alone(story),
        _exploited(story),
        _summed(story),
    ]
    return section(
        "overview", TITLE, *(paragraph(part) for part in said if part), _wrong(story), _figures(story)
    )


def _begun(story: Story) -> Html:
    return paragraph(
        f"This run has only just begun: no match of {story.session['env'] or 'its game'} is recorded yet. "
        "The sections below fill as matches are recorded.",
        class_="lead",
    )


def _branched(story: Story) -> Html | None:
    """Return a sentence on the run that this one was branched from; `None` if there is none."""
    if story.branches.empty:
        return None
    own = story.branches.iloc[-1]
    return join(
        [
            element("strong", story.name),
            " is a branch of ",
            element("strong", PurePath(own["parent"]).name),
            " (",
            _code(own["parent"]),
            f"), as of {count(own['env_steps'])} env steps of the league and "
            f"{count(own['matches'], 'match', 'matches')}, on {moment(own['moment_at'])}. What is older than "
            "that is common to both runs.",
        ]
    )


def _trained(story: Story) -> Html:
    """Return a sentence on what was trained, and for how long."""
    roles = Counter(story.players["role"])
    who = listed([count(n, words(role)) for role, n in roles.items()])
    preset = setting(story.config, "league", "preset")
    by = join([" by the rules of the preset ", _code(preset)]) if preset else ""
    frozen, totals = len(story.snapshots), story.totals
    resumed = story.session["sessions"] - 1
    return join(
        [
            f"{who[:1].upper()}{who[1:]} learned ",
            _code(story.session["env"]),
            by,
            f": {count(totals.matches, 'match', 'matches')} with {short(totals.env_steps)} decisions in "
            f"{span(totals.minutes)}, in which {count(frozen, 'snapshot was', 'snapshots were')} frozen. ",
            f"It was resumed {count(resumed, 'time')}." if resumed else None,
        ]
    )


def _ended(story: Story) -> Html | None:
    """Return a sentence on how training ended, or that it goes on; `None` where that is not known."""
    state = story.state
    if state is None or state.kind == "played":
        return None
    if state.kind == "running":
        left = story.seconds_left
        about = "" if left is None else f", with about {span(left / 60.0)} left"
        shown = f"{about}: this page shows what is recorded so far."
        return join(["It is ", element("strong", "running now", class_="words"), shown])
    if state.kind == "trained":
        return join([element("strong", "Training ended as planned", class_="words"), f": {state.sentence}."])
    said, why = state.sentence, ". "
    if state.kind == "killed":
        said, why = "Training was killed, or is of an older version", ": no end is recorded. "
    how = _code(f"league train {story.argument} --resume")
    return join([element("strong", said, class_="words"), f"{why}To go on: ", how, "."])


def _best(story: Story) -> Html | None:
    """Return a sentence on which snapshot is best and how certain that is; `None` before any was trained."""
    order = story.order
    best = order.best
    if best is None:
        return join(["No snapshot has been trained yet, so none is named the best."])
    if math.isnan(best.elo):
        return join(
            [element("strong", best.competitor), " is the newest snapshot. No game shows which is stronger."]
        )
    lead = "leads the leaderboard"
    if order.unit != "Elo":  # of a game for one, whose page has no leaderboard
        lead = "has the best mean score"
        strength = f"{number(best.elo, 3)} [{number(best.low, 3)}, {number(best.high, 3)}]"
    else:
        yardstick = "the mean of all" if order.yardstick is None else order.yardstick
        strength = f"{above(order, best)} Elo above {yardstick}, with the 95 % interval"
    if math.isnan(best.chance):
        return join([element("strong", best.competitor), f" {lead}: {strength}."])
    level = len(order.level())
    sure = (
        "no other snapshot is level with it"
        if level == 0
        else f"{count(level, 'other snapshot')} may be as strong (95 %)"
    )
    return join(
        [
            element("strong", best.competitor),
            f" {lead}: {strength}. The probability that it is the best snapshot is "
            f"{probability(best.chance)}; {sure}.",
        ]
    )


def _improving(story: Story) -> Html | None:
    """Return a sentence on how the strength of mains changed; `None` if none can be estimated."""
    mains = (
        story.players[story.players["role"] == MAIN]["player"].tolist() or story.players["player"].tolist()
    )
    said = []
    for player in mains[:MOST_TRENDS]:
        trend = trend_of(story.order, story.snapshots, player, story.totals.env_steps)
        if trend is None:
            continue
        moved = f"{interval_of(trend.change, trend.low, trend.high)} Elo"
        says = story.verdict_on(trend)
        verdict = {
            "improving": "is still improving",
            "declining": "has become weaker",
            "unclear": "shows no clear change",
        }[says]
        if says != trend.says:
            verdict += " (by the 80 % interval)"
        said.append(
            join([element("strong", player), f" {verdict}: {trend.now} is {moved} above {trend.before}"])
        )
    if not said:
        return None
    more = len(mains) - MOST_TRENDS
    rest = f" (the plot of ratings shows {more} more mains)" if more > 0 else ""
    how = f", its snapshot from before the last {percent(RECENT)} of the league's steps, by games against "
    return join(
        [*(join([part, "; "]) for part in said[:-1]), said[-1], f"{how}opponents that do not change{rest}."]
    )


def _lately(story: Story) -> Html | None:
    """Return a sentence on recent scores of mains against bots and their own snapshots; `None` without."""
    rows = story.sql(
        "WITH mains AS (SELECT player FROM players WHERE role = 'main'),"
        " recent AS (SELECT m.home, c.kind, c.competitor, games, wins, draws FROM meetings m"
        "  JOIN competitors c ON m.away = c.competitor"
        "  WHERE m.home IN (SELECT player FROM mains)"
        "  AND (c.kind = 'bot' OR (c.kind = 'snapshot' AND c.player = m.home))"
        f"  AND m.seq > {LATELY} * (SELECT max(seq) FROM played))"
        " SELECT home, CASE kind WHEN 'bot' THEN competitor ELSE 'its own snapshots' END AS against,"
        " sum(games) AS games, (sum(wins) + 0.5 * sum(draws)) / sum(games) AS rate"
        " FROM recent GROUP BY home, against ORDER BY home, games DESC, against LIMIT 4"
    )
    if rows.empty:
        return None
    said = [
        f"{row['home']} scored {number(row['rate'])} of its games against {row['against']} "
        f"({count(row['games'])} games)"
        for row in rows.to_dict("records")
    ]
    return join([f"In the last fifth of the matches, {'; '.join(said)}."])


def _alone(story: Story) -> Html | None:
    """Return a sentence on early and late scores in a game with one seat; `None` in other games."""
    if not story.is_solitary:
        return None
    rows = story.sql(
        "WITH placed AS (SELECT *, seq / (SELECT max(seq) FROM played) AS place FROM seated WHERE learning),"
        f" late AS (SELECT competitor, sum(s.score) / sum(seats) AS late FROM placed s"
        f"  WHERE place > {LATELY} GROUP BY competitor),"
        f" early AS (SELECT competitor, sum(s.score) / sum(seats) AS early FROM placed s"
        f"  WHERE place <= {1.0 - LATELY:.3f} GROUP BY competitor)"
        f" SELECT competitor, late, early FROM late FULL JOIN early USING (competitor)"
        f" ORDER BY competitor LIMIT {MOST_TRENDS}"
    )
    said = [
        join([element("strong", row["competitor"]), f" {number(row['late'])} after {number(row['early'])}"])
        for row in rows.to_dict("records")
    ]
    if not said:
        return None
    return join(
        [
            "Mean score of a match in the last fifth of the matches, after that in the first fifth: ",
            *(join([part, "; "]) for part in said[:-1]),
            said[-1],
            ".",
        ]
    )


def _summed(story: Story) -> Html | None:
    """Return a sentence on matches that are kept as sums; `None` if all are whole."""
    said = said_of_sums.sentence(story.sql(said_of_sums.QUESTION).iloc[0])
    return text(sentence(said)) if said else None


def _exploited(story: Story) -> Html | None:
    """Return a sentence on the newest measured exploitability; `None` if nothing was measured."""
    rows = story.exploitability
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
    measured = same["snapshot_id"].nunique()
    rest = (
        None
        if measured < 2
        else f". It is the least of {measured}"
        if least["snapshot_id"] == newest["snapshot_id"]
        else f". The least of {measured} is {bound}{number(least['value'], 3)}, of {least['snapshot_id']}"
    )
    return join(
        [
            "An opponent that knows ",
            element("strong", newest["snapshot_id"]),
            f" wins {bound}{number(newest['value'], 3)} a game from it, in the game's {newest['unit']} (",
            element("a", "exploitability", href="#exploitability"),
            f"; 0 is the best){rest or ''}.",
        ]
    )


def _wrong(story: Story) -> Html:
    """Return the warnings of the diagnostics; the section on findings has all of them."""
    odd = dict(story.totals.odd_ends)
    if story.is_solitary:  # with one seat, reaching the step limit is a success
        odd.pop("step_limit", None)
    ends = (
        [
            f"{count(sum(odd.values()), 'match', 'matches')} did not come to an ordinary end ("
            f"{listed([f'{count(n)} by {words(reason)}' for reason, n in odd.items()])})."
        ]
        if odd
        else []
    )
    warnings = [finding for finding in story.findings if finding.severity == "warning"]
    notes = len(story.findings) - len(warnings)
    if not warnings and not ends:
        below = f"; {count(notes, 'note')} on it {'is' if notes == 1 else 'are'} below" if notes else ""
        return paragraph(f"The diagnostics found no problem{below}.")
    said = [*(sentence(finding.sentence) for finding in warnings[:MOST_FINDINGS]), *ends]
    more = len(warnings) - MOST_FINDINGS
    link = paragraph(element("a", f"And {more} more", href="#findings")) if more > 0 else None
    return join([paragraph("Warnings:"), bullets(said, class_="warnings"), link])


def _tournament(story: Story) -> list[Html]:
    verdict = story.verdict
    warnings = wording.warnings(verdict)
    return [
        paragraph(sentence(wording.headline(verdict)), class_="lead"),
        paragraph(
            "A tournament of ",
            _code(story.session["env"]),
            f" among {count(len(verdict.entrants), 'competitor')}: {wording.summary(verdict)}.",
        ),
        *([paragraph("Limits of this ranking:")] if warnings else []),
        *([found] if (found := bullets([sentence(line) for line in warnings], class_="warnings")) else []),
    ]


def _figures(story: Story) -> Html:
    """Return the main numbers of the run."""
    totals = story.totals
    figures = [("matches", short(totals.matches)), ("env steps", short(totals.env_steps))]
    if totals.minutes:
        figures += [
            ("first to last match", span(totals.minutes)),
            ("env steps a second", short(totals.env_steps / totals.minutes / 60.0)),
        ]
    if story.is_tournament:
        figures.append(("competitors", count(len(story.verdict.entrants))))
    else:
        players, snapshots = len(story.players), len(story.snapshots)
        figures += [
            ("player" if players == 1 else "players", count(players)),
            ("snapshot" if snapshots == 1 else "snapshots", count(snapshots)),
        ]
    cells = (element("div", element("dt", name), element("dd", value)) for name, value in figures)
    return element("dl", *cells, class_="figures")


def _code(value: object) -> Html:
    return element("code", text(value))
