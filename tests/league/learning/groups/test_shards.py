"""The plan of shards: every player placed, no GPU idle while players share one, none asked for twice."""

import itertools
from functools import cache

import numpy as np
import pytest

from league.cluster.placement import check_placement
from league.learning.groups.shards import (
    Shard,
    bundles_of,
    describe,
    evenly,
    move_due,
    moved,
    num_cpus,
    plan_shards,
    shard_of,
    with_player,
    without_player,
)

PLANS = [*itertools.product(range(10), range(1, 21)), (64, 65), (256, 200), (255, 7), (33, 199)]


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
        assert shard.processes == max(1, shard.num_gpus)  # each asks for a card of its own
        assert shard.bundles() == [{"CPU": shard.processes} | ({"GPU": shard.num_gpus} if gpus else {})]
    if any(0 < shard.num_gpus < len(shard.players) for shard in shards):  # players share a GPU: none is idle
        for shard in shards:
            assert min(shard.num_gpus, len(shard.players)) > 0
            assert shard.processes == 1
    if gpus >= players:  # every GPU has a process of the one player of its shard
        assert [shard.processes for shard in shards] == cards
    for shard, sentence in zip(shards, describe(shards), strict=True):
        assert ", ".join(shard.players) in sentence


def test_every_plan_is_even_complete_and_within_its_gpus():
    for gpus, players in PLANS:
        check(gpus, players)


@cache
def fits(bundles, nodes, gpus):
    """What is asked of Ray is a CPU for each GPU, no more than there is, and fits on the nodes."""
    assert all(cpus == cards for cpus, cards in bundles)
    assert sum(cards for _, cards in bundles) == gpus
    check_placement(
        [{"CPU": cpus, "GPU": cards} for cpus, cards in bundles],
        [{"CPU": room, "GPU": room} for room in nodes],
        num_runners=0,
    )


def check_on_nodes(gpus, players, nodes):
    """Everything that must hold of a plan that knows the GPUs of each node."""
    names = [f"p{i}" for i in range(players)]
    shards = plan_shards(gpus, names, nodes=nodes)
    assert sorted(name for shard in shards for name in shard.players) == sorted(names)
    assert len(shards) == max(1, min(gpus, players))
    groups = [len(shard.players) for shard in shards]
    assert max(groups) - min(groups) <= 1
    assert sum(shard.num_gpus for shard in shards) == gpus  # none is idle, none is counted twice
    assert all(shard.processes == shard.num_gpus for shard in shards)
    bundles = [bundle for shard in shards for bundle in shard.bundles()]
    assert num_cpus(shards) == gpus
    fits(tuple((bundle["CPU"], bundle["GPU"]) for bundle in bundles), tuple(nodes), gpus)
    over = [shard for shard in shards if shard.nodes]
    assert all(len(shard.bundles_of_processes()) == shard.processes for shard in over)
    assert not over or len(shards) < sum(room > 0 for room in nodes)
    cards = [shard.num_gpus for shard in shards]
    if over:
        assert max(cards) - min(cards) <= max(nodes)
    else:  # one shard less on its node would be larger still than the largest
        assert max(cards) - min(cards) <= max(1, max(nodes) - 1)
    return shards


