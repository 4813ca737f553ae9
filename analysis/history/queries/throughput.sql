-- How fast was it? Matches and env steps, minute by minute.
-- minute (since the first match); matches; env_steps (decisions of all seats); training (share of the matches that
-- a player learned from)
SELECT
    date_sub('minute', (SELECT min(started_at) FROM played), started_at) AS minute,
    CAST(sum(p.matches) AS BIGINT) AS matches,
    CAST(sum(p.env_steps) AS BIGINT) AS env_steps,
    coalesce(sum(p.matches) FILTER (player IS NOT NULL), 0) / sum(p.matches) AS training
FROM played p
GROUP BY minute
ORDER BY minute
