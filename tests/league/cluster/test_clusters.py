"""Real clusters on this machine: joined, refused in one line, and with nodes that do not see the run."""

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time

import pytest

import analysis
from league.cluster.connection import TOKEN, TOKEN_MODE, TOKEN_PATH, check_cluster
from storage.errors import Mistake

pytestmark = [pytest.mark.long, pytest.mark.alone]
SECONDS = 15.0  # for a sentence; on a busy machine the import of Ray comes on top
STORE = str(80 * 2**20)
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def raylet(*arguments, prefix=(), **environment):
    """A process of `ray start --block`, which ends with the block."""
    ray = os.path.join(os.path.dirname(sys.executable), "ray")
    command = [*prefix, ray, "start", *arguments, "--block", "--num-cpus=4", f"--object-store-memory={STORE}"]
    process = subprocess.Popen(
        command, env=os.environ | QUIET | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def cluster(**environment):
    """The address of a head, once it accepts connections."""
    port = free_port()
    with raylet("--head", f"--port={port}", "--include-dashboard=false", **environment):
        give_up = time.monotonic() + 60
        while True:
            assert time.monotonic() < give_up
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            time.sleep(0.1)
        time.sleep(5.0)  # for the head's own raylet
        yield f"127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def no_token(monkeypatch, tmp_path):
    for name in (TOKEN_MODE, TOKEN, TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


def refused(address, match, modules=("league",)):
    began = time.monotonic()
    with pytest.raises(Mistake, match=match):
        check_cluster(address, modules)
    assert time.monotonic() - began < SECONDS


@pytest.mark.variant
def test_a_cluster_with_a_token_is_joined_with_it_alone(monkeypatch):
    secret = secrets.token_hex(32)
    with cluster(**{TOKEN_MODE: "token", TOKEN: secret}) as address:
        refused(address, "the cluster requires a token, and there is none here")
        monkeypatch.setenv(TOKEN, secrets.token_hex(32))
        refused(address, "the cluster does not accept the token from RAY_AUTH_TOKEN")
        monkeypatch.setenv(TOKEN, secret)
        check_cluster(address, ["league"])


def test_a_module_that_a_node_lacks_is_one_line():
    with cluster(**{TOKEN_MODE: "disabled"}) as address:
        check_cluster(address, ["league"])
        refused(
            address,
            f"node {socket.gethostname()} lacks the module no_such_module_here",
            ["no_such_module_here"],
        )


def test_something_that_is_no_cluster_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as server:
        refused(
            f"127.0.0.1:{server.getsockname()[1]}",
            "no Ray cluster answers|Ray could not join|machine is no node",
        )


def test_the_command_says_it_in_one_line_and_writes_nothing(tmp_path, league_here):
    config = tmp_path / "league.yaml"
    config.write_text(
        f"env: {{id: tic_tac_toe}}\nrunners: 1\nresources: {{address: '127.0.0.1:{free_port()}'}}\n"
    )
    done = league_here("train", config, "--run", tmp_path / "run")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "nothing can be reached there" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.variant  # CI has it with deaths: faults/test_killed_clusters.py
def test_nodes_that_do_not_see_the_run_play_its_snapshots_from_their_own_caches(tmp_path):
    """Two raylets in mount namespaces of their own see an empty folder where the run and the caches are."""
    shared = tmp_path / "shared"
    shared.mkdir()
    blind = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {shared} && exec "$@"', "sh"]
    if subprocess.run([*blind, "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces need root")
    config = tmp_path / "league.yaml"
    config.write_text(
        "env: {id: tic_tac_toe}\nrunners: 9\nstop: {minutes: 0.7}\nlog: {seconds: 2}\n"
        "league: {preset: pfsp, players: {main: 2}, roles: {main: {freeze: {max_steps: 20000}}}}\n"
        f"storage: {{cache_folder: '{shared}/cache'}}\n"
        "rollout: {slots: 64, matches_per_request: 64}\n"
    )
    disabled = {TOKEN_MODE: "disabled"}
    with cluster(**disabled) as address, contextlib.ExitStack() as nodes:
        for _ in range(2):
            nodes.enter_context(raylet(f"--address={address}", prefix=blind, **disabled))
        time.sleep(8.0)
        command = [sys.executable, "-m", "league", "train", str(config), "--run", str(shared / "run")]
        command += ["--set", f"resources.address={address}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=os.environ | disabled)
    assert done.returncode == 0, done.stderr[-2000:]
    history = analysis.open_run(shared / "run")
    snapshots = history.sql("SELECT count(*) AS n FROM snapshots")["n"][0]
    (fetched,) = history.sql("SELECT coalesce(max(hits), 0) AS n FROM caches WHERE tier = 'remote'")["n"]
    assert snapshots > 3
    assert fetched > 0, "no runner was on a node that does not see the run"
    assert fetched <= 2 * snapshots, "each of the two nodes fetches a snapshot once"
