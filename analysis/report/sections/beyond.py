"""Section on solution concepts of game theory, each with its 95 % interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis import plots
from analysis.report.fields import MOST, Field
from analysis.report.sections.pictures import picture
from analysis.report.story import Story
from analysis.report.writing.markup import Html, element, join
from analysis.report.writing.phrases import count, listed, percent
from analysis.report.writing.section import Section, bullets, paragraph, section
from analysis.report.writing.tables import Column, Row, table
from analysis.solution import alpha_rank, effective_diversity, nash_averaging, nash_clusters
from analysis.solution.cycles.schur import unexplained_share
from analysis.solution.payoffs import Interval, Payoffs, with_interval
from storage.arrays import Floats

TITLE = "Beyond one number"
SAMPLES = 100  # resampled payoffs for the intervals
MET_ENOUGH = 0.5  # share of played pairings below which the section shows a caution
LEAST_SHARE = 0.01  # least share of a mixture for a competitor to be listed


@dataclass(frozen=True, slots=True)
class Solved:
    """Results of the solution concepts for a field of N competitors, best rated first, with intervals."""

    competitors: list[str]
    nash: Interval  # [N] shares in the equilibrium of maximal entropy
    ratings: Interval  # [N] Nash averages, in [-1, 1]
    alpha: Interval  # [N] shares in alpha-rank's stationary distribution
    cyclic: Interval  # [] in [0, 1]
    diversity: Interval  # []
    layers: list[list[str]]


def beyond(story: Story) -> Section:
    """Return the section on what one rating per competitor cannot show."""
    field = story.field
    names = field.names
    if len(names) < 3 or field.met.empty:
        return section(
            "beyond",
            TITLE,
            paragraph("Fewer than three snapshots or bots have met, so there is nothing to solve yet."),
        )
    found = solve(field.payoffs)
    board = story.leaderboard[story.leaderboard["competitor"].isin(names)]
    plane = picture(
        "plane-plot",
        plots.cyclic_plane(field.met, board, filled=field.filled),
        "Competitors in the strongest cyclic plane. Of two competitors that are a quarter turn apart, one "
        "beats the other. Competitors near the middle take no part in cycles.",
    )
    return section(
        "beyond",
        TITLE,
        paragraph(_introduction(story, field)),
        _sparse(story, field),
        bullets(_results(found, _cyclic(story, found)), class_="said"),
        table("beyond-table", "Solution concepts by competitor", _COLUMNS, _rows(found), sortable=True),
        plane,
    )


def solve(payoffs: Payoffs) -> Solved:
    """Return the results of all concepts, computed from the same resampled payoffs."""
    names = list(payoffs.competitors)
    n = len(names)

    def everything(matrix: Floats) -> Floats:
        average = nash_averaging(matrix)
        single = [unexplained_share(matrix), effective_diversity(matrix)]
        return np.concatenate([average.mixture, average.ratings, alpha_rank(matrix), single])

    whole = with_interval(payoffs, everything, np.random.default_rng(0), samples=SAMPLES)
    parts = zip(
        *(
            np.split(each, [n, 2 * n, 3 * n, 3 * n + 1])
            for each in (whole.value, whole.low, whole.high, whole.mean)
        ),
        strict=True,
    )
    nash, ratings, alpha, cyclic, diversity = (Interval(*part) for part in parts)
    layers = [[names[i] for i in members] for members in nash_clusters(payoffs.matrix())]
    return Solved(names, nash, ratings, alpha, cyclic, diversity, layers)


def _introduction(story: Story, field: Field) -> str:
    kind = "competitors" if story.is_tournament or not field.fixed else "snapshots and bots"
    which = f"the {MOST} best rated {kind}" if len(field.names) == MOST else f"all {len(field.names)} {kind}"
    return (
        "A ranking assumes that a competitor that beats a better one also beats a worse one. The figures "
        f"below do not. They cover {which}. Square brackets are 95 % intervals from resampled games."
    )


def _sparse(story: Story, field: Field) -> Html | None:
    """Return a caution if most pairings of the field were never played."""
    if field.share_met >= MET_ENOUGH:
        return None
    players = "" if field.fixed else " The results of players include all their versions since the run began."
    remedy = element("code", f"league tournament {story.argument}")
    return paragraph(
        f"Only {percent(field.share_met)} of the pairings were ever played. The scores of the others are "
        f"estimated from strengths.{players} A tournament among snapshots gives better data: ",
        remedy,
        ".",
        class_="caution",
    )


def _results(found: Solved, cyclic: str) -> list[Html]:
    order = np.argsort(-found.nash.value, kind="stable")
    mixed = [
        f"{found.competitors[i]} {_share(found.nash, i)}" for i in order if found.nash.value[i] >= LEAST_SHARE
    ]
    longest = int(found.alpha.value.argmax())
    sizes = [len(layer) for layer in found.layers]
    first = listed(found.layers[0])
    return [
        _term("Nash equilibrium", f"no competitor of the field beats this mixture: {listed(mixed, 5)}."),
        _term(
            "Nash average",
            "the score against that mixture, 0 at best. Copies and weak opponents do not change it.",
        ),
        _term(
            "Alpha-rank",
            f"the share of time in the long run, if a population keeps switching to better responses. The "
            f"largest share: {found.competitors[longest]}, {_share(found.alpha, longest)}.",
        ),
        _term("Cyclic share", f"{cyclic}; 0 if a ranking explains all results, 1 in rock-paper-scissors."),
        _term(
            "Effective diversity",
            f"{_between(found.diversity)}: how much the members of the mixture win from each other; 0 if one "
            "competitor is best against all, 1/3 in rock-paper-scissors.",
        ),
        _term(
            "Nash clusters",
            f"the field has {count(len(sizes), 'layer')}, each of which equals or beats all layers below it. "
            f"In the first: {first}. Sizes from the top: {listed([str(size) for size in sizes], 10)}.",
        ),
    ]


def _cyclic(story: Story, found: Solved) -> str:
    """Return text on the cyclic share; in a tournament that of the verdict, corrected for luck."""
    corrected = story.verdict.cyclic if story.is_tournament else None
    if corrected is not None:
        shown = f"{corrected.share:.2f} [{corrected.low:.2f}, {corrected.high:.2f}]"
        return f"{shown} of what decides these games is cyclic, corrected for luck"
    if story.field.share_met < MET_ENOUGH:
        return "not shown, because most pairings were never played"
    return f"{_between(found.cyclic)} of what decides these games is cyclic, without a correction for luck"


def _rows(found: Solved) -> list[Row]:
    layer = {name: number for number, names in enumerate(found.layers, 1) for name in names}
    order = np.lexsort((-found.alpha.value, -found.ratings.value.round(6)))
    return [
        {
            "competitor": found.competitors[i],
            "nash": _share(found.nash, i),
            "rating": _signed(found.ratings, i),
            "alpha": _share(found.alpha, i),
            "layer": layer[found.competitors[i]],
        }
        for i in order
    ]


_COLUMNS = [
    Column("competitor", lambda row: row["competitor"]),
    Column("Nash share", lambda row: row["nash"], True, "of the equilibrium"),
    Column("Nash average", lambda row: row["rating"], True, "score against the equilibrium, in [-1, 1]"),
    Column("alpha-rank", lambda row: row["alpha"], True, "share of time in the long run"),
    Column("layer", lambda row: row["layer"], True, "Nash cluster, 1 is the best"),
]


def _share(interval: Interval, i: int) -> str:
    return f"{interval.value[i]:.2f} [{interval.low[i]:.2f}, {interval.high[i]:.2f}]"


def _signed(interval: Interval, i: int) -> str:
    value, low, high = (
        round(float(each[i]), 3) + 0.0 for each in (interval.value, interval.low, interval.high)
    )
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"  # adding 0 makes a 0 of -0


def _between(interval: Interval) -> str:
    """Return the mean over resampled games, with its interval: luck biases the plain value upwards."""
    return f"{interval.mean[0]:.2f} [{interval.low[0]:.2f}, {interval.high[0]:.2f}]"


def _term(name: str, meaning: str) -> Html:
    return join([element("strong", name), ": ", meaning])
