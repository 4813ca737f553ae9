"""Section with learning curves: scores and lengths, win rates, ends of matches, what learners report."""

from __future__ import annotations

from analysis import plots
from analysis.report.sections.pictures import picture
from analysis.report.story import Story
from analysis.report.writing.markup import Html
from analysis.report.writing.section import Section, paragraph, section


def curves(story: Story) -> Section:
    """Return the section with learning curves; pictures without data are left out."""
    title, frame = "Learning curves", story.curves
    if frame.empty:
        return section("curves", title, paragraph("No match is recorded yet."))
    found = set(frame["measure"])
    parts: list[Html] = []
    if "score" in found:
        parts.append(
            picture(
                "scores-plot",
                plots.scores(frame),
                "Scores of the matches that each player learned from, as it acted then: with exploration. "
                "Against opponents that improve as well, a score says little of strength. To measure a "
                "snapshot by itself: league evaluate.",
            )
        )
    if "win_rate" in found:
        parts.append(
            picture(
                "win-rates-plot",
                plots.win_rates(frame),
                "Bots never change, so points against a bot measure progress. Snapshots of a player are more "
                "and stronger as the run goes on, and matchmaking may choose the hardest.",
            )
        )
    if "end" in found:
        parts.append(
            picture(
                "ends-plot",
                plots.ends(frame),
                "Illegal actions and crashes are results with a reason, never draws.",
            )
        )
    if found & {"entropy", "policy_loss", "value_loss", "gradient_norm", "lag"}:
        parts.append(
            picture(
                "learning-plot",
                plots.learning(frame),
                "Entropy near 0 means that a policy has stopped to explore. Lag is the age of what is "
                "learned, in updates.",
            )
        )
    return section("curves", title, *parts)
