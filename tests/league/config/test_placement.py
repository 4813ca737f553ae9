"""What is printed before anything starts is what learners and runners then ask Ray for."""

import json
import re
import sys

import pytest

from league.commands import app as cli
from league.config.card_memory import of_runner, on_cards, sizes_of
from league.config.file import ConfigError
from league.config.loading import load
from league.config.placement import nodes_of, place
from storage.errors import Mistake

CONFIG = {"env": {"id": "tic_tac_toe"}, "league": {"players": {"main": 3}}, "runners": 4}


def settings(**resources):
    return load({**CONFIG, "resources": resources})


def test_a_player_larger_than_a_node_goes_over_nodes_and_all_of_it_is_asked_for():
    placed = place(load({**CONFIG, "league": {"players": {"main": 1}}, "resources": {"gpus": 8}}), [4, 4])
    assert placed.bundles == [[{"CPU": 4, "GPU": 4}, {"CPU": 4, "GPU": 4}]]
    assert placed.total() == {"CPU": 12, "GPU": 8}
    assert "main-0 on 8 GPUs of 2 nodes (4 + 4), data-parallel in 8 processes" in placed.lines()[0]
    assert placed.lines()[-1] == "4 runners of 1 CPU each; asked of Ray in all: 8 GPUs and 12 CPUs"


def test_runners_and_aggregators_are_part_of_what_is_asked_for():
    config = {**CONFIG, "learners": {"aggregators": 2}, "rollout": {"device": "cuda"}}
    placed = place(
        load(config, ["resources.gpus=3", "resources.gpus_per_runner=0.5", "evaluation.runners=2"])
    )
    assert placed.total() == {"CPU": 3 + 2 + 6, "GPU": 3 + 6 * 0.5}
    assert placed.lines()[-1].startswith("6 runners of 0.5 GPUs and 1 CPU each")


def test_runners_on_the_learners_cards_ask_for_cpus_there_and_for_no_further_card():
    given = {"share_cards": True, "gpus": 5, "gpus_per_runner": 0.2, "cpus_per_runner": 0.5}
    placed = place(load({**CONFIG, "rollout": {"device": "cuda"}, "runners": 6, "resources": given}), [4, 1])
    assert [shard.num_gpus for shard in placed.shards] == [2, 2, 1]
    cpus = [bundle["CPU"] for bundles in placed.bundles for bundle in bundles]
    assert cpus == [2 + 3 * 0.5, 2 + 2 * 0.5, 1 + 0.5]  # card by card, and the sixth on the first one
    assert placed.total() == {"CPU": 8, "GPU": 5}
    assert "on the learners' cards" in placed.lines()[-1]


def test_more_gpus_than_the_nodes_have_are_refused_with_the_plan_that_would_fit():
    with pytest.raises(
        Mistake, match=r"the nodes have 3 \+ 3 = 6, .* with resources.gpus 6: shard 0: main-0 on"
    ):
        place(settings(gpus=8), [3, 3])
    with pytest.raises(Mistake, match=r"with resources.gpus 0: shard 0: main-0, main-1, main-2 on the CPU"):
        place(settings(gpus=8), [0])


def test_nodes_that_a_cluster_has_yet_to_start_are_planned_by_their_size():
    growing = {"address": "head:6379", "wait_seconds": 600, "gpus": 6}
    assert [shard.num_gpus for shard in place(settings(**growing)).shards] == [2, 2, 2]
    placed = place(settings(**growing, gpus_per_node=1))
    assert [shard.nodes for shard in placed.shards] == [(1, 1), (1, 1), (1, 1)]


def test_nodes_are_a_number_or_the_gpus_of_each():
    assert nodes_of(5, "2") == [3, 2]
    assert nodes_of(0, "4+2+0") == [4, 2, 0]
    for wrong in ("0", "x", "4+", "-1", "4+-2"):
        with pytest.raises(Mistake, match="expected a number of nodes"):
            nodes_of(4, wrong)


