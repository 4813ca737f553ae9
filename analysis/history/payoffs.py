"""SQL of the payoff: what the games of each pair of competitors count, by outcome or by score.

Stages: the games of a live player, each counted for the stretch of its training in which it was played. A
player that learns is another opponent after each freeze. So payoffs and ratings can be read by stage:
`main-0 to 16206` is the player main-0 since the freeze before, up to that of its snapshot at 16,206 of its
own env steps; `main-0 from 63680` is what came after its last snapshot.
"""

from __future__ import annotations

from typing import Literal

from storage.tables import schema

Unit = Literal["outcome", "score"]

# Leads by pair from `seats`, for runs whose `meetings` were recorded without them. A team is its first seat.
_FROM_SEATS = """
sides AS (
    SELECT *, coalesce(s.team, s.seat) AS side FROM seats s
    QUALIFY seat = min(seat) OVER (PARTITION BY seq, side)
),
paired AS (
    SELECT home.competitor AS home, away.competitor AS away, (home.score - away.score) / 2 AS ahead
    FROM sides home JOIN sides away ON home.seq = away.seq AND home.side <> away.side
    JOIN matches m ON m.seq = home.seq
    WHERE home.competitor <> away.competitor AND NOT (home.outcome = 'forfeit' AND away.outcome = 'forfeit')
    {where}
),
leads AS (
    SELECT home, away, avg(ahead) AS lead, avg(ahead * ahead) AS square FROM paired GROUP BY home, away
),
greatest_lead AS (SELECT max(abs(ahead)) AS greatest FROM paired)
"""
_FROM_MEETINGS = """
leads AS (SELECT home, away, lead, square FROM summed),
greatest_lead AS (SELECT NULL::DOUBLE AS greatest)
"""
_POINTS = {
    "outcome": ("win_rate", "(wins + 0.25 * draws) / games"),
    "score": ("0.5 + l.lead / (2 * most)", "0.25 + l.lead / (2 * most) + l.square / (4 * most * most)"),
}


def query(purpose: str | None, unit: Unit | None, *, from_seats: bool, meetings: str = "met") -> str:
    """Return the SQL of `History.payoff`: one row per ordered pair, with what a game counts.

    `from_seats` finds leads in `seats`, which takes longer. `meetings`: SQL for the rows of `met`.
    """
    where = "" if purpose is None else f"WHERE purpose = '{purpose}'"
    sides = _FROM_SEATS.format(where="" if purpose is None else f"AND m.purpose = '{purpose}'")
    counted = "CASE WHEN declared IS NULL THEN 'outcome' ELSE 'score' END" if unit is None else f"'{unit}'"
    (won, won_square), (scored, scored_square) = _POINTS["outcome"], _POINTS["score"]
    return f"""
    WITH own AS (SELECT most_lead AS declared FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1),
    summed AS (
        SELECT
            home, away,
            CAST(sum(games) AS BIGINT) AS games, CAST(sum(wins) AS BIGINT) AS wins,
            CAST(sum(draws) AS BIGINT) AS draws, CAST(sum(losses) AS BIGINT) AS losses,
            (sum(wins) + 0.5 * sum(draws)) / sum(games) AS win_rate,
            CASE WHEN count(lead) = count(*) THEN sum(lead) / sum(games) END AS lead,
            CASE WHEN count(lead) = count(*) THEN sum(squares) / sum(games) END AS square
        FROM {meetings} {where} GROUP BY home, away
    ),
    {sides if from_seats else _FROM_MEETINGS},
    counted AS (
        SELECT
            summed.* EXCLUDE (lead, square), l.lead AS lead, {counted} AS unit,
            coalesce(declared, greatest) AS most,
            CASE WHEN unit = 'score' THEN {scored} ELSE {won} END AS points,
            CASE WHEN unit = 'score' THEN {scored_square} ELSE {won_square} END AS square
        FROM summed JOIN leads l USING (home, away) CROSS JOIN own CROSS JOIN greatest_lead
    )
    SELECT
        home, away, games, wins, draws, losses, win_rate, lead, unit, points,
        sqrt(greatest(square - points * points, 0)) AS deviation,
        CASE WHEN unit = 'score' THEN most END AS most_lead
    FROM counted ORDER BY home, away
    """


def _named(column: str, own: str, last: str) -> str:
    """Return SQL for the name of a competitor, by the stage `own` that it was in and its `last` one."""
    return (
        f"CASE WHEN {own}.env_steps IS NOT NULL THEN {column} || ' to ' || {own}.env_steps "
        f"WHEN {last}.env_steps IS NOT NULL THEN {column} || ' from ' || {last}.env_steps ELSE {column} END"
    )


def _ends(snapshots: str) -> str:
    """Return SQL with the ends of stages, by player; `snapshots`: SQL for snapshots with `frozen_at`."""
    return f"""
    ends AS (
        SELECT player, env_steps, min(frozen_at) AS seq FROM ({snapshots}) GROUP BY player, env_steps
    ),
    last_ends AS (SELECT player, max(env_steps) AS env_steps FROM ends GROUP BY player)
    """


def staged_meetings(snapshots: str) -> str:
    """Return SQL for the rows of `met`, with live players named by stage."""
    return f"""(
    WITH {_ends(snapshots)}
    SELECT m.* REPLACE ({_named("m.home", "h", "hl")} AS home, {_named("m.away", "a", "al")} AS away)
    FROM met m
    ASOF LEFT JOIN ends h ON m.home = h.player AND m.seq <= h.seq
    LEFT JOIN last_ends hl ON m.home = hl.player
    ASOF LEFT JOIN ends a ON m.away = a.player AND m.seq <= a.seq
    LEFT JOIN last_ends al ON m.away = al.player
    )"""


def staged_leaderboard(snapshots: str) -> str:
    """Return SQL for the rows of the view `leaderboard`, where a stage has the rating at its end.

    Stages without a game are left out.
    """
    body = schema.VIEWS["leaderboard"].partition(" AS\n")[2].rstrip(";")
    return f"""
    WITH {_ends(snapshots)},
    rows AS (
        SELECT r.* EXCLUDE (competitor), r.competitor AS own,
            {_named("r.competitor", "e", "el")} AS competitor
        FROM rated r
        ASOF LEFT JOIN ends e ON r.competitor = e.player AND r.seq <= e.seq
        LEFT JOIN last_ends el ON r.competitor = el.player
    ),
    sides AS (FROM {staged_meetings(snapshots)}),
    members AS (
        SELECT DISTINCT rows.competitor, role, kind
        FROM rows LEFT JOIN competitors c ON own = c.competitor
    ),
    rated AS (FROM rows), met AS (FROM sides), competitors AS (FROM members)
    FROM ({body}) WHERE kind <> 'player' OR games > 0 ORDER BY skill DESC, competitor
    """
