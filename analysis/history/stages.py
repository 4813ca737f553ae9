"""Stages: the games of a live player, each counted for the stretch of its training in which it was played.

A player that learns is another opponent after each freeze. So payoffs and ratings can be read by stage:
`main-0 to 16206` is the player main-0 since the freeze before, up to that of its snapshot at 16,206 of its
own env steps; `main-0 from 63680` is what came after its last snapshot.
"""

from __future__ import annotations


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


def meetings(snapshots: str) -> str:
    """Return SQL for the rows of `meetings`, with live players named by stage."""
    return f"""(
    WITH {_ends(snapshots)}
    SELECT m.* REPLACE ({_named("m.home", "h", "hl")} AS home, {_named("m.away", "a", "al")} AS away)
    FROM meetings m
    ASOF LEFT JOIN ends h ON m.home = h.player AND m.seq <= h.seq
    LEFT JOIN last_ends hl ON m.home = hl.player
    ASOF LEFT JOIN ends a ON m.away = a.player AND m.seq <= a.seq
    LEFT JOIN last_ends al ON m.away = al.player
    )"""


def leaderboard(snapshots: str) -> str:
    """Return SQL for the rows of `leaderboard`, where a stage has the rating at its end.

    Stages without a game are left out.
    """
    return f"""
    WITH {_ends(snapshots)},
    rated AS (
        SELECT
            {_named("r.competitor", "e", "el")} AS stage, any_value(r.competitor) AS competitor,
            max_by({{mu: mu, sigma: sigma, games: games}}, (r.seq, coalesce(batch, 0))) AS rating
        FROM ratings r
        ASOF LEFT JOIN ends e ON r.competitor = e.player AND r.seq <= e.seq
        LEFT JOIN last_ends el ON r.competitor = el.player
        GROUP BY stage
    ),
    rates AS (
        SELECT
            home AS stage,
            (sum(wins) + 0.5 * sum(draws)) / sum(games) AS win_rate,
            CASE WHEN count(lead) = count(*) THEN sum(lead) / sum(games) END AS lead
        FROM {meetings(snapshots)} GROUP BY home
    )
    SELECT
        stage AS competitor, role, kind, rating.mu AS mu, rating.sigma AS sigma, rating.games AS games,
        win_rate, lead, rating.mu - 3 * rating.sigma AS skill
    FROM rated LEFT JOIN competitors USING (competitor) LEFT JOIN rates USING (stage)
    WHERE kind <> 'player' OR win_rate IS NOT NULL
    ORDER BY skill DESC, stage
    """
