"""Learning curves: what players score, how long their matches take, how they end, what their learners report.

A run is cut into stretches of equally many env steps of the league, at the ends of batches of results. Rows
are numbered by `seq`; of BLOCKS blocks of equally many numbers each one knows the stretch that it is in, and
where in it another one begins. So a run of any length costs one pass over sums of its matches.
"""

from __future__ import annotations

from analysis.history import clock
from analysis.statistics.elo import Z_95

BLOCKS = 4096
LEAST_POINTS, MOST_POINTS = 2, 1000
REPORTED = ("entropy", "policy_loss", "value_loss", "gradient_norm", "lag")  # by learners, in `updates`
CLONED = ("validation_loss", "accuracy")  # the same in its column `metrics`, of policies learned from games
SEATS = 16  # of games with more seats, the first ones have a curve

_STRETCHES = """
reached AS (
    SELECT seq, ended, league_env_steps,
        greatest(1, ceil({points} * league_env_steps / greatest(max(league_env_steps) OVER (), 1))) AS part
    FROM clock
),
stretches AS (
    SELECT part, max(seq) AS seq, max(league_env_steps) AS league_env_steps, max(ended) AS ended
    FROM reached GROUP BY part
),
size AS (SELECT greatest(1, max(seq) // {blocks}) AS width, max(seq) // width AS last FROM clock),
blocks AS (
    SELECT block, begins.part, begins.seq AS edge, coalesce(ends.part, begins.part) AS next_part
    FROM (SELECT unnest(range((SELECT last + 1 FROM size))) AS block), size
    ASOF JOIN stretches begins ON block * width <= begins.seq
    ASOF LEFT JOIN stretches ends ON block * width + width - 1 <= ends.seq
),
"""
_PLACED = "JOIN size ON true JOIN blocks ON least(seq // width, last) = block"
_PART = "CASE WHEN seq <= edge THEN blocks.part ELSE next_part END AS stretch"
_COUNTS = """
scored AS (
    SELECT 'score' AS measure, competitor AS player, CAST(NULL AS VARCHAR) AS series, {part},
        sum(seats) AS n, sum(score) AS total, sum(squares) AS squares
    FROM seated {placed} WHERE learning GROUP BY competitor, stretch
),
lasted AS (
    SELECT player, reason, {part}, sum(matches) AS n, sum(env_steps) AS total, sum(step_squares) AS squares
    FROM played {placed} WHERE purpose = 'training' AND player IS NOT NULL GROUP BY player, reason, stretch
),
by_seat AS (
    SELECT 'seat' AS measure, CAST(NULL AS VARCHAR) AS player, CAST(seat AS VARCHAR) AS series, {part},
        sum(seats) AS n,
        sum(seats * CASE outcome WHEN 'win' THEN 1.0 WHEN 'draw' THEN 0.5 ELSE 0.0 END) AS total,
        sum(seats * CASE outcome WHEN 'win' THEN 1.0 WHEN 'draw' THEN 0.25 ELSE 0.0 END) AS squares
    FROM seated {placed} WHERE seat < {seats} AND (SELECT max(num_seats) > 1 FROM played)
    GROUP BY seat, stretch
),
against AS (
    SELECT 'win_rate' AS measure, home AS player,
        CASE them.kind WHEN 'snapshot' THEN 'snapshots of ' || them.player ELSE away END AS series, {part},
        sum(games) AS n, sum(wins) + 0.5 * sum(draws) AS total, sum(wins) + 0.25 * sum(draws) AS squares
    FROM met JOIN competitors us ON home = us.competitor JOIN competitors them ON away = them.competitor
        {placed}
    WHERE us.kind = 'player' GROUP BY home, series, stretch
),
reported AS (
    UNPIVOT (SELECT player, {part}, {reported}, {cloned} FROM updates {placed})
    ON * EXCLUDE (player, stretch) INTO NAME measure VALUE value
),
counted AS (
    FROM scored
    UNION ALL FROM by_seat
    UNION ALL FROM against
    UNION ALL
    SELECT 'length', player, NULL, stretch, sum(n), sum(total), sum(squares)
    FROM lasted GROUP BY player, stretch
),
"""
_ROWS = """
means AS (
    SELECT measure, player, series, stretch, CAST(n AS BIGINT) AS samples, total / n AS value,
        sqrt(greatest(squares / n - value * value, 0.0)) AS deviation
    FROM counted
),
ended AS (
    SELECT player, reason, stretch, n, sum(n) OVER (PARTITION BY player, stretch) AS samples FROM lasted
),
-- A reason that is first seen late has a share of 0 until then.
shares AS (
    SELECT 'end' AS measure, player, reason AS series, stretch, CAST(samples AS BIGINT) AS samples,
        coalesce(n, 0) / samples AS value, sqrt(value * (1.0 - value)) AS deviation
    FROM (SELECT DISTINCT player, reason FROM ended)
    JOIN (SELECT DISTINCT player, stretch, samples FROM ended) USING (player)
    LEFT JOIN (SELECT player, reason, stretch, n FROM ended) USING (player, reason, stretch)
),
-- Wilson's interval for shares and win rates, so that five wins of five games prove little.
bounded AS (
    SELECT measure, player, series, stretch, value, samples,
        (value + {z} ** 2 / (2 * samples)) / (1 + {z} ** 2 / samples) AS middle,
        {z} / (1 + {z} ** 2 / samples)
            * sqrt(deviation ** 2 / samples + ({z} / (2 * samples)) ** 2) AS half
    FROM (FROM shares UNION ALL FROM means) WHERE measure IN ('end', 'seat', 'win_rate')
    UNION ALL
    SELECT measure, player, series, stretch, value, samples, value,
        CASE WHEN samples > 1 THEN {z} * deviation / sqrt(samples - 1) END
    FROM means WHERE measure IN ('score', 'length')
    UNION ALL
    SELECT measure, player, NULL, stretch, avg(value), count(*), NULL, NULL
    FROM reported GROUP BY measure, player, stretch
)
SELECT
    measure, player, series, {steps}, {minutes}, value,
    CAST(middle - half AS DOUBLE) AS low, CAST(middle + half AS DOUBLE) AS high, samples
FROM bounded JOIN stretches AS clock ON stretch = part
UNION ALL
SELECT
    'yardstick', player, concat_ws(' ', yardstick, measure, mode), league_env_steps, minutes,
    value, low, high, samples
FROM yardsticks JOIN ({snapshots}) ON competitor = snapshot_id
WHERE part = 'all' AND measure <> 'exploitability'
ORDER BY measure, player, series, league_env_steps
"""


def query(points: int, snapshots: str) -> str:
    """Return SQL for the curves of one run, at most `points` points each, over the view `clock`.

    `snapshots` is SQL for the snapshots with the time of their freezing.
    """
    return "WITH " + (_STRETCHES + _COUNTS + _ROWS).format(
        points=points,
        blocks=BLOCKS,
        placed=_PLACED,
        part=_PART,
        seats=SEATS,
        reported=", ".join(REPORTED),
        cloned=", ".join(f"CAST(metrics ->> '{name}' AS DOUBLE) AS {name}" for name in CLONED),
        z=Z_95,
        steps=clock.STEPS,
        minutes=clock.minutes("clock.ended"),
        snapshots=snapshots,
    )
