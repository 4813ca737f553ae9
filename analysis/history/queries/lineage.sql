-- Where does each snapshot come from? Every ancestor of every snapshot.
-- snapshot_id; ancestor_id; generation (1: its parent)
SELECT snapshot_id, ancestor_id, generation
FROM lineage
ORDER BY snapshot_id, generation
