import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import CorruptLedger, StorageError
from storage.ledger import parquet
from storage.ledger.frames import encode
from storage.ledger.journal import Journal
from storage.ledger.segments import Segment, compact
from storage.snapshots import manifests
from tests.steps import flip_bit

WORDS = ["", "a", "main-0@120000", "größer", "棋", "\U0001f9ec", "x" * 300, "a\nb\0c"]
TYPES = [
    pa.int64(),
    pa.int8(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.timestamp("us", "UTC"),
]


def closed(folder, batches, number=2, before=10):
    """A journal of these batches (dicts of tables)."""
    data = b"".join(
        b"".join(encode(before + 1 + i, bytes([i % 256, i // 256]) * 8, tables))
        for i, tables in enumerate(batches)
    )
    (folder / f"{number:08d}.journal").write_bytes(data)
    return Journal.scanned(folder, number, before, last=False)


def random_table(rng):
    """0 to 60 rows of up to 6 columns, some of them null and some missing, in up to 3 chunks."""
    chosen = rng.permutation(8)[: rng.integers(1, 7)]
    return pa.concat_tables(
        [
            pa.table({f"c{i}": random_column(rng, i, rows) for i in chosen})
            for rows in rng.integers(0, 20, size=rng.integers(1, 4))
        ]
    )


def random_column(rng, i, rows):
    if rng.random() < 0.1:
        return pa.nulls(rows, pa.dictionary(pa.int16(), pa.string()) if i == 7 else TYPES[i])
    missing = rng.random(rows) < 0.2
    if i == 7:
        words = list(rng.choice(WORDS, size=rng.integers(1, len(WORDS)), replace=bool(rng.random() < 0.2)))
        indices = pa.array(rng.integers(len(words), size=rows).astype(np.int16), mask=missing)
        return pa.DictionaryArray.from_arrays(indices, words)
    if TYPES[i] == pa.string():
        return pa.array(rng.choice(WORDS, size=rows), pa.string(), mask=missing)
    numbers = rng.integers(-100, 100, size=rows) * (0.37 if pa.types.is_floating(TYPES[i]) else 1)
    return pa.array(numbers, mask=missing).cast(TYPES[i], safe=False)


def assert_equal(found, expected):
    """The same frames: ids, tables in order, schemas with metadata, values, dictionaries and indices."""
    for frame, other in zip(found, expected, strict=True):
        assert (frame.sequence, frame.batch_id) == (other.sequence, other.batch_id)
        assert list(frame.tables) == list(other.tables)
        for name, table in frame.tables.items():
            appended = other.tables[name]
            assert table.schema.equals(appended.schema, check_metadata=True)
            assert table.equals(appended), f"{name} of frame {frame.sequence}"
            for column, before in zip(table.columns, appended.columns, strict=True):
                if pa.types.is_dictionary(column.type):
                    for chunk, old in zip(column.chunks, before.chunks, strict=True):
                        assert chunk.dictionary.equals(old.dictionary)
                        assert chunk.indices.equals(old.indices)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_frames_of_a_compacted_segment_equal_those_appended_to_the_schema(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(parquet, "ROW_GROUP", int(rng.integers(1, 100)))
    names = ["rows", "more", "never_twice"]
    batches = [
        {name: random_table(rng) for name in names[: rng.integers(0, 4)]} for _ in range(rng.integers(1, 12))
    ]
    journal = closed(tmp_path, batches)
    expected = list(journal.frames())
    assert [f.tables for f in expected] == batches
    compact(tmp_path, journal)
    segment = Segment.load(tmp_path, 2)
    assert_equal(segment.frames(), expected)
    after = int(rng.integers(10, 11 + len(batches)))
    wanted = set(rng.choice([*names, "unknown"], size=2))
    assert_equal(segment.frames(after, wanted), journal.frames(after, wanted))
    assert segment.batch_ids() == journal.batch_ids()
    assert segment.last_with(wanted) == journal.last_with(wanted)


def test_metadata_field_order_and_not_null_columns_come_back(tmp_path):
    schema = pa.schema(
        [pa.field("b", pa.int64(), nullable=False), pa.field("a", pa.string(), metadata={"unit": "s"})],
        metadata={"pandas": "{}"},
    )
    table = pa.table({"b": [1], "a": ["x"]}).cast(schema)
    journal = closed(tmp_path, [{"t": pa.table({"a": ["y"]})}, {"t": table}])
    expected = list(journal.frames())
    assert expected[1].tables["t"].schema.equals(schema, check_metadata=True)
    assert_equal(compact(tmp_path, journal).frames(), expected)


def test_the_files_are_read_by_any_tool_and_described_by_the_manifest(tmp_path):
    who = pa.array(["a", "b", "a"]).dictionary_encode()
    journal = closed(
        tmp_path, [{"rows": pa.table({"who": who})}, {"rows": pa.table({"who": who, "n": [1, 2, 3]})}]
    )
    segment = compact(tmp_path, journal)
    assert pq.read_table(tmp_path / "00000002.rows.parquet").to_pydict() == {
        "who": ["a", "b", "a"] * 2,
        "n": [None, None, None, 1, 2, 3],
    }
    fields = manifests.read(tmp_path / "00000002.json")
    assert (fields["first"], fields["last"]) == (segment.first, segment.last) == (11, 12)
    data = (tmp_path / "00000002.rows.parquet").read_bytes()
    assert fields["tables"] == {
        "rows": {
            "file": "00000002.rows.parquet",
            "rows": 6,
            "bytes": len(data),
            "blake3": blake3(data).hexdigest(),
        }
    }
    assert (segment.rows("rows"), segment.rows("other")) == (6, 0)
    assert segment.path("other") is None
    assert segment.path("rows") == tmp_path / "00000002.rows.parquet"
    assert {path.name: path.stat().st_size for path, _ in segment.files()} == {
        path.name: size for path, size in segment.files()
    }
    assert segment.files()[-1][0].name == "00000002.json"
    assert {path.stat().st_mode & 0o777 for path, _ in segment.files()} == {0o444}


COMPACTING = """
import sys
from pathlib import Path
import pyarrow as pa
from storage.ledger import parquet
from storage.ledger.journal import Journal
from storage.ledger.segments import compact

parquet.ROW_GROUP = 10_000
segment = compact(Path(sys.argv[1]), Journal.scanned(Path(sys.argv[1]), 2, 10, last=False))
assert sum(len(frame.tables["t"]) for frame in segment.frames()) == 1_000_000
print(pa.default_memory_pool().max_memory())
"""


@pytest.mark.long
def test_compacting_and_reading_hold_a_few_row_groups_in_memory_not_the_segment(tmp_path):
    rng = np.random.default_rng(0)
    closed(tmp_path, [{"t": pa.table({"x": rng.random(5000), "y": rng.random(5000)})} for _ in range(200)])
    peak = subprocess.check_output([sys.executable, "-c", COMPACTING, str(tmp_path)])
    assert 160_000 < int(peak) < 3_000_000  # a row group has 160,000 bytes, the segment 16,000,000


def test_a_journal_whose_frames_changed_is_not_compacted(tmp_path):
    journal = closed(tmp_path, [{"rows": pa.table({"n": [n]})} for n in range(5)])
    flip_bit(journal.path, journal.places[3].offset + 100, bit=2)
    with pytest.raises(CorruptLedger, match=r"00000002\.journal: frame 14 at offset \d+ has changed"):
        compact(tmp_path, journal)
    assert [path.name for path in tmp_path.iterdir()] == ["00000002.journal"]


@pytest.mark.parametrize(
    "batches",
    [
        [{"t": pa.table({"n": [1]})}, {"t": pa.table({"n": ["text"]})}],
        [{"t": pa.table({"n": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})}],
    ],
    ids=["a column of two types", "a type that Parquet lacks"],
)
def test_columns_that_parquet_cannot_hold_stay_in_the_journal(tmp_path, batches):
    journal = closed(tmp_path, batches)
    with pytest.raises(StorageError, match=r"00000002\.journal: not compacted: "):
        compact(tmp_path, journal)
    assert not (tmp_path / "00000002.json").exists()
    assert len(list(journal.frames())) == len(batches)


@pytest.fixture
def segment(tmp_path):
    batches = [{"rows": pa.table({"n": range(i), "s": ["x"] * i})} for i in range(50)]
    return compact(tmp_path, closed(tmp_path, batches))


@pytest.mark.parametrize("name", ["00000002.rows.parquet", "00000002.frames.arrow"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "missing", "a folder"])
def test_a_damaged_file_of_a_segment_is_refused_by_name(segment, name, damage):
    path = segment.manifest[0].with_name(name)
    data = bytearray(path.read_bytes())
    path.unlink()
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    elif damage == "cut":
        del data[-1:]
    elif damage == "longer":
        data += b"\0"
    if damage == "a folder":
        path.mkdir()
    elif damage != "missing":
        path.write_bytes(data)
    with pytest.raises(CorruptLedger, match=name.replace(".", r"\.") + ": .*from a backup"):
        Segment.load(path.parent, 2)


def test_a_damaged_file_is_noticed_also_after_loading(segment):
    path = segment.index.path
    flip_bit(path, -20)
    with pytest.raises(CorruptLedger, match=r"frames\.arrow"):
        list(segment.frames())


@pytest.mark.parametrize(
    "change",
    [
        {"first": None},
        {"tables": {"../../rows": {}}},
        {"tables": {"rows": {"file": "/etc/passwd", "rows": 1, "bytes": 1, "blake3": ""}}},
        {"tables": {"rows": {"file": "00000002.rows.parquet", "rows": 1}}},
        {"tables": []},
        {"frames": None},
    ],
)
def test_a_manifest_that_names_other_things_than_its_files_is_refused(segment, change):
    path = segment.manifest[0]
    fields = manifests.read(path) | change
    path.unlink()
    path.write_bytes(manifests.seal(fields))
    with pytest.raises(CorruptLedger, match=r"00000002\.json: no manifest of a segment"):
        Segment.load(path.parent, 2)
