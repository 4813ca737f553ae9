-- Why was each snapshot frozen? The decision, and the numbers that led to it.
-- seq; decided_at (UTC); player; snapshot_id; env_steps, updates (of its player by then); reason; evidence
-- (JSON)
SELECT d.seq, d.decided_at, d.player, d.snapshot_id, s.env_steps, s.updates, d.reason, d.evidence
FROM decisions d LEFT JOIN snapshots s USING (snapshot_id)
WHERE d.kind = 'freeze'
ORDER BY d.seq
