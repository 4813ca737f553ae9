"""Each call that changes a file fails in turn, in each way: an operation says so in one sentence, or is done.

Afterwards, on a disk that works again, all that was acknowledged is there, once and whole.
"""

import contextlib
import itertools
import shutil

import pytest

import storage.archive
from storage.disk import Growing, disk, using
from storage.errors import Mistake, StorageError
from storage.layout import LEDGER
from storage.snapshots import blobs
from storage.upkeep.exports import export_snapshot, read_export
from storage.upkeep.garbage import collect
from storage.upkeep.imports import import_snapshot
from tests.storage.faults.checks import Promises, assert_one_sentence, check, check_opening, listing
from tests.storage.faults.counts import LONG, figure
from tests.storage.faults.faulty_disk import DEATHS, FAILURES, Effect, Fault, FaultyDisk, FullDisk, Killed
from tests.storage.faults.workload import PLAYER, create, weights, write

pytestmark = pytest.mark.usefixtures("small_segments")

SCRIPT = (
    *("bot", "results", "snapshot", "learner", "results", "decision", "results", "results", "learner"),
    *("results", "leave", "results", "snapshot", "export", "update", "results", "results", "learner"),
    *("collect", "results", "session"),
)
FULL_OPENINGS = 50  # one in so many looks at the tables as well
EFFECTS = (*FAILURES, *DEATHS)


class Script:
    """The script, played once. `refused` are the errors that were raised; `died`: so did the process, and
    another went on."""

    def __init__(self, folder, disk):
        self.run, self.exported = folder / "run", folder / "exported"
        self.promises = Promises()
        self.refused, self.died = [], False
        self._disk = disk
        self._archive = None
        self._stuck = False
        with using(disk):
            for number, action in enumerate(SCRIPT, start=1):
                self._try(action, number)
            self._try("leave", 0)

    def _try(self, action, number):
        """After one refusal the archive may go on; after another it has to be opened anew."""
        try:
            self._do(action, number)
            self._stuck = False
        except (StorageError, Mistake) as error:
            assert_one_sentence(error)
            self.refused.append(str(error))
            if self._stuck:
                self._leave()
            self._stuck = not self._stuck
        except Killed:
            self.died = True
            with contextlib.suppress(Killed):
                self._leave()
            self._disk.revive()

    def _do(self, action, number):
        if action in ("leave", "collect"):
            self._leave()
            if action == "collect":
                collect(self.run, delete=True)
            return
        if self._archive is None:
            there = (self.run / "FORMAT").exists()
            self._archive = (
                storage.archive.Archive.open(self.run) if there else create(self.run, self.promises.hear)
            )
        if action == "export":
            export_snapshot(self._archive, self._archive.snapshots()[0], self.exported)
        else:
            write(self._archive, action, number, self.promises.hear)

    def _leave(self):
        archive, self._archive = self._archive, None
        if archive is not None:
            archive.close()


def look(script, full):
    check(script.run, script.promises)
    before = listing(script.run / LEDGER)
    if full:
        check_opening(script.run, script.promises)
    else:
        storage.archive.Archive.open(script.run).close()
    if listing(script.run / LEDGER) != before:  # a torn end was cut, or a compaction finished
        check(script.run, script.promises)
    left = [path for path in script.run.parent.iterdir() if path.name.endswith(".creating")]
    assert script.died or not left, left
    if script.exported.exists():
        manifest, tensors = read_export(script.exported)
        assert sorted(tensors) == sorted(weights(0))
        assert manifest["player"] == PLAYER


def calls_of(folder):
    """The numbers of the script's calls that are to fail, and how many there are in all.

    Of the tables of a segment, which are written alike, the short form takes one; and of many writes to
    one file in a row (Parquet comes in small pieces) both ends.
    """
    disk = FaultyDisk()
    folder.mkdir()
    script = Script(folder, disk)
    assert not script.refused
    check(script.run, script.promises)
    numbers = []
    for number, (kind, path) in enumerate(disk.log):
        inner = kind == "pwrite" and disk.log[number - 1] == (kind, path) == disk.log[number + 1]
        alike = ".parquet" in path.name and ".matches." not in path.name
        if LONG or not (inner or alike):
            numbers.append(number)
    return numbers, disk.calls


