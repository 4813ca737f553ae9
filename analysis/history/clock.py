"""The league's progress when a fact was recorded: its env_steps, and the minutes since its first match.

Facts are numbered by `seq`; only matches carry env_steps, and placing games count none, as in `stop`. In a
run without matches, which learns from stored games, updates carry the decisions learned from. So each run
gets a small table with a row per batch of results. It is brought up to date before each query that needs it.
The view `clock` shows that of one run.
"""

from __future__ import annotations

import storage

STEPS = "CAST(coalesce(clock.league_env_steps, 0) AS BIGINT) AS league_env_steps"
"""SQL for the column, behind a join with `joined`."""


def _table_of(live: storage.LiveConnection, number: int) -> str:
    """Return the name of a run's clock table, by the run's number on the connection.

    Its rows are in order: seq (of a batch's last match), and of all matches up to it began (the first), ended
    (the last), league_env_steps. Where rows became sums (storage.retention) there is a new table, since their
    batches are other ones.
    """
    return f"temp.clock_{number}_{live.restarts[number]}"


def bring_up_to_date(live: storage.LiveConnection) -> None:
    """Create the clock tables of all runs of `live`, or append what is new; call it at one moment."""
    for number, schema in enumerate(live.schemas):
        clock = _table_of(live, number)
        live.execute(
            f"CREATE TEMP TABLE IF NOT EXISTS {clock} "
            "(seq BIGINT, began TIMESTAMP, ended TIMESTAMP, league_env_steps BIGINT)"
        )
        # As a number in the text: DuckDB then skips files without newer rows.
        (known,) = live.execute(f"SELECT coalesce(max(seq), 0) FROM {clock}").fetchone()
        live.execute(
            f"""
            INSERT INTO {clock}
            WITH known AS (
                SELECT
                    coalesce(max(league_env_steps), 0) AS env_steps, min(began) AS began, max(ended) AS ended
                FROM {clock}
            ),
            fresh AS (
                SELECT
                    max(seq) AS seq, min(started_at) AS began,
                    max(ended_at) AS ended,
                    coalesce(sum(env_steps) FILTER (NOT is_placing), 0) AS env_steps
                FROM {schema}.played
                WHERE seq > {known}
                GROUP BY batch
                UNION ALL
                SELECT
                    seq, recorded_at, recorded_at,
                    env_steps - coalesce(lag(env_steps) OVER (ORDER BY seq), (SELECT env_steps FROM known))
                FROM {schema}.updates
                WHERE seq > {known} AND NOT EXISTS (FROM {schema}.played)
            )
            SELECT
                seq,
                least(known.began, min(fresh.began) OVER so_far),
                greatest(known.ended, max(fresh.ended) OVER so_far),
                CAST(known.env_steps + sum(fresh.env_steps) OVER so_far AS BIGINT)
            FROM fresh, known
            WINDOW so_far AS (ORDER BY seq)
            ORDER BY seq
            """
        )


def show(live: storage.LiveConnection, number: int) -> None:
    """Let the view `clock` of `live` show the clock of the run of that number."""
    live.execute(f"CREATE OR REPLACE TEMP VIEW clock AS FROM {_table_of(live, number)}")


def joined(seq: str) -> str:
    """Return SQL that joins the clock's last row up to `seq`, a column."""
    return f"ASOF LEFT JOIN clock ON {seq} >= clock.seq"


def minutes(time: str) -> str:
    """Return SQL for the column `minutes` of a fact from `time`, a column: 0 before the run's first match."""
    began = "(SELECT min(began) FROM clock)"
    return f"greatest(0.0, coalesce(epoch({time}) - epoch({began}), 0.0) / 60.0) AS minutes"
