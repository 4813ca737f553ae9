"""Sections with plots, each a figure with a caption."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis import plots
from analysis.history.curves import REPORTED
from analysis.report.markup import Html, Section, paragraph, part, section
from analysis.report.phrases import percent
from analysis.report.story import MET_ENOUGH, Story
from analysis.solution.payoffs import counts_scores

SAMPLE = 24  # competitors of the first heatmap: of more, the names are too many to be read at once


def picture(id_: str, figure: Figure, caption: str, *, folded: bool = False, title: str = "") -> Html:
    """Return `figure` as inline SVG with its caption; title and subtitle are text of the page, above it.

    `folded`: the title alone is shown until a reader opens it. `title`: another one than the figure's.
    """
    own, subtitle, message = plots.headline(figure)
    shown = {
        "title": title or own,
        "subtitle": subtitle or message,
        "drawing": None if message else Html(plots.svg(figure, head=False)),
    }
    return part("picture", id=id_, caption=caption, folded=folded, **shown)


def ratings(story: Story) -> Section:
    """Return the section with ratings over time."""
    title = "Ratings over time"
    if story.ratings.empty:
        return section("ratings", title, paragraph("No competitor has been rated yet."))
    caption = (
        "TrueSkill's mu of each player over time, with a band of two sigma. Snapshots are drawn where "
        "they were frozen. Ratings are relative: all may rise or fall together."
    )
    figure = plots.ratings(story.ratings, story.leaderboard)
    return section("ratings", title, picture("ratings-plot", figure, caption))


def curves(story: Story) -> Section:
    """Return the section with learning curves; pictures without data are left out."""
    title, frame = "Learning curves", story.curves
    if frame.empty:
        return section("curves", title, paragraph("No match is recorded yet."))
    found = set(frame["measure"])
    roles = dict(zip(story.players["player"], story.players["role"], strict=True))
    parts: list[Html] = []
    if "win_rate" in found:
        caption = (
            "Bots never change, so points against a bot measure progress. Snapshots of a player are more "
            "and stronger as the run goes on, and matchmaking may choose the hardest."
        )
        parts.append(picture("win-rates-plot", plots.win_rates(frame), caption))
    if found.intersection(REPORTED):
        caption = (
            "Entropy near 0 means that a policy has stopped to explore. Lag is the age of what is "
            "learned, in updates."
        )
        parts.append(picture("learning-plot", plots.learning(frame, roles=roles), caption))
    if "score" in found:
        relative = "Against opponents that improve as well, a score says little of strength. "
        caption = (
            "Scores of the matches that each player learned from, as it acted then: with exploration. "
            f"{relative * (not story.is_solitary)}To measure a snapshot by itself: league evaluate."
        )
        place = 0 if story.is_solitary else len(parts)  # without opponents, what a reader looks for
        parts.insert(place, picture("scores-plot", plots.scores(frame, roles=roles), caption))
    if "end" in found:
        caption = "Illegal actions and crashes are results with a reason, never draws."
        usual = not story.totals.odd_ends and "seat" not in found
        parts.append(picture("ends-plot", plots.ends(frame), caption, folded=usual))
    return section("curves", title, *parts)


def payoff(story: Story) -> Section:
    """Return the section with the payoff heatmap and the response graph."""
    title = "Results between competitors"
    if story.payoff.empty:
        return section("payoff", title, paragraph("No two competitors have met yet."))
    counted = "Points"
    if counts_scores(story.payoff):
        counted = "Lead in score (half of what one is above the other)"
    caption = (
        f"{counted} per game of each row against each column. Hatched pairings were never "
        f"played: nothing is known of them. {_stages(story)}If strength explains everything, colours "
        "change smoothly from corner to corner. Islands are opponents that a competitor scores unusually "
        "well or badly against."
    )
    drawn = plots.payoff_heatmap(story.staged_payoff, story.staged_board, most=SAMPLE)
    whole, met = None, story.staged_payoff["home"].nunique()
    if met > SAMPLE:
        figure = plots.payoff_heatmap(story.staged_payoff, story.staged_board)
        whole = picture("payoff-all-plot", figure, caption, folded=True, title=f"All {met:,} competitors")
    return section("payoff", title, picture("payoff-plot", drawn, caption), whole, _responses(story))


def _stages(story: Story) -> str:
    """Return what the rows of live players are; nothing if there are none."""
    board = story.staged_board
    if story.is_tournament or not (board["kind"] == "player").any():
        return ""
    return (
        "A player that learns has a row for each stretch of its training, so there are more rows than the "
        "leaderboard has competitors: “to 16206” ended with its snapshot at 16,206 steps of its own, “from "
        "16206” began there. "
    )


def _responses(story: Story) -> Html:
    """Return the response graph, or a paragraph if most pairings of its field were never played."""
    field = story.field
    if field.share_met < MET_ENOUGH or len(field.names) < 2:
        return paragraph(
            f"Only {percent(field.share_met)} of the pairings of {len(field.names)} competitors were ever "
            "played, too few to draw the worst opponent of each."
        )
    board = story.staged_board[story.staged_board["competitor"].isin(field.names)]
    return picture(
        "response-plot",
        plots.response_graph(field.met, board, filled=field.filled),
        "An arrow from each competitor to its worst opponent. A competitor without an arrow loses to no "
        "other. Where arrows form a cycle, a ranking is misleading.",
    )


def lineage(story: Story) -> Section:
    """Return the section with the lineage of snapshots."""
    title = "Lineage"
    if story.snapshots.empty:
        return section("lineage", title, paragraph("No snapshot has been frozen yet."))
    caption = (
        "Each snapshot and its parent, whose weights its training started from. A new root is a player "
        "that was reset."
    )
    figure = plots.lineage_tree(story.snapshots, story.leaderboard)
    return section("lineage", title, picture("lineage-plot", figure, caption))
