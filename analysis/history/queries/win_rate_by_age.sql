-- Who still loses to the past? Games of each role against snapshots, by the age of the snapshot.
-- role; opponent_role; age (tenths of the run since it was frozen, 0: it was new); games; win_rate (draws count half);
-- score (mean points more or less than the opponent)
WITH frozen AS (SELECT snapshot_id, min(seq) AS seq FROM decisions WHERE kind = 'freeze' GROUP BY snapshot_id),
aged AS (
    SELECT
        us.role, them.role AS opponent_role,
        CAST(floor(10 * greatest(met.seq - coalesce(frozen.seq, 0), 0) / (1 + max(met.seq) OVER ())) AS BIGINT) AS age,
        games, wins + 0.5 * draws AS points, lead
    FROM met
    JOIN competitors us ON home = us.competitor
    JOIN competitors them ON away = them.competitor AND them.kind = 'snapshot'
    LEFT JOIN frozen ON frozen.snapshot_id = away
    WHERE us.kind = 'player'
)
SELECT
    role, opponent_role, age, CAST(sum(games) AS BIGINT) AS games, sum(points) / sum(games) AS win_rate,
    sum(lead) / sum(games) AS score
FROM aged
GROUP BY role, opponent_role, age
ORDER BY role, opponent_role, age
