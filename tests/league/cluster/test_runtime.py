"""What is asked of a machine is checked before anything starts."""

import contextlib
import subprocess
import sys
import types

import pytest
import torch
from pydantic import ValidationError

import league
from league.cluster.head import deaths_unprinted
from league.cluster.placement import check_placement
from league.cluster.reservation import reserve
from league.cluster.runtime import ResourceSettings, check_resources, ray_session
from storage.errors import Mistake

LACKING = torch.cuda.device_count() + 1


def test_more_gpus_than_there_are_is_refused_and_nothing_is_written(tmp_path):
    config = {"env": {"id": "tic_tac_toe"}, "resources": {"gpus": LACKING}}
    with pytest.raises(Mistake, match=f"resources.gpus is {LACKING}, but torch sees {LACKING - 1} here"):
        league.train(config, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_slices_of_a_card_are_counted_for_several_processes_and_refused_to_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1111,MIG-2222")
    check_resources(ResourceSettings(gpus=2), 1)
    with pytest.raises(Mistake, match=r"torch sees 1 here.* or set runners to 1 or more: a process uses one"):
        check_resources(ResourceSettings(gpus=2), 0)
    with pytest.raises(Mistake, match=r"torch sees 2 here.* or join a cluster"):
        check_resources(ResourceSettings(gpus=3), 1)


def test_runners_without_ray_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_resources(ResourceSettings(), 0)
    with pytest.raises(Mistake, match="runners is 2, but ray is not installed"):
        check_resources(ResourceSettings(), 2)


def test_a_cluster_that_only_the_environment_names_is_refused_by_word(
    monkeypatch, league_here, tiny_config, tmp_path
):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    run = tmp_path / "run"
    done = league_here("train", tiny_config, "--run", run, "--set", "runners=2")
    assert done.returncode == 2
    assert done.stderr == (
        "league: RAY_ADDRESS is 'head:6379', but resources.address is not set; give --set resources.address="
        "head:6379 to join that cluster, or unset RAY_ADDRESS to use this machine alone\n"
    )
    assert not run.exists()
    check_resources(ResourceSettings(), 0)  # no Ray, no cluster
    check_resources(ResourceSettings(address="head:6379"), 2)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    check_resources(ResourceSettings(), 2)


def _noted(asked):
    return lambda *arguments: asked.append(arguments) or {}


@pytest.fixture
def fake_ray(monkeypatch):
    """Stands in for Ray: `started` has the options of each start, and `error` is raised by it."""

    def init(**options):
        fake.started.append(options)
        if fake.error is not None:
            raise fake.error

    fake = types.SimpleNamespace(
        started=[], error=None, init=init, is_initialized=lambda: False, shutdown=lambda: None
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr("league.cluster.runtime.begun", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr("league.cluster.runtime.check_cluster", _noted(fake.started))
    return fake


def test_a_ray_that_cannot_start_here_is_one_line(fake_ray):
    fake_ray.error = RuntimeError("The raylet died.\n  Its log is in /tmp/ray/session\n")
    said = (
        "Ray could not start on this machine: RuntimeError: The raylet died. Its log is in /tmp/ray/session; "
    )
    with pytest.raises(Mistake, match=said), ray_session(ResourceSettings(), num_actors=1):
        pass


def test_a_cluster_is_looked_at_before_it_is_joined_with_code_of_the_users_own(fake_ray):
    env = {"working_dir": "."}
    settings = ResourceSettings(address="head:6379", runtime_env=env)
    with ray_session(settings, 1, modules=("league", "my_games")):
        pass
    asked, options = fake_ray.started
    assert asked == ("head:6379", ("league", "my_games"), env)
    assert (options["address"], options["runtime_env"]) == ("head:6379", env)


def test_ray_prints_no_paragraph_about_what_died(monkeypatch, capsys):
    """Incidents name it in one line; Ray printed a thousand characters beside each."""
    worker = types.SimpleNamespace(print_to_stdstream=lambda data, ignore_prefix: print(data))
    monkeypatch.setitem(sys.modules, "ray._private.worker", worker)
    printing = worker.print_to_stdstream
    with deaths_unprinted():
        worker.print_to_stdstream({"lines": ["A worker died or was killed"]}, ignore_prefix=False)
    assert capsys.readouterr().out == ""
    assert worker.print_to_stdstream is printing


def test_runners_on_gpus_count_among_those_that_this_machine_needs():
    quarter = ResourceSettings(gpus=LACKING, gpus_per_runner=0.3)
    assert [quarter.cards(n) - LACKING for n in (0, 1, 3, 4, 7)] == [0, 1, 1, 2, 3]  # three share a card
    assert ResourceSettings(gpus_per_runner=2).cards(3) == 6
    with pytest.raises(
        Mistake, match=rf"gpus_per_runner is 0\.3 for 4 runners, {LACKING + 2} in all, but torch sees"
    ):
        check_resources(quarter, 4)
    check_resources(quarter.model_copy(update={"address": "cluster:6379"}), 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus_per_runner": 1.5}, r"found 1\.5, expected a whole number, or less than 1"),
        ({"address": "head:6379", "gpus_per_node": 4}, "gpus_per_node: found 4 without wait_seconds"),
        ({"wait_seconds": 60}, "wait_seconds: found 60 without address"),
        ({"cpus_per_runner": 0}, "greater than 0"),
    ],
)
def test_resources_that_ray_could_not_give_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        ResourceSettings(**settings)


def test_runners_on_gpus_share_no_card_with_a_shard_and_none_across_cards():
    shard = [{"CPU": 1.0, "GPU": 1.0}]
    nodes = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 2.0, "GPU": 1.0}]
    runner = {"CPU": 1.0, "GPU": 0.4}  # two on a card, and no third that took a part of two cards
    check_placement(shard, nodes, 4, runner)  # the shard takes the smaller node, runners two cards
    with pytest.raises(Mistake, match=r"5 runners need 0\.4 GPUs and 1 CPU each; .* room for 4 beside"):
        check_placement(shard, nodes, 5, runner)
    check_placement(shard, nodes, 18, {"CPU": 0.5})
    with pytest.raises(Mistake, match=r"19 runners need 0\.5 CPUs each; .* room for 18"):
        check_placement(shard, nodes, 19, {"CPU": 0.5})


