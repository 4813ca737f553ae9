"""The plan of shards: every player placed, no GPU idle while players share one, none asked for twice."""

import itertools

import numpy as np
import pytest

from league.learning.groups.shards import (
    Shard,
    describe,
    num_cpus,
    plan_shards,
    shard_of,
    spread,
    with_player,
    without_player,
)

NAMED = [(4, 10), (8, 3), (8, 2), (2, 5), (0, 5), (4, 9)]
SMALL = list(itertools.product(range(10), range(1, 21)))


def check(gpus, players):
    """Everything that must hold of a plan."""
    names = [f"p{i}" for i in range(players)]
    shards = plan_shards(gpus, names)
    assert sorted(name for shard in shards for name in shard.players) == sorted(names)
    assert len(shards) == max(1, min(gpus, players))
    sizes = [len(shard.players) for shard in shards]
    cards = [shard.num_gpus for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    assert max(cards) - min(cards) <= 1
    assert sum(cards) == gpus
    for shard in shards:
        assert shard.gpus_per_player * len(shard.players) <= shard.num_gpus + 1e-9
        assert shard.gpus_per_process * shard.processes <= shard.num_gpus + 1e-9
        assert shard.gpus_per_player < 1 or shard.gpus_per_player == int(shard.gpus_per_player)
        assert shard.bundle() == {"CPU": shard.processes} | ({"GPU": shard.num_gpus} if gpus else {})
    if any(0 < shard.num_gpus < len(shard.players) for shard in shards):  # players share a GPU: none is idle
        for shard in shards:
            assert min(shard.num_gpus, len(shard.players)) > 0
            assert shard.gpus_per_player * len(shard.players) == pytest.approx(shard.num_gpus)
            assert shard.processes == 1
    if gpus >= players:  # every GPU has a process of the one player of its shard
        assert [shard.processes for shard in shards] == cards
    for shard, sentence in zip(shards, describe(shards), strict=True):
        assert ", ".join(shard.players) in sentence


@pytest.mark.parametrize(("gpus", "players"), NAMED)
def test_the_plans_that_are_asked_for_most_are_even_complete_and_within_their_gpus(gpus, players):
    check(gpus, players)


def test_every_small_plan_is_even_complete_and_within_its_gpus():
    for gpus, players in SMALL:
        check(gpus, players)


@pytest.mark.long
def test_a_thousand_random_plans_are_even_complete_and_within_their_gpus():
    rng = np.random.default_rng(0)
    for _ in range(1_000):
        check(int(rng.integers(0, 257)), int(rng.integers(1, 201)))


def test_shared_gpus_are_divided_and_whole_ones_floored():
    assert [shard.gpus_per_player for shard in plan_shards(2, list("abcde"))] == [1 / 3, 1 / 2]
    assert [shard.gpus_per_player for shard in plan_shards(8, list("abc"))] == [3, 3, 2]
    assert Shard(("a", "b"), 3).gpus_per_player == 1


def test_nine_players_leave_no_gpu_of_four_idle_and_ten_ask_for_no_more_than_there_is():
    assert [len(shard.players) for shard in plan_shards(4, list("abcdefghi"))] == [3, 2, 2, 2]
    assert [len(shard.players) for shard in plan_shards(4, list("abcdefghij"))] == [3, 3, 2, 2]
    assert [shard.num_gpus for shard in plan_shards(4, list("abcdefghij"))] == [1, 1, 1, 1]


def test_a_player_with_several_gpus_has_a_process_on_each():
    shards = plan_shards(8, list("abc"))
    assert [(shard.num_gpus, shard.processes, shard.gpus_per_process) for shard in shards] == [
        (3, 3, 1),
        (3, 3, 1),
        (2, 2, 1),
    ]
    assert shards[2].bundle(aggregators=1) == {"CPU": 3, "GPU": 2}


def test_processes_can_be_asked_for_without_gpus_only():
    assert plan_shards(0, ["a"], processes=3) == [Shard(("a",), 0, 3)]
    assert plan_shards(1, ["a", "b"], processes=3) == [Shard(("a", "b"), 1, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, []), "expected none or more and one or more"),
        ((-1, ["a"]), "-1 GPUs"),
        ((0, ["a"], 0), "0 processes, expected one or more"),
        ((0, ["a", "a"]), "expected each name once"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        plan_shards(*arguments)


def test_a_new_player_comes_to_the_shard_of_the_fewest():
    plan = plan_shards(2, list("abc"))
    grown, chosen = with_player(plan, "d")
    assert (chosen, grown[1].players) == (1, ("b", "d"))
    assert shard_of(grown, "d") == 1
    with pytest.raises(ValueError, match="'d' trains already"):
        with_player(grown, "d")


def test_a_shard_that_its_last_player_left_stays_and_takes_the_next_one():
    plan = without_player(plan_shards(2, ["a", "b"]), "a")
    assert plan[0] == Shard((), 1)
    assert (plan[0].gpus_per_player, plan[0].bundle()) == (1, {"CPU": 1, "GPU": 1})
    assert with_player(plan, "c")[0][0].players == ("c",)
    with pytest.raises(KeyError, match="player 'a' does not train"):
        without_player(plan, "a")


def test_aggregators_are_spread_evenly_over_the_shards():
    plan = plan_shards(3, list("abc"))
    assert spread(5, plan) == [2, 2, 1]
    assert spread(1, plan) == [1, 0, 0]
    assert num_cpus(plan, aggregators=5) == sum(
        shard.bundle(n)["CPU"] for shard, n in zip(plan, spread(5, plan), strict=True)
    )


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (Shard(("a", "b"), 0), "a, b on the CPU in one process, as there are no GPUs"),
        (
            Shard(("a",), 0, 2),
            "a on the CPU data-parallel in 2 processes of one CPU each, as there are no GPUs",
        ),
        (
            Shard(("a", "b", "c"), 1),
            "a, b, c share 1 GPU, 0.333 each, as there are more players than GPUs",
        ),
        (Shard(("a",), 1), "a alone on 1 GPU, as there are enough for every player"),
        (
            Shard(("a",), 3, 3),
            "a on 3 GPUs, data-parallel in 3 processes, as there are more GPUs than players",
        ),
        (Shard((), 1), "no player yet, 1 GPU kept for the next player"),
    ],
)
def test_the_plan_says_who_trains_where_and_why(shard, sentence):
    assert describe([shard]) == [f"shard 0: {sentence}"]
