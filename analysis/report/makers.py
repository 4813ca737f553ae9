"""Functions that make the sections of a page, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Collection

from analysis.history.history import History
from analysis.report.markup import Section
from analysis.report.sections.beyond import beyond
from analysis.report.sections.engine import match_mix, throughput
from analysis.report.sections.evidence import decisions, findings, incidents
from analysis.report.sections.leaderboard import leaderboard
from analysis.report.sections.measured import exploitability, yardsticks
from analysis.report.sections.overview import overview
from analysis.report.sections.pictures import curves, lineage, payoff, ratings
from analysis.report.sections.reproduce import reproduce
from analysis.report.story import Story

Maker = Callable[[Story], Section]

OF_A_LEAGUE: dict[str, Maker] = {
    "overview": overview,
    "findings": findings,
    "leaderboard": leaderboard,
    "curves": curves,
    "ratings": ratings,
    "yardsticks": yardsticks,
    "payoff": payoff,
    "beyond": beyond,
    "lineage": lineage,
    "decisions": decisions,
    "match-mix": match_mix,
    "exploitability": exploitability,
    "throughput": throughput,
    "incidents": incidents,
    "reproduce": reproduce,
}
OF_A_GAME_FOR_ONE: dict[str, Maker] = {
    name: OF_A_LEAGUE[name]
    for name in (
        "overview",
        "findings",
        "curves",
        "yardsticks",
        "lineage",
        "decisions",
        "match-mix",
        "throughput",
        "incidents",
        "reproduce",
    )
}
OF_A_TOURNAMENT = {
    name: OF_A_LEAGUE[name]
    for name in ("overview", "leaderboard", "payoff", "beyond", "throughput", "reproduce")
}


def sections(history: History, only: Collection[str] | None = None) -> list[Section]:
    """Return the sections of a page on the one run of `history`, in order; with `only`, those with these ids.

    Each section reads only the frames that it needs. Raise Mistake for several runs, and KeyError for an
    unknown id.
    """
    return sections_of(Story(history), only)


def sections_of(story: Story, only: Collection[str] | None = None) -> list[Section]:
    """Return the sections of a page on `story`, as `sections` does."""
    unknown = set(only or ()) - set(OF_A_LEAGUE) - set(OF_A_GAME_FOR_ONE)
    if unknown:
        raise KeyError(f"found section '{min(unknown)}', expected one of {', '.join(OF_A_LEAGUE)}")
    makers = OF_A_LEAGUE
    if story.is_tournament:
        makers = OF_A_TOURNAMENT
    elif story.is_solitary:  # no competitor meets another, so none is rated
        makers = OF_A_GAME_FOR_ONE
    return [make(story) for id_, make in makers.items() if only is None or id_ in only]
