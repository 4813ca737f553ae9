"""Verification finds every damaged snapshot, says what is wrong with it, and goes on."""

import numpy as np
import pytest

from storage.archive import Archive, open_reader
from storage.records import MAIN
from storage.snapshots.manifests import read, seal
from storage.upkeep.verification import verify_snapshots
from tests.steps import flip_bit

SPEC = {"architecture": "mlp"}


@pytest.fixture
def reader(run, weights):
    """Of a run with main-0@0 to main-0@4, the last two with the same weights."""
    with Archive.open(run) as archive:
        for n in range(1, 5):
            tensors = weights | {"bias": np.full(4, min(n, 3), np.float32)}
            archive.add_snapshot("main-0", MAIN, n, 1, "main-0@0", tensors, SPEC, "mlp", "due")
    return open_reader(run)


def damage(reader, snapshot_id):
    path = reader.blob_path(reader.resolve(snapshot_id))
    flip_bit(path)
    return path


@pytest.mark.slow
def test_a_whole_run_has_no_problems_and_progress_is_told(reader):
    told = []
    assert verify_snapshots(reader, lambda *args: told.append(args)) == []
    assert told == [("verifying snapshots", n, 5) for n in range(1, 6)]


@pytest.mark.slow
def test_every_damaged_snapshot_is_named_not_only_the_first(reader):
    first = damage(reader, "main-0@1")
    shared = damage(reader, "main-0@3")
    reader.blob_path(reader.resolve("main-0@2")).unlink()
    problems = verify_snapshots(reader)
    assert [p.snapshot_id for p in problems] == ["main-0@1", "main-0@2", "main-0@3", "main-0@4"]
    assert [p.path for p in problems if p.snapshot_id != "main-0@2"] == [first, shared, shared]
    assert "its bytes hash to" in problems[0].message
    assert "cannot be read: No such file" in problems[1].message


@pytest.mark.slow
def test_a_manifest_that_says_something_else_is_a_problem(reader):
    path = reader.manifest_path("main-0@1")
    honest = read(path)
    for fields, message in (
        ({"env_steps": 7}, "env_steps is 7, the ledger says 1"),
        ({"parent_id": None}, "parent_id is None, the ledger says 'main-0@0'"),
        ({"blob_hash": "0" * 64}, "blob_hash is '0000"),
        ({"tensors": {"bias": {"dtype": "float32", "shape": [4]}}}, "its tensors are not those of the blob"),
    ):
        path.write_bytes(seal(honest | fields))
        (problem,) = verify_snapshots(reader)
        assert (problem.snapshot_id, problem.path) == ("main-0@1", path)
        assert message in problem.message


@pytest.mark.slow
def test_a_manifest_that_cannot_be_read_is_a_problem_beside_that_of_its_blob(reader):
    reader.manifest_path("main-0@2").write_bytes(b"{}")
    reader.manifest_path("main-0@1").unlink()
    damage(reader, "main-0@1")
    found = [(p.snapshot_id, p.path.suffix) for p in verify_snapshots(reader)]
    assert found == [("main-0@1", ".safetensors"), ("main-0@1", ".json"), ("main-0@2", ".json")]
