"""What is checked after a fault notices what is missing, doubled, half or foreign."""

import random
import shutil

import pytest

from storage.archive import Archive
from storage.errors import StorageError
from storage.layout import LEARNERS, LEDGER, MANIFESTS, OBJECTS
from tests.storage.faults.checks import Promises, check, check_opening
from tests.storage.faults.workload import KINDS, any_kind, create, write

pytestmark = pytest.mark.slow


@pytest.fixture
def written(scratch):
    """A run with 30 items and at least two of each kind, closed, and what was promised of it."""
    run, promises, rng = scratch / "run", Promises(), random.Random(1)
    with create(run, promises.hear) as archive:
        kinds = [*KINDS, *KINDS, *(any_kind(rng) for _ in range(16))]
        for number, kind in enumerate(kinds, start=1):
            write(archive, kind, number, promises.hear)
    return run, promises


def test_what_is_whole_passes(written):
    run, promises = written
    check(run, promises)
    check_opening(run, promises)
    check(run, promises)


def test_an_item_that_was_promised_is_missed_and_one_that_nobody_wrote_noticed(written):
    run, promises = written
    for kind in KINDS:
        promises.hear("begun", kind, 99)
        check(run, promises)
        promises.hear("done", kind, 99)
        with pytest.raises(AssertionError, match=r"acknowledged"):
            check(run, promises)
        *_, last, late = ((kind, number) for number in promises.numbers(kind, promises.begun))
        for items in (promises.begun, promises.done):
            items.difference_update([last, late])
        with pytest.raises(AssertionError, match=r"never written"):
            check(run, promises)
        for items in (promises.begun, promises.done):
            items.add(last)


def test_a_file_that_is_cut_or_gone_is_noticed_and_a_lost_run_missed(written):
    run, promises = written
    for folder in (LEDGER, OBJECTS, MANIFESTS, LEARNERS):
        path = max(
            (path for path in (run / folder).rglob("*.*") if path.is_file()), key=lambda p: p.stat().st_size
        )
        data = path.read_bytes()
        for less in (data[:-1], data[: len(data) // 2], b"", None):
            path.unlink()
            if less is not None:
                path.write_bytes(less)
            with pytest.raises((AssertionError, StorageError, OSError)):
                check(run, promises)
            path.write_bytes(data)
    check(run, promises)
    shutil.rmtree(run)
    with pytest.raises(AssertionError, match="gone"):
        check(run, promises)


def test_an_older_learner_state_is_noticed(written, scratch):
    run, promises = written
    shutil.copytree(run / LEARNERS, scratch / "older")
    with Archive.open(run) as archive:
        write(archive, "learner", 50, promises.hear)
    check(run, promises)
    shutil.rmtree(run / LEARNERS)
    shutil.copytree(scratch / "older", run / LEARNERS)
    with pytest.raises(AssertionError, match="older"):
        check(run, promises)
