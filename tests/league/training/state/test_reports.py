"""What the runners of a node say of their caches is summed for the node."""

from league.training.state.reports import CacheLog
from storage.cache.policy_map import TierInfo


def tiers(hits, misses, resident, evicted=0, in_folder=7):
    return (
        TierInfo("mapped", hits, misses, resident, 100 * resident, {"count": evicted}),
        TierInfo("disk", misses, 0, in_folder, 1000, {"bytes": 0}),
    )


def by_key(records):
    return {(record.node, record.tier): record for record in records}


def test_processes_of_a_node_are_summed_but_what_they_share_is_counted_once():
    log = CacheLog()
    log.add("here:1", tiers(90, 10, 4, evicted=6))
    log.add("here:2", tiers(50, 5, 3, evicted=2))
    mapped, disk = (by_key(log.records())["here", tier] for tier in ("mapped", "disk"))
    assert (mapped.hits, mapped.misses, mapped.resident, mapped.bytes) == (140, 15, 7, 700)
    assert mapped.evictions == {"count": 8}
    assert (disk.hits, disk.resident, disk.bytes) == (15, 7, 1000)


def test_only_what_changed_is_a_new_row():
    log = CacheLog()
    log.add("here:1", tiers(9, 1, 1))
    log.add("there:1", tiers(1, 9, 2))
    assert len(log.rows()) == 4
    assert log.rows() == []
    log.add("there:1", tiers(2, 9, 2))
    (row,) = log.rows()
    assert (row.node, row.tier, row.hits) == ("there", "mapped", 2)