def test_a_bundle_moves_on_to_another_node_where_a_later_one_finds_no_room_otherwise():
    bundles = [{"CPU": n, "GPU": n} for n in (3.0, 2.0, 2.0, 2.0)]
    nodes = [{"CPU": 5.0, "GPU": 5.0}, {"CPU": 4.0, "GPU": 4.0}]
    assert check_placement(bundles, nodes, 0) == [0, 0, 1, 1]  # the fullest first would put 3 on 4


@pytest.mark.parametrize(
    ("placement", "nodes", "message"),
    [
        ("strict_pack", [2.0, 2.0], "strict_pack: all shards need 3 CPUs on one node, the largest of 2"),
        ("strict_spread", [9.0], "strict_spread: 2 bundles of shards need as many nodes, the cluster has 1"),
        ("strict_spread", [3.0, 0.5], "shard 0 needs 1 CPU on one node"),
        ("pack", [2.0, 2.0], [1, 0]),
        ("strict_pack", [1.0, 3.0], [1, 1]),
        ("strict_spread", [3.0, 1.0], [1, 0]),
    ],
)
def test_a_placement_that_the_nodes_do_not_allow_is_refused_by_name(placement, nodes, message):
    bundles, nodes = [{"CPU": 1.0}, {"CPU": 2.0}], [{"CPU": cpus} for cpus in nodes]
    if isinstance(message, list):
        assert check_placement(bundles, nodes, 0, placement=placement) == message
        return
    with pytest.raises(Mistake, match=message):
        check_placement(bundles, nodes, 0, placement=placement)


