"""Ends of sessions, which the table `ends` has: trained, untrained, stopped before the end, failed.

A session is untrained if it reached its `stop` without a decision or an update.

A session without a row was killed, or is still training: `state_of` decides which. No state of the league is
a fold of ends, so a run resumes without reading them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

MOST_REASON = 1000  # characters

Ending = Literal["trained", "untrained", "stopped", "failed"]

FACTS = """
SELECT (SELECT max(started_at) FROM runs) AS session, (SELECT count(*) FROM entrants) AS entrants, newest.*
FROM (SELECT 1) LEFT JOIN (SELECT * EXCLUDE (seq) FROM ends ORDER BY ended_at DESC LIMIT 1) AS newest ON true
"""
"""Query of one row, from which `state_of` decides."""

ENV_STEPS = """
SELECT CAST(greatest(
    (SELECT coalesce(sum(env_steps), 0) FROM played WHERE NOT is_placing),
    (SELECT coalesce(max(env_steps), 0) FROM ends)
) AS BIGINT)
"""
"""Query of the env steps of a run, as `stop` counts them: with those of matches that an end cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a session of training: how far the run had come, of how much."""

    state: Ending
    reason: str = ""  # of a failure, or why nothing was learned
    seconds: float  # of training so far, earlier sessions included
    of_seconds: float | None = None  # that the settings ask for; None: no limit
    env_steps: int  # played so far
    of_env_steps: int | None = None
    ended_at: float  # seconds since the epoch

    def sentence(self) -> str:
        """Return how it ended, such as "Stopped after 45 s of 10 min"."""
        of = f" of {span(self.of_seconds)}" if self.of_seconds else ""
        if self.of_env_steps:
            of += f", at {self.env_steps:,} of {self.of_env_steps:,} env steps"
        if self.state == "trained":
            return f"Trained for {span(self.seconds)}, {self.env_steps:,} env steps"
        why = f": {self.reason}" if self.reason else ""
        if self.state == "untrained":
            return f"Learned nothing in {span(self.seconds)}{why}"
        return f"{self.state.capitalize()} after {span(self.seconds)}{of or ' (no limit is set)'}{why}"


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run: how its newest session ended, if it did."""

    kind: Literal["running", "trained", "untrained", "stopped", "failed", "killed", "played"]
    sentence: str  # such as "Stopped after 45 s of 10 min"

    @property
    def word(self) -> str:
        """The state in a word or two."""
        words = {
            "running": "running now",
            "trained": "finished",
            "untrained": "ended, learned nothing",
            "killed": "killed, or of an older version",
        }
        return words.get(self.kind, self.kind)


def state_of(facts: Mapping[str, Any], written: bool) -> RunState:
    """Return the state of a run, given the row of FACTS and whether a process writes the run now.

    A killed session and one of a version that recorded no ends look the same.
    """
    end = _newest_end(facts)
    if end is not None and not facts["entrants"]:
        return RunState(end.state, end.sentence())
    if written:
        return RunState("running", "tournament, playing now" if facts["entrants"] else "training now")
    if facts["entrants"]:
        return RunState("played", "tournament")
    return RunState("killed", "killed, or of an older version: no end is recorded")


def _newest_end(facts: Mapping[str, Any]) -> End | None:
    """Return the end of the newest session; `None` if it has none."""
    if facts["ended_at"] is None or (facts["session"] is not None and facts["ended_at"] < facts["session"]):
        return None
    row = {field.name: facts[field.name] for field in fields(End)}
    return End(**row | {"ended_at": facts["ended_at"].timestamp(), "reason": row["reason"] or ""})


def span(seconds: float) -> str:
    """Return a length of time for people: "45 s", "10 min", "2 h 5 min"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
