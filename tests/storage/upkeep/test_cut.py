"""A ledger is copied up to one of its frames, whatever form its segments have by then."""

import pyarrow as pa
import pytest

from storage.disk import using
from storage.ledger.ledger import Ledger, last_frame, read_frames
from storage.upkeep.branches import copy_until
from tests.storage.faults.faulty_disk import FaultyDisk

FRAMES = 20


@pytest.fixture
def ledger(tmp_path):
    """Five segments of four frames: two compacted, two closed, one open."""
    (tmp_path / "ledger").mkdir()
    with Ledger(tmp_path / "ledger", "a test", segment_frames=4) as ledger:
        for n in range(1, FRAMES + 1):
            names = pa.array([f"name {n}", "other"]).dictionary_encode()
            ledger.append({"numbers": pa.table({"n": [n, 2 * n], "name": names})})
        ledger.compact(2)
    return tmp_path / "ledger"


@pytest.mark.parametrize("last", [1, 3, 4, 5, 8, 9, 12, 14, 17, 20])
def test_the_frames_up_to_any_one_are_those_of_the_original(ledger, tmp_path, last):
    (tmp_path / "cut").mkdir()
    copy_until(ledger, tmp_path / "cut", last)
    found = list(read_frames(tmp_path / "cut"))
    expected = list(read_frames(ledger))[:last]
    assert [(f.sequence, f.batch_id) for f in found] == [(f.sequence, f.batch_id) for f in expected]
    assert all(a.tables["numbers"].equals(b.tables["numbers"]) for a, b in zip(found, expected, strict=True))
    with Ledger(tmp_path / "cut", "a test", segment_frames=4) as copy:  # it is written and compacted further
        assert copy.append({"numbers": pa.table({"n": [7]})}) == last + 1
        copy.compact()
    assert last_frame(tmp_path / "cut")[0] == last + 1
    assert last_frame(ledger)[0] == FRAMES


def test_whole_compacted_segments_are_linked_and_copied_where_no_link_can_be_made(ledger, tmp_path):
    for name in ("linked", "copied"):
        (tmp_path / name).mkdir()
    copy_until(ledger, tmp_path / "linked", FRAMES)
    disk = FaultyDisk()
    disk.link = lambda source, target: (_ for _ in ()).throw(OSError(18, "another file system"))
    with using(disk):
        copy_until(ledger, tmp_path / "copied", FRAMES)
    for path in ledger.glob("0000000[12].*"):
        assert path.samefile(tmp_path / "linked" / path.name)
        assert not path.samefile(tmp_path / "copied" / path.name)
        assert path.read_bytes() == (tmp_path / "copied" / path.name).read_bytes()
    assert len(list(read_frames(tmp_path / "copied"))) == FRAMES
