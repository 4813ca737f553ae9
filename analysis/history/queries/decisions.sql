-- What did the league decide, and how far was it? All decisions, by the league's clock.
-- seq; decided_at (UTC); league_env_steps (without placing games); kind; player; snapshot_id; reason; evidence (JSON)
WITH clock AS (
    SELECT seq, sum(env_steps) FILTER (NOT is_placing) OVER (ORDER BY seq ROWS UNBOUNDED PRECEDING) AS steps FROM played
)
SELECT
    d.seq, d.decided_at, CAST(coalesce(c.steps, 0) AS BIGINT) AS league_env_steps, d.kind, d.player, d.snapshot_id,
    d.reason, d.evidence
FROM decisions d ASOF LEFT JOIN clock c ON d.seq >= c.seq
ORDER BY d.seq
