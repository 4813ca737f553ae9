"""The plan of shards: every player placed, nobody over a shard's GPUs."""

import itertools

import pytest

from league.learning.shards import plan_shards


@pytest.mark.parametrize(("gpus", "players"), list(itertools.product(range(9), range(1, 13))))
def test_every_plan_is_even_complete_and_within_its_gpus(gpus, players):
    names = [f"p{i}" for i in range(players)]
    shards = plan_shards(gpus, names)
    assert sorted(name for shard in shards for name in shard.players) == sorted(names)
    assert len(shards) == max(1, min(gpus, players))
    sizes = [len(shard.players) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    assert sum(shard.num_gpus for shard in shards) == gpus
    for shard in shards:
        assert shard.gpus_per_player * len(shard.players) <= shard.num_gpus + 1e-9


def test_shared_gpus_are_divided_and_whole_ones_floored():
    assert [shard.gpus_per_player for shard in plan_shards(2, list("abcde"))] == [1 / 3, 1 / 2]
    assert [shard.gpus_per_player for shard in plan_shards(8, list("abc"))] == [3, 3, 2]


def test_a_plan_without_players_is_refused():
    with pytest.raises(ValueError, match="one or more"):
        plan_shards(1, [])
