"""SQL of the payoff: what the games of each pair of competitors count, by outcome or by score."""

from __future__ import annotations

from typing import Literal

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
leads AS (SELECT home, away, lead, square FROM met),
greatest_lead AS (SELECT NULL::DOUBLE AS greatest)
"""
_POINTS = {
    "outcome": ("win_rate", "(wins + 0.25 * draws) / games"),
    "score": ("0.5 + l.lead / (2 * most)", "0.25 + l.lead / (2 * most) + l.square / (4 * most * most)"),
}


def query(purpose: str | None, unit: Unit | None, *, from_seats: bool, meetings: str = "meetings") -> str:
    """Return the SQL of `History.payoff`: one row per ordered pair, with what a game counts.

    `from_seats` finds leads in `seats`, which takes longer. `meetings`: SQL for the rows of that table.
    """
    where = "" if purpose is None else f"WHERE purpose = '{purpose}'"
    sides = _FROM_SEATS.format(where="" if purpose is None else f"AND m.purpose = '{purpose}'")
    counted = "CASE WHEN declared IS NULL THEN 'outcome' ELSE 'score' END" if unit is None else f"'{unit}'"
    (won, won_square), (scored, scored_square) = _POINTS["outcome"], _POINTS["score"]
    return f"""
    WITH own AS (SELECT most_lead AS declared FROM runs ORDER BY seq DESC, started_at DESC LIMIT 1),
    met AS (
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
            met.* EXCLUDE (lead, square), l.lead AS lead, {counted} AS unit,
            coalesce(declared, greatest) AS most,
            CASE WHEN unit = 'score' THEN {scored} ELSE {won} END AS points,
            CASE WHEN unit = 'score' THEN {scored_square} ELSE {won_square} END AS square
        FROM met JOIN leads l USING (home, away) CROSS JOIN own CROSS JOIN greatest_lead
    )
    SELECT
        home, away, games, wins, draws, losses, win_rate, lead, unit, points,
        sqrt(greatest(square - points * points, 0)) AS deviation,
        CASE WHEN unit = 'score' THEN most END AS most_lead
    FROM counted ORDER BY home, away
    """
