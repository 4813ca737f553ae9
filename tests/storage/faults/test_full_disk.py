"""A league trains until its disk is full: it stops with one message, and goes on when there is room."""

import re
import resource
import subprocess
import sys

import pytest

import storage
from storage.layout import LEDGER
from storage.ledger.ledger import last_frame
from storage.reader import open_reader
from storage.snapshots.blobs import verify
from tests.storage.faults.counts import LONG, tried

ENV_STEPS = tried(6000, 20_000)
CONFIG = """
name: tiny
seed: 3
env: {{id: rock_paper_scissors}}
policy: {{hidden: [{hidden}]}}
league: {{freeze_every: 1000, players: {{main: 1, main_exploiter: 1}}}}
rollout: {{slots: 64, matches_per_request: 128}}
learner: {{batch_steps: 256}}
runners: 0
stop: {{env_steps: {env_steps}}}
"""
ROWS = """
SELECT '{table}' AS name, count(*), count(DISTINCT {key}), bit_xor(hash(row))
FROM {table} row WHERE seq <= {seq}
"""
KEYS = {"matches": "seq", "seats": "(seq, seat)", "decisions": "seq"}


def train(folder, *, hidden=16, env_steps=ENV_STEPS, limit=None, resume=False):
    """A training process that can write no file beyond `limit` bytes, as if the disk were full there."""
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(hidden=hidden, env_steps=env_steps))
    command = [sys.executable, "-m", "league.commands.app", "train", config, "--run", folder / "run"]
    return subprocess.run(
        [*command, *(["--resume"] if resume else [])],
        preexec_fn=None
        if limit is None
        else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def the_message(done):
    """The only line of an unsuccessful end."""
    assert done.returncode == 1, done.stderr
    (message,) = done.stderr.splitlines()
    assert message.startswith("league: ")
    assert re.search(r"File too large|No space left", message), message
    return message


def facts(run, seq):
    """Counts and hashes of the rows up to `seq`."""
    parts = (ROWS.format(table=table, key=key, seq=seq) for table, key in KEYS.items())
    return storage.query(run, f"{'UNION ALL'.join(parts)} ORDER BY name").to_pylist()


@pytest.mark.long
@pytest.mark.parametrize("limit", [150_000, *([40_000, 600_000] if LONG else [])])
def test_training_stops_at_a_full_disk_with_one_message_and_resumes_with_all_facts(tmp_path, limit):
    message = the_message(train(tmp_path, limit=limit))
    (path, frame) = re.search(r"league: (\S+): writing frame (\d+) failed", message).groups()
    run = tmp_path / "run"
    assert path == str(run / LEDGER / "00000001.journal")
    assert last_frame(run / LEDGER)[0] == int(frame) - 1, "all frames before the one that failed are there"

    ((seq,),) = [row.values() for row in storage.query(run, "SELECT max(seq) FROM seats").to_pylist()]
    assert seq > 100
    before, snapshots = facts(run, seq), open_reader(run).snapshots()

    done = train(tmp_path, resume=True)
    assert done.returncode == 0, done.stderr
    assert facts(run, seq) == before
    reader = open_reader(run)
    assert reader.snapshots()[: len(snapshots)] == snapshots
    for snapshot in reader.snapshots():
        verify(reader.blob_path(snapshot))
    totals = storage.query(run, "SELECT sum(env_steps) AS steps, max(seq) AS last FROM matches").to_pylist()[
        0
    ]
    assert totals["steps"] >= ENV_STEPS
    assert totals["last"] > seq


@pytest.mark.long
def test_weights_that_find_no_room_are_no_snapshot_and_the_run_can_be_gone_on_with(tmp_path):
    message = the_message(train(tmp_path, hidden="200, 200", limit=100_000))
    run = tmp_path / "run"
    assert re.match(f"league: {run}/(objects|learners)/", message)
    assert open_reader(run).snapshots() == []
    assert not [path for path in (run / "objects").rglob("*") if path.is_file()], "what was begun is gone"

    done = train(tmp_path, hidden="200, 200", resume=True)
    assert done.returncode == 0, done.stderr
    snapshots = open_reader(run).snapshots()
    assert {snapshot.player for snapshot in snapshots} == {"main-0", "main_exploiter-0"}
