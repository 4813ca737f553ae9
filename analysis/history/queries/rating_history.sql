-- How did the ratings come about? One row per competitor and batch of results that moved it, or stretch of old ones.
-- seq (of the last match before); league_env_steps (of the whole league by then); competitor; mu, sigma
-- (TrueSkill); games (so far)
WITH batches AS (
    SELECT max(seq) AS seq, sum(coalesce(sum(env_steps) FILTER (NOT is_placing), 0)) OVER (ORDER BY max(seq)) AS league_env_steps
    FROM played GROUP BY batch
)
SELECT
    r.seq, CAST(coalesce(b.league_env_steps, 0) AS BIGINT) AS league_env_steps, competitor, mu, sigma, games
FROM rated r ASOF LEFT JOIN batches b ON r.seq >= b.seq
ORDER BY r.seq, coalesce(r.batch, 0), competitor