def play(folder, fault, full):
    """The script as it went, and whether that call was reached."""
    disk = FaultyDisk()
    disk.plan(fault)
    folder.mkdir()
    try:
        script = Script(folder, disk)
        look(script, full)
    except Exception as error:
        raise AssertionError(f"{disk.happened or fault}: {type(error).__name__}: {error}") from error
    return script, disk.happened is not None


@pytest.mark.long
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_call_failing_in_turn_is_an_error_or_done_losing_nothing_acknowledged(
    scratch, monkeypatch, effect
):
    """In the short form every third call fails in one of the ways, in the long form each in all."""
    numbers, calls = calls_of(scratch / "counting")
    if not LONG:
        numbers = numbers[EFFECTS.index(effect) :: 3 * len(EFFECTS)]
    tried, refused, died = 0, 0, 0
    for call in numbers:
        full = call % FULL_OPENINGS == 0
        script, happened = play(scratch / f"{call}", Fault(call, effect), full)
        shutil.rmtree(scratch / f"{call}")
        tried += happened
        refused += bool(script.refused)
        died += script.died
    figure(f"{effect}: {tried} of {calls} calls, {refused} times something was refused; 0 lost")
    assert tried > 0.9 * len(numbers)
    assert died == (tried if effect in DEATHS else 0)
    assert refused > 0.1 * tried or effect in (*DEATHS, Effect.SHORT)


@pytest.mark.long
def test_a_write_that_does_not_look_how_much_was_written_is_caught(scratch, monkeypatch):
    """Were there one in storage, it would be noticed."""

    def write(self, data):
        disk().pwrite(self._handle, data, self._end)
        self._end += len(data)
        return len(data)

    monkeypatch.setattr(Growing, "write", write)
    caught = 0
    for call in range(20):
        try:
            play(scratch / f"{call}", Fault(call, Effect.SHORT, "pwrite"), full=False)
        except AssertionError:
            caught += 1
    assert caught > 3


@pytest.mark.slow
def test_what_a_full_disk_refuses_is_not_lost_and_room_lets_all_go_on(scratch, monkeypatch):
    needed = 10**9
    disk = FullDisk(needed)
    (scratch / "all").mkdir()
    Script(scratch / "all", disk)
    needed -= disk.room
    for part in range(1, 10):
        disk = FullDisk(needed * part // 10)
        folder = scratch / f"{part}"
        folder.mkdir()
        script = Script(folder, disk)
        assert script.refused
        assert all("No space left" in why or "failed to write before" in why for why in script.refused)
        disk.room = needed
        with using(disk):
            look(script, full=False)
            with storage.archive.Archive.open(script.run) as archive:
                write(archive, "results", 99, script.promises.hear)
        check(script.run, script.promises)


@pytest.mark.slow
def test_an_import_that_fails_at_any_call_is_refused_or_done(scratch, monkeypatch):
    promises = Promises()
    with create(scratch / "theirs", promises.hear) as theirs:
        write(theirs, "snapshot", 1, promises.hear)
        export_snapshot(theirs, theirs.snapshots()[0], scratch / "exported")
    with create(scratch / "ours", promises.hear) as ours:
        write(ours, "snapshot", 2, promises.hear)
    for call in itertools.count():
        run, disk = scratch / f"run-{call}", FaultyDisk()
        shutil.copytree(scratch / "ours", run)
        disk.plan(Fault(call, FAILURES[call % len(FAILURES)]))
        done = None
        with storage.archive.Archive.open(run) as archive, using(disk):
            try:
                done = import_snapshot(archive, scratch / "exported")
            except StorageError as error:
                assert_one_sentence(error)
        with storage.archive.Archive.open(run) as archive:
            assert done is None or archive.find(done.snapshot_id) == done, disk.happened
            assert import_snapshot(archive, scratch / "exported") in archive.snapshots()
            assert len(archive.snapshots()) == 2
            blobs.verify(archive.blob_path(archive.snapshots()[1]))
        if disk.happened is None:
            break
    assert call > 10