def test_every_plan_of_up_to_16_gpus_40_players_8_nodes_is_whole_even_and_fits():
    for gpus, players, nodes in itertools.product(range(1, 17), range(1, 41), range(1, 9)):
        if nodes > gpus:
            continue  # as many nodes as GPUs have one each: further ones are empty
        check_on_nodes(gpus, players, [gpus // nodes + (i < gpus % nodes) for i in range(nodes)])
    for players in range(1, 41):
        assert plan_shards(0, [str(i) for i in range(players)], nodes=[0, 0]) == [
            Shard(tuple(str(i) for i in range(players)), 0)
        ]


@pytest.mark.long
def test_two_thousand_plans_on_uneven_nodes_with_gpus_to_spare_fit_them():
    rng = np.random.default_rng(0)
    for _ in range(2_000):
        nodes = rng.integers(0, 9, rng.integers(1, 9)).tolist()
        if sum(nodes):
            check_on_nodes(int(rng.integers(1, sum(nodes) + 1)), int(rng.integers(1, 41)), nodes)


@pytest.mark.parametrize(
    ("nodes", "players", "expected"),
    [
        ([4, 4], 3, [(4, ()), (2, ()), (2, ())]),
        ([4, 4], 1, [(8, (4, 4))]),
        ([2, 2, 2, 2], 3, [(4, (2, 2)), (2, ()), (2, ())]),
        ([1, 1, 1, 1], 3, [(2, (1, 1)), (1, ()), (1, ())]),
        ([8, 2], 3, [(4, ()), (4, ()), (2, ())]),
        ([3, 3, 3], 3, [(3, ()), (3, ()), (3, ())]),
        ([5, 5], 2, [(5, ()), (5, ())]),
    ],
)
def test_a_node_is_divided_among_whole_shards_and_only_larger_shards_go_over_several(
    nodes, players, expected
):
    shards = plan_shards(sum(nodes), [f"p{i}" for i in range(players)], nodes=nodes)
    assert [(shard.num_gpus, shard.nodes) for shard in shards] == expected


def test_no_more_gpus_are_planned_than_asked_for_and_even_shards_kept_where_they_fit():
    assert [shard.num_gpus for shard in plan_shards(4, list("ab"), nodes=[3, 3])] == [2, 2]
    assert [shard.num_gpus for shard in plan_shards(4, list("ab"), nodes=[2, 8, 1])] == [2, 2]
    with pytest.raises(ValueError, match="9 GPUs, expected no more than the 8 of the nodes"):
        plan_shards(9, ["a"], nodes=[4, 4])


def test_the_number_of_shards_can_be_asked_for_with_and_without_gpus():
    twelve = [f"p{i}" for i in range(12)]
    assert [len(shard.players) for shard in plan_shards(0, twelve, shards=4)] == [3, 3, 3, 3]
    assert [len(shard.players) for shard in plan_shards(0, twelve, shards=5)] == [3, 3, 2, 2, 2]
    assert {shard.processes for shard in plan_shards(0, twelve, 2, shards=4)} == {2}
    (one,) = plan_shards(2, list("abcde"), shards=1)
    assert (one.processes, one.bundles()) == (2, [{"CPU": 2, "GPU": 2}])


@pytest.mark.parametrize(("gpus", "players", "shards"), [(0, 3, 4), (2, 5, 3), (4, 3, 4), (0, 3, 0)])
def test_more_shards_than_players_or_gpus_are_refused(gpus, players, shards):
    with pytest.raises(ValueError, match=f"{shards} shards for {players} players on {gpus} GPUs, expected 1"):
        plan_shards(gpus, [f"p{i}" for i in range(players)], shards=shards)


def test_after_removals_no_shard_is_idle_beside_one_that_players_share():
    rng = np.random.default_rng(0)
    for gpus, players in itertools.product((2, 4, 5, 8), (6, 9)):
        plan = plan_shards(gpus, [f"p{i}" for i in range(players)])
        for name in rng.permutation([f"p{i}" for i in range(players)]).tolist():
            plan = without_player(plan, name)
            while (move := move_due(plan)) is not None:
                assert shard_of(plan, move.player) == move.source
                plan = moved(plan, move)
                assert shard_of(plan, move.player) == move.target
            sizes = [len(shard.players) for shard in plan]
            assert max(sizes) - min(sizes) <= 1
            assert not (0 in sizes and max(sizes) > 1)
            assert sum(shard.num_gpus for shard in plan) == gpus


def test_the_newest_player_of_the_fullest_shard_moves_and_takes_the_most_idle_gpus():
    plan = [Shard(("a", "b", "c"), 1, 1), Shard((), 1, 1), Shard((), 2, 2), Shard(("d",), 1, 1)]
    assert move_due(plan) == ("c", 0, 2)
    assert move_due(moved(plan, move_due(plan))) == ("b", 0, 1)
    assert with_player(plan, "e")[1] == 2


def test_a_player_with_several_gpus_has_a_process_on_each():
    shards = plan_shards(8, list("abc"))
    assert [(shard.num_gpus, shard.processes) for shard in shards] == [(3, 3), (3, 3), (2, 2)]
    assert shards[2].bundles(aggregators=1) == [{"CPU": 3, "GPU": 2}]


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
    assert plan[0].bundles() == [{"CPU": 1, "GPU": 1}]
    assert with_player(plan, "c")[0][0].players == ("c",)
    with pytest.raises(KeyError, match="player 'a' does not train"):
        without_player(plan, "a")


def test_aggregators_are_spread_evenly_over_the_shards():
    plan = plan_shards(3, list("abc"))
    assert evenly(5, 3) == [2, 2, 1]
    assert evenly(1, 3) == [1, 0, 0]
    assert num_cpus(plan, aggregators=5) == sum(
        bundle["CPU"] for bundles in bundles_of(plan, 5) for bundle in bundles
    )


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (Shard(("a", "b"), 0), "a, b on the CPU in one process, as there are no GPUs"),
        (
            Shard(("a",), 0, 2),
            "a on the CPU data-parallel in 2 processes of one CPU each, as there are no GPUs",
        ),
        (Shard(("a", "b", "c"), 1), "a, b, c share 1 GPU, 0.333 each, as there are more players than GPUs"),
        (Shard(("a",), 1), "a alone on 1 GPU, as there are enough for every player"),
        (
            Shard(("a",), 3, 3),
            "a on 3 GPUs, data-parallel in 3 processes, as there are more GPUs than players",
        ),
        (Shard((), 1), "no player yet, 1 GPU kept for the next player"),
        (Shard((), 0), "no player yet, a process kept for the next player"),
        (
            Shard(("a",), 8, 8, (4, 4)),
            "a on 8 GPUs of 2 nodes (4 + 4), data-parallel in 8 processes, as there are more GPUs than "
            "players",
        ),
        (
            Shard(("a", "b", "c"), 2, 2),
            "a, b, c one after another on 2 GPUs, data-parallel in 2 processes, as fewer shards than GPUs "
            "are asked for",
        ),
    ],
)
def test_the_plan_says_who_trains_where_and_why(shard, sentence):
    assert describe([shard]) == [f"shard 0: {sentence}"]
