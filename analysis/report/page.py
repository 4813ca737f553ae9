"""Page: sections, a table of contents, style and script in one file that loads nothing.

The page's Content-Security-Policy allows only scripts with the given hashes, and no requests. So even markup
that got past the templates could not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from analysis.history.history import History
from analysis.report.legible import legible
from analysis.report.markup import Html, Section, draw, part, resource
from analysis.report.phrases import moment
from analysis.report.sections.engine import match_mix, throughput
from analysis.report.sections.evidence import decisions, findings, incidents
from analysis.report.sections.game_theory import beyond
from analysis.report.sections.leaderboard import leaderboard
from analysis.report.sections.measured import exploitability, yardsticks
from analysis.report.sections.overview import overview
from analysis.report.sections.pictures import curves, lineage, payoff, ratings
from analysis.report.sections.reproduce import glossary, reproduce
from analysis.report.sections.shown_match import Playback, shown_match
from analysis.report.story import Story
from storage.ends import span

Maker = Callable[[Story], Section]

OF_A_LEAGUE: dict[str, Maker] = {
    "overview": overview,
    "findings": findings,
    "leaderboard": leaderboard,
    "yardsticks": yardsticks,
    "payoff": payoff,
    "curves": curves,
    "lineage": lineage,
    "decisions": decisions,
    "match-mix": match_mix,
    "beyond": beyond,
    "exploitability": exploitability,
    "ratings": ratings,
    "throughput": throughput,
    "incidents": incidents,
    "reproduce": reproduce,
    "words": glossary,
}
PLACE_OF_MATCH = 3  # behind summary, findings and leaderboard
_OF_MEETINGS = ("leaderboard", "ratings", "payoff", "beyond", "exploitability")
OF_A_GAME_FOR_ONE = {name: make for name, make in OF_A_LEAGUE.items() if name not in _OF_MEETINGS}
OF_A_TOURNAMENT = {
    name: OF_A_LEAGUE[name]
    for name in ("overview", "leaderboard", "payoff", "beyond", "throughput", "reproduce")
}


def sections(history: History, only: Collection[str] | None = None) -> list[Section]:
    """Return the sections of a page on the one run of `history`, in order; with `only`, those with these ids.

    Each section reads only the frames that it needs. Raise Mistake for several runs, and KeyError for an
    unknown id.
    """
    return list(each_section(Story(history), only))


def each_section(story: Story, only: Collection[str] | None = None) -> Iterator[Section]:
    """Yield what `sections` returns of a story, each section as soon as it is drawn."""
    unknown = set(only or ()) - set(OF_A_LEAGUE) - set(OF_A_GAME_FOR_ONE)
    if unknown:
        raise KeyError(f"found section '{min(unknown)}', expected one of {', '.join(OF_A_LEAGUE)}")
    makers = OF_A_LEAGUE
    if story.is_tournament:
        makers = OF_A_TOURNAMENT
    elif story.is_solitary:  # no competitor meets another, so none is rated
        makers = OF_A_GAME_FOR_ONE
    for id_, make in makers.items():
        if only is None or id_ in only:
            yield legible(make(story), story.short_names)


@dataclass(frozen=True, slots=True)
class LivePage:
    """What a page needs to follow its run."""

    number: int  # of this drawing
    plays: bool  # whether the page links to matches that can be played
    ended: bool  # whether nothing more is recorded, unless the run goes on


def report_page(
    history: History, *, own_sections: Sequence[Maker] = (), playback: Playback | None = None
) -> str:
    """Return an HTML page on the one run of `history`; the same run gives the same bytes.

    `own_sections`: functions of a Story that make further sections, shown at the end. `playback`: what shows
    a recorded match. Raise Mistake for several runs.
    """
    story = Story(history)
    own = [make(story) for make in own_sections]  # first, as the others take long and these may fail
    shown = list(each_section(story))
    match = None if playback is None or story.is_tournament else shown_match(story, playback)
    if match is not None:
        shown.insert(PLACE_OF_MATCH, match)
    return page(story, [*shown, *own])


def page(story: Story, shown: Sequence[Section], live: LivePage | None = None) -> str:
    """Return the page of these sections on one run; with `live`, one that follows the run."""
    kind = "Tournament" if story.is_tournament else "League"
    subject = part("subject", kind=kind, game=story.session["env"], as_of=as_of(story))
    return document(f"{story.name}: league report", story.name, subject, shown, live)


def document(
    title: str, heading: str, subject: str, shown: Sequence[Section], live: LivePage | None = None
) -> str:
    """Return a page of these sections."""
    scripts = [resource("report/page.js"), *([resource("server/live.js")] if live else [])]
    return draw(
        "page.html",
        policy=policy(scripts, "'none'" if live is None else "'self'", images="data:"),
        title=title,
        style=Html(resource("report/style.css")),
        heading=heading,
        subject=subject,
        shown=[Section(part.id, part.title, Html(part.html)) for part in shown],
        live=live,
        scripts=[Html(script) for script in scripts],
    )


def policy(scripts: Sequence[str], connect: str, *, images: str = "'none'") -> str:
    """Return a Content-Security-Policy that allows these scripts, and requests to `connect` alone."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src {images}; connect-src {connect}; "
        f"script-src {hashes}; base-uri 'none'; form-action 'none'"
    )


def as_of(story: Story) -> str:
    """Return text with the state of the run, the time left, and the time of its last fact, if any."""
    last, state = story.totals.last, story.state
    shown = "" if state is None or state.kind == "played" else f", {state.word}"
    if story.seconds_left is not None:
        shown += f", {span(float(round(story.seconds_left)))} left"
    return shown if last is None else f"{shown}, as of {moment(last)}"
