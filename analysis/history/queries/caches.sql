-- Do the snapshot caches work? The newest report of each node and tier.
-- node; tier (device, mapped, disk, remote); hits, misses; hit_rate; resident (snapshots held); bytes; evictions
-- (JSON: how many, by cause); recorded_at (UTC)
SELECT
    node, tier, hits, misses, hits / nullif(hits + misses, 0) AS hit_rate, resident, bytes, evictions, recorded_at
FROM caches
QUALIFY row_number() OVER (PARTITION BY node, tier ORDER BY seq DESC, recorded_at DESC) = 1
ORDER BY node, tier
