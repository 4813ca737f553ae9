"""What a run has recorded on the strengths of its competitors, by SQL, and the order that follows.

A player that learns is another opponent after each freeze, so its games are given by stage: `home_until` is
the snapshot that ended the stage in which home played them, NULL for what it played since its last one.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from analysis.statistics.hierarchy.anchors import Anchor, anchors_of, held
from analysis.statistics.strength.field import Meeting, RunMember, Score
from analysis.statistics.strength.order import Order, order_by_score, order_of

_MEMBER = tuple(each.name for each in fields(RunMember))

MEMBERS = """
WITH latest AS (
    SELECT competitor, max_by(mu, (seq, coalesce(batch, 0))) AS mu FROM rated GROUP BY competitor
),
origins AS (
    SELECT player, max_by(snapshot_id, seq) AS snapshot_id FROM decisions
    WHERE kind IN ('freeze', 'reset') AND snapshot_id IS NOT NULL GROUP BY player
)
SELECT
    c.competitor, c.kind, c.role, c.player,
    CASE WHEN c.kind = 'player' THEN o.snapshot_id ELSE s.parent_id END AS parent,
    coalesce(s.env_steps, 0) AS env_steps,
    c.kind = 'snapshot' AND s.parent_id IS NULL AND coalesce(s.env_steps, 0) = 0
        AND coalesce(s.updates, 0) = 0 AND s.player IN (SELECT player FROM players)
        AND coalesce(s.reason, '') NOT LIKE '%, from %' AS untrained,
    latest.mu
FROM competitors c
LEFT JOIN snapshots s ON c.competitor = s.snapshot_id
LEFT JOIN origins o ON c.kind = 'player' AND c.competitor = o.player
LEFT JOIN latest ON c.competitor = latest.competitor
ORDER BY c.added_at, c.competitor
"""
"""One row per competitor, in order of joining. `parent`: the snapshot that its weights began as."""

_ENDS = """
ends AS (
    SELECT s.player, s.snapshot_id, min(d.seq) AS seq
    FROM snapshots s JOIN decisions d ON s.snapshot_id = d.snapshot_id
    WHERE d.kind = 'freeze' GROUP BY s.player, s.snapshot_id
)
"""

MEETINGS = f"""
WITH {_ENDS}
SELECT
    m.home, m.away, h.snapshot_id AS home_until, a.snapshot_id AS away_until,
    CAST(sum(m.games) AS BIGINT) AS games, CAST(sum(m.wins) + 0.5 * sum(m.draws) AS DOUBLE) AS points
FROM met m
ASOF LEFT JOIN ends h ON m.home = h.player AND m.seq <= h.seq
ASOF LEFT JOIN ends a ON m.away = a.player AND m.seq <= a.seq
WHERE m.home < m.away
GROUP BY m.home, m.away, h.snapshot_id, a.snapshot_id
ORDER BY m.home, m.away, home_until, away_until
"""
"""One row per pair that met and stage of each, with the points of home: a draw is half a win."""

SCORES = f"""
WITH {_ENDS}
SELECT
    s.competitor, e.snapshot_id AS until, CAST(sum(seats) AS BIGINT) AS games, sum(s.score) / games AS mean,
    greatest((sum(squares) - games * mean * mean) / greatest(games - 1, 1), 0) AS variance
FROM seated s
ASOF LEFT JOIN ends e ON s.competitor = e.player AND s.seq <= e.seq
GROUP BY s.competitor, e.snapshot_id ORDER BY s.competitor, until
"""
"""One row per competitor and stage, with mean and variance of its scores: for games with one seat."""

CONFIG = "SELECT config FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1"
"""One row or none: the settings as YAML."""


def recorded_order(live: Any) -> Order:
    """Return the order of the competitors of the one run of `live`; call it at one moment.

    `live` is a connection (`storage.connect`), of which `sql` and `newest` are asked.
    """

    def ask(question: str) -> pa.Table:
        found: pa.Table = live.sql(question).to_arrow_table()
        return found

    members = [RunMember(**{name: row[name] for name in _MEMBER}) for row in ask(MEMBERS).to_pylist()]
    # the newest rows hold the last match: a query on `seats` would read all of them
    teams = teams_of(live.newest("seats", "seq", "seat", "team"))
    teams = teams or pc.max(live.newest("summed_matches", "num_seats")["num_seats"]).as_py() or 0
    if teams == 1:
        return order_by_score(members, (Score(**row) for row in ask(SCORES).to_pylist()))
    meetings = (Meeting(**row) for row in ask(MEETINGS).to_pylist())
    config = ask(CONFIG)["config"].to_pylist()
    return order_of(members, meetings, teams=teams or 2, anchors=_anchors(config[0] if config else None))


def teams_of(seats: pa.Table) -> int:
    """Return the number of teams in the last match of `seats`; 0 without rows."""
    last = seats.filter(pc.equal(seats["seq"], pc.max(seats["seq"])))
    return int(pc.count_distinct(pc.coalesce(last["team"], last["seat"])).as_py())


def _anchors(config: str | None) -> dict[str, Anchor]:
    """Return the competitors whose ratings a run's settings give, if they name any as settings do."""
    try:
        ratings = yaml.safe_load(config or "")["ratings"]
        found = anchors_of(ratings.get("anchors") or ratings.get("anchor"))  # one alone, in older runs
        held(found, list(found))
    except (yaml.YAMLError, AttributeError, TypeError, ValueError, KeyError):
        return {}
    return found
