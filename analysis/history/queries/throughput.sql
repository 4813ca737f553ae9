-- How fast was it? Matches and env steps, minute by minute.
-- minute (since the first match); matches; env_steps (decisions of all seats); training (share of the matches that
-- a player learned from)
SELECT
    date_sub('minute', (SELECT min(started_at) FROM matches), started_at) AS minute,
    count(*) AS matches,
    CAST(sum(env_steps) AS BIGINT) AS env_steps,
    count(player) / count(*) AS training
FROM matches
GROUP BY minute
ORDER BY minute
