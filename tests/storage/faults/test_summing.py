"""Summing up dies, fails and loses power at each of its calls: no match is lost or counted twice."""

import contextlib
import functools
import itertools
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from storage.disk import make_folder, using
from storage.errors import StorageError
from storage.ledger.ledger import Ledger, read_tables, summed_until
from storage.ledger.segments import Segment, replace
from storage.records import RatingChange
from storage.retention.sums import DROPPED, SUMMED, sum_up
from storage.tables.columns import result_tables
from tests.parameters import mostly_long
from tests.storage.faults.counts import LONG, tried
from tests.storage.faults.faulty_disk import DEATHS, FAILURES, Fault, FaultyDisk, Killed
from tests.storage.faults.power import PowerDisk, Volume, lay_out
from tests.storage.faults.workload import results

FRAMES, OF_SEGMENT = 10, 8
CUTS = tried(1, 3)  # of the power, at one call of STRIDE
STRIDE = tried(3, 1)
EFFECTS = (*DEATHS, *FAILURES)
small_ledger = functools.partial(Ledger, segment_frames=OF_SEGMENT)


def write(folder):
    """A ledger whose first segment is closed and compacted."""
    make_folder(folder)
    with small_ledger(folder, "test") as ledger:
        seq = 1
        for number in range(1, FRAMES + 1):
            played = results(number)
            ledger.append(result_tables(played, [RatingChange("main-0", 25.0, 8.0, seq)], seq, number))
            seq += len(played)
        ledger.compact()
        assert [segment.last for segment in ledger.compacted] == [OF_SEGMENT]


def answers(folder):
    """What sums have to keep, from the rows and the sums."""
    found = read_tables(folder, ("matches", "seats", "meetings", "ratings", *SUMS))
    matches, sums = found["matches"], found.get("summed_matches")
    steps, number = sum(matches["env_steps"].to_pylist()), len(matches)
    if sums is not None:
        steps, number = steps + sum(sums["env_steps"].to_pylist()), number + sum(sums["matches"].to_pylist())
    seats = len(found["seats"]) + sum(found["summed_seats"]["seats"].to_pylist() if sums is not None else ())
    games = {}
    for row in found["meetings"].to_pylist():
        known = games.setdefault((row["home"], row["away"]), [0, 0, 0, 0])
        for place, name in enumerate(("games", "wins", "draws", "losses")):
            known[place] += row[name]
    return number, steps, seats, games, found["ratings"].to_pylist()[-1]


SUMS = ("summed_matches", "summed_seats")


@functools.cache
def sums_of_first():
    """The sums are always the same, and take longer than all else."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "ledger"))
        return sum_up(Segment.load(Path(folder, "ledger"), 1), 0.0)


def step(ledger):
    """Sum up the first segment if that is not done, and remove what it replaced."""
    ledger.remove_superseded(0.0)
    (segment,) = ledger.compacted
    if segment.summed is None:

        def make(whole):
            sums = sums_of_first()
            gone = (*SUMMED, *DROPPED)
            return replace(ledger.folder, whole, sums.tables, gone, sums.first_seq, sums.last_seq)

        ledger.sum_up(1, make)
    ledger.remove_superseded(-1.0)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name[0] != "." and path.name != "LOCK")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """(a ledger with all matches, its answers, the names of its files once it is summed up)."""
    folder = tmp_path_factory.mktemp("summing") / "ledger"
    write(folder)
    thin = shutil.copytree(folder, folder.with_name("thin"))
    with small_ledger(thin, "test") as ledger:
        step(ledger)
    return folder, answers(folder), names(thin)


@pytest.mark.long
@pytest.mark.parametrize("first", range(len(EFFECTS) if LONG else 1))
def test_no_match_is_lost_or_counted_twice_wherever_it_ends(whole, tmp_path, first):
    """Each call fails in one of the ways in turn; in the long form in all."""
    source, expected, after = whole
    for call in itertools.count():
        folder, disk = shutil.copytree(source, tmp_path / str(call)), FaultyDisk()
        disk.plan(Fault(call, EFFECTS[(first + call) % len(EFFECTS)]))
        with using(disk), contextlib.suppress(Killed, StorageError, OSError):
            ledger = Ledger(folder, "one that fails")
            with contextlib.suppress(Killed):
                step(ledger)
            disk.revive()
            ledger.close()
        disk.revive()
        assert answers(folder) == expected, disk.happened
        with small_ledger(folder, "the next one") as ledger:
            assert answers(folder) == expected, disk.happened
            step(ledger)
        assert answers(folder) == expected, disk.happened
        assert summed_until(folder) == OF_SEGMENT, disk.happened
        assert names(folder) == after, disk.happened
        if disk.happened is None:
            break
        shutil.rmtree(folder)
    assert call > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(tried(2, 8)), variant=True))
def test_no_match_is_lost_or_counted_twice_when_the_power_is_cut(whole, tmp_path, seed):
    _, expected, after = whole
    root = tmp_path / "disk"
    root.mkdir()
    disk, rng, volume = PowerDisk(root), random.Random(seed), Volume(seed)
    with using(disk):
        write(root / "ledger")
        begun = len(disk.calls)
        with small_ledger(root / "ledger", "test") as ledger:
            step(ledger)
    cuts = 0
    for at, call in enumerate(disk.calls):
        volume.play(call)
        counts = at >= begun and call.name not in ("pwrite", "note") and at % STRIDE == seed % STRIDE
        for _ in range(CUTS if counts else 0):
            folder = lay_out(volume.cut(rng), tmp_path / f"{at}-{cuts}") / "ledger"
            with small_ledger(folder, "the next one") as ledger:
                assert answers(folder) == expected, (at, call)
                step(ledger)
            assert answers(folder) == expected, (at, call)
            assert names(folder) == after, (at, call)
            shutil.rmtree(folder.parent)
            cuts += 1
    assert cuts >= 10 * CUTS
