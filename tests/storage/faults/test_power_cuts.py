"""The power is cut at any moment of a league's writing: all that was acknowledged is there, nothing in part.

The process also dies now and then, and calls fail, so that a run is opened and gone on with whose last
calls never became durable.
"""

import itertools
import random
import shutil
from collections import Counter

import pyarrow as pa
import pytest

from storage.disk import make_folder, using
from storage.errors import StorageError
from storage.layout import LEDGER, OBJECTS, blob_path
from storage.ledger.ledger import Ledger, read_frames
from storage.snapshots import blobs
from tests.parameters import mostly_long
from tests.storage.faults.checks import Promises, check, check_opening, listing
from tests.storage.faults.counts import figure, tried
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk, Killed
from tests.storage.faults.power import PowerDisk, Volume, lay_out
from tests.storage.faults.recording import Recording
from tests.storage.faults.workload import weights

pytestmark = pytest.mark.usefixtures("small_segments")

CUTS = 100  # of each recording
STEPS = tried(40, 60)
FULL_OPENINGS = 0.05  # share of cuts after which the whole run is opened, its tables too


@pytest.fixture(scope="module")
def tally():
    """What all cuts together came to."""
    tally = Counter()
    yield tally
    figure(f"{tally['cuts']} power cuts in recordings of {tally['calls']} calls, 0 lost, 0 in part")


def cuts(disk, seed, count):
    """(call, what was promised by then, files) of `count` power cuts, anywhere."""
    rng, volume, promises = random.Random(seed), Volume(seed), Promises()
    ends = [at for at, _ in without_inner_writes(disk.calls)]
    when = sorted(rng.choice(ends) for _ in range(count))
    for at, call in enumerate(disk.calls):
        volume.play(call)
        if call.name == "note":
            promises.hear(*call.arguments)
        while when and when[0] == at:
            when.pop(0)
            yield at, promises, volume.cut(rng)


def look(run, promises, rng):
    """As a reader finds it, and as a writer does."""
    check(run, promises)
    if not run.exists():
        return
    before = listing(run / LEDGER)
    if rng.random() < FULL_OPENINGS:
        check_opening(run, promises)
    else:
        Ledger(run / LEDGER, "after the cut").close()
    if listing(run / LEDGER) != before:  # a torn end was cut, or a compaction finished
        check(run, promises)


def without_inner_writes(calls):
    """(number, call), of many writes to one file in a row only the last."""
    return [
        (at, call)
        for at, (call, after) in enumerate(itertools.zip_longest(calls, calls[1:]))
        if not (after and call.name == after.name == "pwrite" and call.arguments[0] == after.arguments[0])
    ]


def recent(calls):
    """The last calls, line by line."""
    return "".join(f"\n  {call}"[:150] for _, call in without_inner_writes(calls)[-40:])


def after_all(disk, seed):
    """The volume after all calls."""
    volume = Volume(seed)
    for call in disk.calls:
        volume.play(call)
    return volume


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(tried(2, 100)), variant=True))
def test_nothing_acknowledged_is_lost_and_nothing_is_there_in_part(scratch, tally, seed):
    (scratch / "disk").mkdir()
    disk = PowerDisk(scratch / "disk")
    Recording(disk, seed, STEPS)
    rng = random.Random(seed)
    for number, (at, promises, files) in enumerate(cuts(disk, seed, CUTS)):
        after = lay_out(files, scratch / "after")
        try:
            look(after / "run", promises, rng)
        except Exception as error:
            raise AssertionError(
                f"seed {seed}, cut {number}: {error}; calls:{recent(disk.calls[: at + 1])}"
            ) from error
        shutil.rmtree(after)
    tally.update(cuts=CUTS, calls=len(disk.calls))


def test_a_frame_whose_sync_failed_is_no_hole_in_front_of_what_is_acknowledged_later(scratch):
    """The kernel counts the pages of a failed sync as clean: another sync alone writes nothing."""
    (scratch / "disk").mkdir()
    disk = PowerDisk(scratch / "disk")
    faulty = FaultyDisk(disk)
    with using(faulty):
        make_folder(scratch / "disk" / LEDGER)
        with Ledger(scratch / "disk" / LEDGER, "first") as ledger:
            ledger.append({"rows": pa.table({"n": [1]})})
            faulty.plan(Fault(0, Effect.EIO, "sync_data"))
            with pytest.raises(StorageError, match="frame 2 failed"):
                ledger.append({"rows": pa.table({"n": [2]})})
        with Ledger(scratch / "disk" / LEDGER, "second") as ledger:
            ledger.append({"rows": pa.table({"n": [3]})})
    for seed in range(20):
        after = lay_out(after_all(disk, seed).cut(random.Random(seed)), scratch / f"after-{seed}")
        found = [frame.tables["rows"]["n"].to_pylist() for frame in read_frames(after / LEDGER)]
        assert found == [[1], [2], [3]]


def test_a_blob_is_durable_though_its_folder_was_made_by_a_process_that_died(scratch):
    (scratch / "disk").mkdir()
    disk = PowerDisk(scratch / "disk")
    faulty = FaultyDisk(disk)
    with using(faulty):
        make_folder(scratch / "disk" / OBJECTS)
        faulty.plan(Fault(0, Effect.DIE_AFTER, "mkdir"))
        with pytest.raises(Killed):
            blobs.publish(scratch / "disk" / OBJECTS, weights(1))
        faulty.revive()
        blob_hash, _ = blobs.publish(scratch / "disk" / OBJECTS, weights(1))
    for seed in range(20):
        after = lay_out(after_all(disk, seed).cut(random.Random(seed)), scratch / f"after-{seed}")
        blobs.verify(blob_path(after / OBJECTS, blob_hash))


class Lying(PowerDisk):
    """A disk that says it has synced and has not."""

    def __init__(self, root, kind):
        super().__init__(root)
        self.kind = kind

    def _remember(self, name, *arguments):
        if name != self.kind:
            super()._remember(name, *arguments)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sync", "sync_folder"])
def test_a_disk_that_lies_about_syncing_is_caught(scratch, kind):
    """Were a sync missing in storage, it would be noticed."""
    (scratch / "disk").mkdir()
    disk = Lying(scratch / "disk", kind)
    Recording(disk, 0, STEPS)
    caught = 0
    for number, (_, promises, files) in enumerate(itertools.islice(cuts(disk, 0, 20), 20)):
        try:
            check(lay_out(files, scratch / f"after-{number}") / "run", promises)
        except Exception:
            caught += 1
    assert caught > 5
