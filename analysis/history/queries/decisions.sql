-- What did the league decide, and how far was it? All decisions, by the league's clock.
-- seq; decided_at (UTC); league_env_steps (without placing games); kind; player; snapshot_id; reason; evidence (JSON)
SELECT seq, decided_at, env_steps AS league_env_steps, kind, player, snapshot_id, reason, evidence
FROM decided
ORDER BY seq
