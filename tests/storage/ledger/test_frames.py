import io
import struct
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import CorruptLedger
from storage.ledger import frames
from storage.ledger.journal import Journal


def frame(sequence, **tables):
    return b"".join(frames.encode(sequence, bytes([sequence]) * 16, tables))


def numbers(n):
    return pa.table({"n": range(n)})


@pytest.fixture
def scan(tmp_path):
    """The frames in these bytes."""

    def scanned(data, previous=0, last=True):
        path = tmp_path / "00000001.journal"
        path.write_bytes(data)
        with open(path, "rb") as file:
            return [frames.decode(*found) for found in frames.scan(file, path, previous=previous, last=last)]

    return scanned


def test_a_frame_gives_back_its_tables_in_order_with_types_nulls_and_dictionaries(scan):
    names = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), ["unused", "ü", "also unused"])
    table = pa.table({"who": names, "x": pa.array([None, 0.5]), "t": ["", None]})
    (found,) = scan(frame(1, rows=table, empty=numbers(0), nothing=pa.table({})))
    assert (found.sequence, found.batch_id) == (1, b"\x01" * 16)
    assert list(found.tables) == ["rows", "empty", "nothing"]
    assert found.tables["rows"].equals(table)
    assert found.tables["rows"]["who"].chunk(0).dictionary.to_pylist() == ["unused", "ü", "also unused"]
    assert found.tables["empty"].equals(numbers(0))


def test_only_large_tables_are_compressed(scan):
    zeros = pa.table({"n": [0] * 100_000})
    assert len(frame(1, rows=zeros)) < zeros.nbytes / 100
    assert scan(frame(1, rows=zeros))[0].tables["rows"].equals(zeros)
    assert len(frame(1, rows=pa.table({"n": [0] * 500}))) > 500 * 8


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a b", "schön", "a.b", "1st", "x" * 65])
def test_a_table_name_that_is_no_plain_word_is_refused(name):
    with pytest.raises(ValueError, match="expected a name of letters"):
        frames.encode(1, bytes(16), {name: numbers(1)})


def test_a_torn_frame_ends_the_last_journal_and_is_damage_in_any_other(scan):
    first, second = frame(1, rows=numbers(1)), frame(2, rows=numbers(2))
    for kept in range(0, len(second), 7):
        assert [f.sequence for f in scan(first + second[:kept])] == [1]
    with pytest.raises(CorruptLedger, match=rf"00000001\.journal: damaged frame at offset {len(first)};"):
        scan(first + second[:-1], last=False)


def test_a_whole_frame_behind_damage_is_found_also_across_blocks(scan):
    garbage = bytes(2**20 + 3)
    whole = frame(1, rows=numbers(1))
    with pytest.raises(
        CorruptLedger, match=rf"damaged frame at offset 0, with a whole one at {len(garbage)}"
    ):
        scan(garbage + whole)


def test_frames_out_of_sequence_are_missing_frames(scan):
    with pytest.raises(CorruptLedger, match="has sequence 3, expected 2: frames are missing"):
        scan(frame(1, rows=numbers(1)) + frame(3, rows=numbers(1)))
    with pytest.raises(CorruptLedger, match="has sequence 1, expected 2"):
        scan(frame(1, rows=numbers(1)) * 2)


@pytest.mark.parametrize("claimed", [2**16, 2**40, 2**64 - 1])
def test_a_frame_that_claims_to_be_longer_than_its_file_costs_no_memory(scan, claimed):
    data = bytearray(frame(1, rows=numbers(1)))
    data[8:16] = struct.pack("<Q", claimed)
    tracemalloc.start()
    try:
        assert scan(bytes(data)) == []
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "payload",
    [
        b"\x01",
        struct.pack("<HQ", 1, 100) + b"a" + bytes(99),
        struct.pack("<HQ", 60000, 0) + b"a" * 10,
        struct.pack("<HQ", 4, 0) + b"../a",
        struct.pack("<HQ", 1, 0) + b"\xff",
    ],
    ids=["cut", "data too long", "name too long", "name is a path", "name is no text"],
)
def test_sections_that_do_not_add_up_are_no_frame_even_with_a_hash_that_fits(scan, payload):
    head = frames._HEAD.pack(frames.MAGIC, len(payload), 1, bytes(16))
    assert scan(head + frames._digest(head, payload) + payload) == []


@pytest.mark.parametrize("data", [b"", b"no Arrow", bytes(40), b"\xff\xff\xff\xff\xff\xff\xff\x7f" * 2])
def test_a_frame_of_no_tables_whose_hash_fits_is_refused(tmp_path, scan, data):
    payload = struct.pack("<HQ", 4, len(data)) + b"rows" + data
    head = frames._HEAD.pack(frames.MAGIC, len(payload), 1, bytes(16))
    with pytest.raises(CorruptLedger, match="frame 1 of the ledger, at offset 0: no tables: "):
        scan(head + frames._digest(head, payload) + payload)
    with pytest.raises(CorruptLedger, match="no tables"):
        Journal.scanned(tmp_path, 1, before=0, last=True)


def test_a_frame_that_changed_since_it_was_scanned_is_refused_with_its_place(tmp_path):
    path = tmp_path / "00000007.journal"
    data = bytearray(frame(1, rows=numbers(1)) + frame(2, rows=numbers(2)))
    path.write_bytes(data)
    with open(path, "rb") as file:
        first, second = (place for place, _ in frames.scan(file, path, previous=0, last=True))
    data[second.offset + 90] ^= 1
    file = io.BytesIO(data)
    assert frames.decode(first, frames.read(file, path, first)).tables["rows"].equals(numbers(1))
    with pytest.raises(
        CorruptLedger, match=rf"00000007\.journal: frame 2 at offset {second.offset} has changed"
    ):
        frames.read(file, path, second)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_mutated_journal_gives_a_frame_that_was_not_appended(scan, data):
    sizes = [1, 700, 0, 40]
    whole = b"".join(frame(i + 1, rows=numbers(n)) for i, n in enumerate(sizes))
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start, len(whole)))
    middle = whole[start:end]
    mutated = whole[:start] + data.draw(
        st.sampled_from([b"", middle * 2, bytes(len(middle)), middle[::-1], b"LGFRAME1" + middle])
    )
    mutated += whole[end:]
    try:
        found = scan(mutated)
    except CorruptLedger:
        return
    assert [f.tables["rows"].num_rows for f in found] == sizes[: len(found)]
    assert mutated == whole or len(found) < len(sizes) or mutated.startswith(whole)
