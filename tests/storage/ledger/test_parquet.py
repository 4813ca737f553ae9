import gc
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3

from storage.disk import using
from storage.errors import DiskFailed
from storage.ledger import parquet
from storage.ledger.parquet import ParquetRows, rows_writer
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP", 100)


def batch(start, count):
    return pa.record_batch(
        {"n": range(start, start + count), "text": [f"é{i}" for i in range(start, start + count)]}
    )


def write(path, sizes):
    """The rows 0, 1, 2, ... in batches of these sizes."""
    with rows_writer(path, SCHEMA) as writer:
        start = 0
        for size in sizes:
            writer.add(batch(start, size))
            start += size
    return writer.file()


@pytest.mark.usefixtures("small_groups")
def test_rows_come_back_by_number_from_within_and_across_row_groups(tmp_path):
    write(tmp_path / "rows.parquet", [1, 0, 30, 250, 3, 99])
    with ParquetRows(tmp_path / "rows.parquet") as rows:
        for start, count in [(0, 1), (0, 383), (99, 2), (1, 100), (380, 3), (150, 101), (0, 1)]:
            assert rows.slice(start, count).equals(batch(start, count)), (start, count)


@pytest.mark.usefixtures("small_groups")
def test_no_more_than_a_row_group_waits_to_be_written(tmp_path):
    with rows_writer(tmp_path / "rows.parquet", SCHEMA) as writer:
        for start in range(0, 5000, 7):
            writer.add(batch(start, 7))
            assert writer._waiting.rows < 100
    metadata = pq.read_metadata(tmp_path / "rows.parquet")
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) <= 100


def test_wide_rows_do_not_wait_for_a_whole_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 10_000)
    with rows_writer(tmp_path / "rows.parquet", SCHEMA) as writer:
        writer.add(pa.record_batch({"n": [1], "text": ["x" * 20_000]}))
        assert writer._waiting.rows == 0


def test_a_file_is_described_as_it_lies_there(tmp_path):
    file = write(tmp_path / "rows.parquet", [10, 20])
    data = file.path.read_bytes()
    assert (file.rows, file.bytes, file.hash) == (30, len(data), blake3(data).hexdigest())
    assert file.path.stat().st_mode & 0o777 == 0o444
    assert pq.read_table(file.path)["n"].to_pylist() == list(range(30))


def test_a_table_without_rows_is_a_file_all_the_same(tmp_path):
    file = write(tmp_path / "rows.parquet", [])
    assert (file.rows, pq.read_schema(file.path)) == (0, SCHEMA)


@pytest.mark.slow
@pytest.mark.usefixtures("small_groups")
def test_a_disk_that_fails_at_any_write_leaves_nothing_and_nothing_is_written_later(tmp_path):
    failed = []
    for call in itertools.count():
        disk = FaultyDisk()
        disk.plan(Fault(call, Effect.ENOSPC, "pwrite"))
        try:
            with using(disk):
                write(tmp_path / "rows.parquet", [250])
            break
        except DiskFailed as error:
            assert "rows.parquet: cannot be written: No space left" in str(error)  # noqa: PT017  # it also succeeds
        failed.append((disk, disk.calls))
        assert list(tmp_path.iterdir()) == []
    assert call > 5
    assert pq.read_metadata(tmp_path / "rows.parquet").num_rows == 250
    with using(failed[-1][0]):
        gc.collect()
    assert [disk.calls for disk, _ in failed] == [calls for _, calls in failed]


def test_missing_columns_are_null_and_dictionaries_decoded(tmp_path):
    with rows_writer(tmp_path / "rows.parquet", SCHEMA) as writer:
        writer.add(pa.record_batch({"text": pa.array(["b", None, "a"]).dictionary_encode()}))
        writer.add(pa.record_batch({"text": pa.nulls(1), "n": [7]}))
    assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == {
        "n": [None, None, None, 7],
        "text": ["b", None, "a", None],
    }