@pytest.mark.slow
def test_the_plan_is_printed_without_ray_and_a_mistake_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    config = tmp_path / "league.yaml"
    config.write_text("env: {id: tic_tac_toe}\nleague: {players: {main: 3}}\nrunners: 4\n")

    def plan(*arguments):
        """Exit code, and the lines that were printed and complained."""
        monkeypatch.setattr(sys, "argv", ["league", "config", "plan", str(config), *arguments])
        try:
            code = cli._run()
        except SystemExit as ended:
            code = ended.code
        found = capsys.readouterr()
        return code or 0, found.out.splitlines(), found.err.splitlines()

    code, printed, _ = plan("--gpus", "4", "--nodes", "2")
    assert (code, len(printed)) == (0, 7)
    assert re.fullmatch(
        r"a process of shards 1, 2: about 0\.\d GB of its GPU \(CUDA 0\.5, weights 0\.0, a batch 0\.\d\)",
        printed[-2],
    )
    assert printed[-1].startswith("a runner: about ")
    assert re.search(
        r" MB of memory, beside what is recorded \(snapshots \d+, side by side \d+, ", printed[-1]
    )
    assert printed[0].startswith("shard 0: main-0 on 2 GPUs, data-parallel in 2 processes")
    code, printed, _ = plan("--gpus", "4", "--nodes", "2", "--json")
    assert json.loads(printed[0])["total"] == {"CPU": 8, "GPU": 4}
    assert set(json.loads(printed[0])["cpu_bytes"]) == {"a runner"}
    code, printed, complaints = plan("--set", "learners.shards=5")
    assert (code, printed, len(complaints)) == (2, [], 1)
    assert "learners.shards is 5, but the league begins with 3 players" in complaints[0]


def test_memory_of_gpus_is_planned_by_process():
    given = {
        **CONFIG,
        "rollout": {"device": "cuda", "policy_map_capacity": 256},
        "policy": {"hidden": [512] * 4},
    }
    settings = load(given, ["resources.gpus=2", "resources.gpus_per_runner=0.25"])
    needs = on_cards(settings, place(settings))
    assert list(needs) == ["a process of shard 0", "a process of shard 1", "a runner"]
    two, one, runner = needs.values()
    assert two["weights"] == 2 * one["weights"]  # of players that share a process
    assert two["a batch"] == one["a batch"]
    each = sizes_of(settings.policy_specs()["main-0"]).weights
    assert runner["snapshots"] == runner["side by side"] == 256 * each  # less than STACKED_BYTES
    alone = ["resources.gpus=2", "runners=0"]
    limited = load(given, [*alone, f"rollout.policy_map_bytes={10 * each}"])
    parts = on_cards(limited, place(limited))["play"]
    assert (parts["snapshots"], parts["side by side"]) == (10 * each, 10 * each)
    with pytest.raises(
        ConfigError, match=rf"policy_map_bytes: found {each - 1:,}, but a snapshot of main-0 has"
    ):
        load(given, [*alone, f"rollout.policy_map_bytes={each - 1}"])
    in_parts = load(given, ["resources.gpus=3", "resources.gpus_per_runner=0.5", "learner.micro_steps=1024"])
    assert on_cards(in_parts, place(in_parts))["a process of shards 0, 1, 2"]["a batch"] * 4 == one["a batch"]


@pytest.mark.parametrize(
    ("hidden", "precision", "capacity", "copies"),
    [
        ([64, 64], "float32", 64, 64),
        ([64, 64], "float32", 15, 0),  # so few decide one after the other
        ([128, 256], "float32", 64, 0),  # and so do those that are larger than FEW_BYTES
        ([128, 256], "bfloat16", 64, 64),
        ([128, 256], "bfloat16", 10_000, None),  # as many as STACKED_BYTES hold
    ],
)
def test_copies_side_by_side_are_counted_where_policies_play_on_the_cpu(hidden, precision, capacity, copies):
    given = {"precision": precision, "policy_map_capacity": capacity}
    planned = load({**CONFIG, "rollout": given, "policy": {"hidden": hidden}})
    parts, each = of_runner(planned), sizes_of(planned.policy_specs()["main-0"]).weights
    assert parts["snapshots"] == capacity * each
    assert parts["side by side"] == (2**27 if copies is None else copies * each)
