"""Nodes that join and leave while a league trains, on real raylets of this machine."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

import analysis
from league.cluster.connection import TOKEN_MODE
from league.commands.app import INTERRUPTED
from tests.league.cluster.test_clusters import cluster, no_token, raylet  # noqa: F401  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.variant]

PLAYS_SECONDS = 20.0  # after a node was added, on a machine that has nothing else to do
OPEN = {TOKEN_MODE: "disabled"}
CONFIG = """
env: {id: tic_tac_toe}
league: {preset: pfsp, players: {main: 2}, roles: {main: {freeze: {max_steps: 20000}}}}
stop: {env_steps: 100000000}
log: {seconds: 1}
rollout: {slots: 64, matches_per_request: 64}
"""


def busy():
    """How much slower the machine is than one with two cores that has nothing else to do: at least 1."""
    return max(1.0, os.getloadavg()[0] / 2)


class Training:
    """A process of `league train`, with the lines that it prints and when; `first` is done before."""

    def __init__(self, folder, address, *options, first="pass"):
        config = folder / "league.yaml"
        config.write_text(CONFIG)
        self.run = folder / "run"
        program = f"{first}; from league.commands.app import main; main()"
        command = [sys.executable, "-c", program, "train", str(config), "--run", str(self.run)]
        for option in (f"resources.address={address}", *options):
            command += [option] if option.startswith("--resume") else ["--set", option]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | OPEN
        )
        self.lines = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with self.process.stdout:
            for line in self.process.stdout:
                self.lines.append((time.monotonic(), line.strip()))

    def wait(self, part, since=0.0, seconds=90.0):
        """When a line with `part` came after `since`; a busy machine gets more `seconds`."""
        give_up = time.monotonic() + seconds * busy()
        while True:
            for at, line in list(self.lines):
                if at >= since and part in line:
                    return at
            assert time.monotonic() < give_up, "\n".join([part, *(line for _, line in self.lines)])
            assert self.process.poll() is None, "\n".join(line for _, line in self.lines)
            time.sleep(0.1)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def stop(self):
        self.process.send_signal(2)
        try:
            assert self.process.wait(90 * busy()) == INTERRUPTED, "\n".join(line for _, line in self.lines)
        finally:
            self.end()
        return analysis.open_run(self.run)


def drain(address, node_id):
    code = (
        "import sys\nfrom ray._raylet import GcsClient\nfrom ray.core.generated import autoscaler_pb2 as pb\n"
        "reason = pb.DrainNodeReason.Value('DRAIN_NODE_REASON_PREEMPTION')\n"
        "print(GcsClient(address=sys.argv[1]).drain_node(sys.argv[2], reason, 'spot', 2**62))"
    )
    done = subprocess.run([sys.executable, "-c", code, address, node_id], capture_output=True, text=True)
    assert "True" in done.stdout, done.stderr


def nodes(address):
    """The living nodes that are not the head, in the order in which they joined."""
    code = (
        "import json, sys, logging, ray\n"
        "ray.init(sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)\n"
        "others = [n for n in ray.nodes() if n['Alive'] and 'node:__internal_head__' not in n['Resources']]\n"
        "print(json.dumps([n['NodeID'] for n in others]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, address], capture_output=True, text=True, env=os.environ | OPEN
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_node_that_joins_plays_soon_and_one_that_is_drained_loses_no_request(tmp_path):
    with cluster(**OPEN) as address:
        training = Training(tmp_path, address, "runners={min: 2, max: 4}")
        try:
            training.wait("3 of 4 play")  # and one learns: the head has four CPUs
            joined = time.monotonic()
            with raylet(f"--address={address}", **OPEN):
                plays = training.wait("4 of 4 play", joined) - joined
                assert plays < PLAYS_SECONDS * busy(), plays
                time.sleep(5.0)
                (node_id,) = nodes(address)
                drained = time.monotonic()
                drain(address, node_id)
                noticed = training.wait("is about to leave", drained) - drained
                while nodes(address):  # it ends itself once nothing runs there
                    assert time.monotonic() < drained + 120 * busy(), training.lines
                left = time.monotonic() - drained
                time.sleep(3.0)
            print(
                f"joined: plays after {plays:.1f} s; drained: seen in {noticed:.1f} s, left in {left:.1f} s"
            )
            history = training.stop()
        finally:
            training.end()
        print(*(line for _, line in training.lines), sep="\n")
    assert history.sql("SELECT count(*) AS n FROM incidents")["n"][0] == 0
    ids = history.sql("SELECT count(*) AS n, count(DISTINCT match_id) AS d FROM matches")
    assert ids["n"][0] == ids["d"][0] > 0
