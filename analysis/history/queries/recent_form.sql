-- Who is getting better against whom? Win rates of the last tenth of the run beside those before it.
-- home, away; games (of the last tenth); win_rate (of home in them, draws count half); win_rate_before (NULL:
-- they had not met); change
WITH dated AS (
    SELECT home, away, games, wins + 0.5 * draws AS points,
        seq > 0.9 * (SELECT max(seq) FROM met) AS recent
    FROM met
),
rates AS (
    SELECT
        home, away,
        CAST(sum(games) FILTER (recent) AS BIGINT) AS games,
        sum(points) FILTER (recent) / sum(games) FILTER (recent) AS win_rate,
        sum(points) FILTER (NOT recent) / sum(games) FILTER (NOT recent) AS win_rate_before
    FROM dated GROUP BY home, away
)
SELECT home, away, games, win_rate, win_rate_before, win_rate - win_rate_before AS change
FROM rates
WHERE games > 0
ORDER BY home, away
