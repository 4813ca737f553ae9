"""Time that is left of a run that trains: by its settings, its sessions and its speed of the last minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.history.frames import number_setting
from analysis.history.history import History

RECENT_SECONDS = 120.0  # of play, by which the speed is measured
_SESSIONS = """
WITH sessions AS (SELECT started_at, lead(started_at) OVER (ORDER BY started_at) AS next FROM runs)
SELECT epoch(s.started_at) AS began, epoch(max(m.started_at)) AS last
FROM sessions s
LEFT JOIN played m ON m.started_at >= s.started_at AND m.started_at < coalesce(s.next, TIMESTAMP 'infinity')
GROUP BY s.started_at ORDER BY s.started_at
"""
_ENDS = "SELECT epoch(ended_at), seconds FROM ends ORDER BY ended_at"
_SPEED = f"""
WITH counted AS (SELECT env_steps, started_at FROM played WHERE NOT is_placing),
late AS (SELECT max(started_at) - INTERVAL {RECENT_SECONDS:.0f} SECONDS AS since FROM counted)
SELECT
    (SELECT coalesce(sum(env_steps), 0) FROM counted) AS env_steps,
    (SELECT coalesce(sum(env_steps), 0) FROM counted, late WHERE started_at > since) AS recent,
    (SELECT epoch(max(started_at)) - epoch(min(started_at)) FROM counted, late WHERE started_at > since)
        AS seconds
"""


def seconds_left(history: History, config: Mapping[str, Any]) -> float | None:
    """Return the seconds that are left of the one run of `history`, which trains; `None`: no limit is known.

    `config`: its settings.
    """
    minutes = number_setting(config, "stop", "minutes", default=math.inf, above=0.0)
    most = number_setting(config, "stop", "env_steps", default=math.inf, above=0.0)
    if math.isinf(minutes) and math.isinf(most):
        return None
    found = []
    if math.isfinite(minutes):
        found.append(60.0 * minutes - seconds_trained(history, time.time()))
    if math.isfinite(most):
        played, recent, seconds = (float(value) for value in history.sql(_SPEED).iloc[0].tolist())
        if recent > 0.0 and seconds > 0.0:
            found.append((most - played) * seconds / recent)
    return max(0.0, min(found)) if found else None


def seconds_trained(history: History, now: float | None = None) -> float:
    """Return the seconds of training of the one run of `history`, to `now` or else to its last match."""
    sessions, ends = (
        list(history.sql(query).astype(float).itertuples(index=False, name=None))
        for query in (_SESSIONS, _ENDS)
    )
    return seconds_spent(sessions, ends, now)


def seconds_spent(
    sessions: Sequence[tuple[float, float]], ends: Sequence[tuple[float, float]], now: float | None
) -> float:
    """Return the seconds of training of a run, earlier sessions included.

    `sessions`: when each began and when its last match did, in order; nan: it played none. `ends`: when one
    ended, and the seconds of training by then. A session that recorded no end counts until its last match,
    the newest until `now`, if that is given.
    """
    spent = 0.0
    following = [began for began, _ in sessions[1:]]
    for (began, last), until in zip(sessions, [*following, math.inf], strict=True):
        known = [seconds for when, seconds in ends if began <= when < until]
        if known:
            spent = known[-1]
        elif math.isinf(until) and now is not None:
            spent += max(0.0, now - began)
        elif not math.isnan(last):
            spent += last - began
    return spent
