"""Section with one recorded match that can be stepped through: one of the strongest competitors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.report.markup import Html, Section, drawn, visible
from analysis.report.story import Story

Playback = Callable[[int], Mapping[str, Any] | None]
"""Frames of a recorded match by its id, and how it ended; `None` if it cannot be shown."""

MOST_BYTES = 250_000  # of all frames
WORTH_OF_TWO = 100.0  # Elo by which others may be weaker than a competitor that meets itself
MOST_ASKED = 200  # newest recorded matches, one of which is shown
_RECORDED = f"""
WITH newest AS (
    SELECT seq, match_id, env_steps FROM matches
    WHERE reason = 'finished' AND seq IN (SELECT seq FROM recordings) ORDER BY seq DESC LIMIT {MOST_ASKED}
)
SELECT match_id, seq, any_value(newest.env_steps) AS steps, array_agg(competitor) AS competitors,
    bool_or(outcome = 'win') AS won, max(score) AS score
FROM newest JOIN seats USING (seq) GROUP BY match_id, seq ORDER BY seq
"""


def shown_match(story: Story, playback: Playback) -> Section | None:
    """Return the section on a recorded match; `None` if there is none that can be shown."""
    match_id = good_match(story)
    found = None if match_id is None else playback(match_id)
    if found is None:
        return None
    texts = [visible(frame["picture"] or frame["text"]) for frame in found["frames"]]
    said = [visible(". ".join(frame["said"])) for frame in found["frames"]]
    frames = json.dumps(list(zip(differences(texts), said, strict=True)), separators=(",", ":"))
    if len(frames) > MOST_BYTES:
        return None
    drawing = bool(found["frames"][-1]["picture"])
    return drawn(
        "shown_match.html",
        "shown-match",
        "A match to step through",
        found=found,
        frames=frames,
        drawing=drawing,
        last=Html(texts[-1]) if drawing else texts[-1],
        said=said[1:],
        style=Html(found["style"]),
        story=story,
    )


def good_match(story: Story) -> int | None:
    """Return the recorded match whose weakest competitor is the strongest; of equals a decided, long one.

    A match of a competitor against itself counts as weaker. In a game for one it is the best score. `None`
    if no match was recorded.
    """
    rows = story.sql(_RECORDED).to_dict("records")
    if not rows:
        return None
    if story.is_solitary:
        return int(max(rows, key=lambda row: (row["score"], row["seq"]))["match_id"])
    board = story.leaderboard
    elo = dict(zip(board["competitor"], board["elo"].fillna(float("-inf")), strict=True))

    def worth(row: Mapping[Any, Any]) -> tuple[float, ...]:
        weakest = min(elo.get(name, float("-inf")) for name in row["competitors"])
        alike = len(set(row["competitors"])) == 1
        return weakest - WORTH_OF_TWO * alike, row["won"], row["steps"], row["seq"]

    return int(max(rows, key=worth)["match_id"])


def differences(texts: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return of each text how many characters it shares with the one before, at both ends, and the rest."""
    found, before = [], ""
    for text in texts:
        head = _shared(before, text)
        tail = _shared(before[head:][::-1], text[head:][::-1])
        if max(map(ord, before), default=0) > 0xFFFF:  # JavaScript counts such a character twice
            head = tail = 0
        found.append((head, tail, text[head : len(text) - tail]))
        before = text
    return found


def _shared(a: str, b: str) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