def test_bundles_that_fit_are_placed_where_they_leave_least():
    nodes = [{"CPU": 4.0, "GPU": 5.0, "memory": 1e9}, {"CPU": 4.0, "GPU": 3.0}, {"CPU": 2.0}]
    bundles = [{"CPU": 2.0, "GPU": 2.0}, {"CPU": 3.0, "GPU": 3.0}, {"CPU": 3.0, "GPU": 3.0}]
    check_placement([{"CPU": 1.0, "GPU": 2.0}, *bundles[1:]], nodes, num_runners=3)
    with pytest.raises(Mistake, match="shard 0 needs 2 GPUs and 2 CPUs on one node; the largest free node"):
        check_placement(bundles, nodes, num_runners=0)
    with pytest.raises(
        Mistake, match=r"shard 1 needs 2 GPUs and 2 CPUs on one node"
    ):  # by its shard's number
        check_placement([bundles[0]] * 3, [{"CPU": 4.0, "GPU": 4.0}], 0, shards=[0, 0, 1])


@pytest.mark.parametrize(
    ("bundles", "nodes", "runners", "message"),
    [
        (
            [{"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0, "GPU": 2.0}],
            [{"CPU": 8.0, "GPU": 1.0}, {"CPU": 8.0, "GPU": 1.0}],
            0,
            "shard 1 needs 2 GPUs and 1 CPU on one node; the largest free node of 2 has 1 GPU and 8 CPUs",
        ),
        (
            [{"CPU": 3.0}],
            [{"CPU": 1.0, "GPU": 4.0}, {"CPU": 2.0}],
            0,
            "shard 0 needs 3 CPUs on one node; the largest free node of 2 has 2 CPUs",
        ),
        ([{"CPU": 1.0}], [], 0, "the largest free node of 0 has no CPU and no GPU"),
        (
            [{"CPU": 1.0}, {"CPU": 1.0}],
            [{"CPU": 2.0}, {"CPU": 3.0}],
            4,
            "4 runners need 1 CPU each; the cluster has room for 3 beside the learners'",
        ),
    ],
)
def test_a_plan_that_no_node_can_hold_is_refused_with_what_is_missing(bundles, nodes, runners, message):
    with pytest.raises(Mistake, match=message):
        check_placement(bundles, nodes, runners)


@pytest.mark.long
@pytest.mark.alone
def test_a_session_has_room_for_every_actor_and_a_reservation_that_is_refused_leaves_nothing(monkeypatch):
    import ray
    from ray.util.placement_group import placement_group_table

    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # as if another cluster were running here
    monkeypatch.setattr("league.cluster.reservation.PLACEMENT_SECONDS", 4.0)
    with ray_session(ResourceSettings(), num_actors=100):  # whatever the cores
        cpus = ray.cluster_resources()["CPU"]
        assert cpus >= 100
        with pytest.raises(Mistake, match="shard 0 needs 1 GPU and 1 CPU on one node"):
            reserve([{"CPU": 1.0, "GPU": 1.0}], num_runners=0)
        with pytest.raises(Mistake, match="1000 runners need 1 CPU each"):
            reserve([{"CPU": 1.0}], num_runners=1000)
        assert placement_group_table() == {}
        reserve([{"CPU": cpus}], num_runners=0)
        with pytest.raises(Mistake, match="end what else runs there"):  # what others hold was waited for
            reserve([{"CPU": 1.0}], num_runners=0)
        states = [group["state"] for group in placement_group_table().values()]
        assert set(states) == {"CREATED", "REMOVED"}
        assert states.count("CREATED") == 1
    assert not ray.is_initialized()


@pytest.mark.long
def test_a_process_that_plays_may_open_as_many_files_as_the_system_allows():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit("
        "resource.RLIMIT_NOFILE)[1]))\n"
        "from league.cluster.runtime import prepare_process; prepare_process(1)\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE); print(soft == hard)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
