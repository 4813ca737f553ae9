-- Did a seat become better than the others? Points of each seat, in twentieths of the run.
-- seat; stretch (1 to 20); league_env_steps (of the whole league by its end); games; win_rate (draws count half); low, high (its 95 %
-- interval); change (of win_rate since the stretch before; NULL: the first)
WITH clock AS (
    SELECT seq, sum(env_steps) FILTER (NOT is_placing) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS steps FROM played
),
stretched AS (
    SELECT seat, seats, outcome, seq, CAST(1 + 20 * (seq - 1) // max(seq) OVER () AS BIGINT) AS stretch
    FROM seated WHERE num_seats > 1
),
counted AS (
    SELECT
        seat, least(stretch, 20) AS part, max(seq) AS seq, CAST(sum(seats) AS BIGINT) AS n,
        sum(seats * CASE outcome WHEN 'win' THEN 1.0 WHEN 'draw' THEN 0.5 ELSE 0.0 END) / n AS win_rate,
        sum(seats * CASE outcome WHEN 'win' THEN 1.0 WHEN 'draw' THEN 0.25 ELSE 0.0 END) / n - win_rate ** 2 AS variance
    FROM stretched GROUP BY seat, part
),
bounded AS (  -- Wilson's interval: 3.84 is the square of 1.96
    SELECT
        *, (win_rate + 1.92 / n) / (1 + 3.84 / n) AS centre,
        1.96 * sqrt(greatest(variance, 0.0) / n + 0.96 / n ** 2) / (1 + 3.84 / n) AS half
    FROM counted
)
SELECT
    seat, part AS stretch, CAST(coalesce(steps, 0) AS BIGINT) AS league_env_steps, n AS games, win_rate,
    centre - half AS low, centre + half AS high,
    win_rate - lag(win_rate) OVER (PARTITION BY seat ORDER BY part) AS change
FROM bounded b ASOF LEFT JOIN clock ON b.seq >= clock.seq
ORDER BY seat, part
