"""Section on solution concepts of game theory, each with its 95 % interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis import plots
from analysis.report.markup import Column, Row, Section, drawn, paragraph, section, table
from analysis.report.phrases import listed
from analysis.report.sections.pictures import picture
from analysis.report.story import MET_ENOUGH, MOST, Story
from analysis.solution import alpha_rank, effective_diversity, nash_averaging, nash_clusters
from analysis.solution.cycles import unexplained_share
from analysis.solution.payoffs import ConceptInterval, Payoffs, with_interval
from storage.arrays import Floats

TITLE = "Beyond one number"
SAMPLES = 100  # resampled payoffs for the intervals
UNDECIDED = "undecided"
WIDE = 0.5  # width of a share's interval from which on the games do not decide it
LEAST_SHARE = 0.01  # least share of a mixture for a competitor to be listed


@dataclass(frozen=True, slots=True)
class Solved:
    """Results of the solution concepts for a field of N competitors, best rated first, with intervals."""

    competitors: list[str]
    nash: ConceptInterval  # [N] shares in the equilibrium of maximal entropy
    ratings: ConceptInterval  # [N] Nash averages, in [-1, 1]
    alpha: ConceptInterval  # [N] shares in alpha-rank's stationary distribution
    cyclic: ConceptInterval  # [] in [0, 1]
    diversity: ConceptInterval  # []
    layers: list[list[str]]


def beyond(story: Story) -> Section:
    """Return the section on what one rating per competitor cannot show."""
    field = story.field
    names = field.names
    if len(names) < 3 or field.met.empty:
        what = "Fewer than three snapshots or bots have met, so there is nothing to solve yet."
        return section("beyond", TITLE, paragraph(what))
    kind = "competitors" if story.is_tournament or not field.fixed else "snapshots and bots"
    if field.share_met < MET_ENOUGH:
        return drawn("beyond.html", "beyond", TITLE, story=story, field=field, kind=kind, found=None)
    found = solve(field.payoffs)
    board = story.staged_board[story.staged_board["competitor"].isin(names)]
    plane = picture(
        "plane-plot",
        plots.cyclic_plane(field.met, board, filled=field.filled),
        "Competitors in the strongest cyclic plane. Of two competitors that are a quarter turn apart, one "
        "beats the other. Competitors near the middle take no part in cycles.",
    )
    order = np.argsort(-found.nash.value, kind="stable")
    mixed = [f"{names[i]} {_share(found.nash, i)}" for i in order if found.nash.value[i] >= LEAST_SHARE]
    return drawn(
        "beyond.html",
        "beyond",
        TITLE,
        found=found,
        which=f"the {MOST} best rated {kind}" if len(names) == MOST else f"all {len(names)} {kind}",
        mixture=_mixture(found, mixed),
        largest=_largest(found),
        cyclic=_cyclic(story, found),
        diversity=_between(found.diversity),
        sizes=[str(len(layer)) for layer in found.layers],
        table=table("beyond-table", "Solution concepts by competitor", _COLUMNS, _rows(found), sortable=True),
        plane=plane,
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
    each = (whole.value, whole.low, whole.high, whole.mean)
    parts = zip(*(np.split(one, [n, 2 * n, 3 * n, 3 * n + 1]) for one in each), strict=True)
    layers = [[names[i] for i in members] for members in nash_clusters(payoffs.matrix())]
    nash, ratings, alpha, cyclic, diversity = (ConceptInterval(*part) for part in parts)
    return Solved(names, nash, ratings, alpha, cyclic, diversity, layers)


def _cyclic(story: Story, found: Solved) -> str:
    """Return text on the cyclic share; in a tournament that of the verdict, corrected for luck."""
    corrected = story.verdict.cyclic if story.is_tournament else None
    if corrected is not None:
        shown = f"{corrected.share:.2f} [{corrected.low:.2f}, {corrected.high:.2f}]"
        return f"{shown} of what decides these games is cyclic, corrected for luck"
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
    Column("Nash share", lambda row: row["nash"], True, "of the equilibrium; undecided: wide interval"),
    Column("Nash average", lambda row: row["rating"], True, "score against the equilibrium, in [-1, 1]"),
    Column("alpha-rank", lambda row: row["alpha"], True, "share of time in the long run"),
    Column("layer", lambda row: row["layer"], True, "Nash cluster, 1 is the best"),
]


def _mixture(found: Solved, mixed: list[str]) -> str:
    """Return the equilibrium as text, or the competitors that may be in it if the games do not decide."""
    width = found.nash.high - found.nash.low
    if (width < WIDE).all():
        return f"no competitor of the field beats this mixture: {listed(mixed, 5)}"
    able = [name for name, high in zip(found.competitors, found.nash.high, strict=True) if high >= WIDE]
    may = f"{listed(able, 5)} may {'each ' if len(able) > 1 else ''}have most of it or none"
    return f"a mixture that no competitor beats, which these games do not decide: {may}"


def _largest(found: Solved) -> str:
    place = int(found.alpha.value.argmax())
    if found.alpha.high[place] - found.alpha.low[place] < WIDE:
        return f"{found.competitors[place]}, {_share(found.alpha, place)}"
    return "not decided by these games"


def _share(interval: ConceptInterval, i: int) -> str:
    if interval.high[i] - interval.low[i] >= WIDE:
        return UNDECIDED
    return f"{interval.value[i]:.2f} [{interval.low[i]:.2f}, {interval.high[i]:.2f}]"


def _signed(interval: ConceptInterval, i: int) -> str:
    ends = (interval.value, interval.low, interval.high)
    value, low, high = (round(float(each[i]), 3) + 0.0 for each in ends)
    return f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"  # adding 0 makes a 0 of -0


def _between(interval: ConceptInterval) -> str:
    """Return the mean over resampled games, with its interval: luck biases the plain value upwards."""
    return f"{interval.mean[0]:.2f} [{interval.low[0]:.2f}, {interval.high[0]:.2f}]"
