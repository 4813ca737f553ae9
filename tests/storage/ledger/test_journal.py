import pyarrow as pa
import pytest

from storage.ledger.frames import encode, streams
from storage.ledger.journal import Journal, PlainColumns

TEXT = pa.array(["a", "b"])


def sections(**tables):
    _, payload = encode(1, bytes(16), tables)
    return list(streams(payload))


@pytest.fixture
def journal(tmp_path):
    """Frames 5 to 8 of segment 3."""
    frames = [
        {"rows": pa.table({"n": [n]}), **({"odd": pa.table({"m": [n]})} if n % 2 else {})}
        for n in range(5, 9)
    ]
    data = b"".join(b"".join(encode(5 + i, bytes([i]) * 16, tables)) for i, tables in enumerate(frames))
    (tmp_path / "00000003.journal").write_bytes(data + b"torn")
    return Journal.scanned(tmp_path, 3, before=4, last=True)


def test_a_scanned_journal_knows_its_frames_and_where_they_end(journal):
    assert (journal.first, journal.last, len(journal.batch_ids())) == (5, 8, 4)
    assert journal.files() == [(journal.path, journal.path.stat().st_size - len(b"torn"))]
    assert journal.last_with(["odd", "else"]) == 7
    assert journal.last_with(["else"]) is None


def test_the_columns_of_a_table_are_those_of_all_its_frames_without_dictionaries():
    columns = PlainColumns()
    assert columns.take(sections(rows=pa.table({"who": TEXT.dictionary_encode(), "x": pa.nulls(2)})))
    assert columns.take(sections(rows=pa.table({"who": TEXT, "x": [0.5, 1.5], "new": [1, 2]})))
    assert columns.take(sections(rows=pa.table({"new": pa.nulls(1)}), others=pa.table({"n": [1]})))
    assert columns.schemas == {
        "rows": pa.schema([("who", pa.string()), ("x", pa.float64()), ("new", pa.int64())]),
        "others": pa.schema([("n", pa.int64())]),
    }
