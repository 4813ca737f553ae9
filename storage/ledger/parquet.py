"""The rows of one table in a Parquet file: written in row groups out of small batches, read by number."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from storage.disk import Growing, whole

ROW_GROUP = 2**17  # rows
GROUP_BYTES = 32 * 2**20  # with ROW_GROUP the bound on what a writer holds in memory


class File(NamedTuple):
    """A written file: what a reader compares it with."""

    path: Path
    rows: int
    bytes: int
    hash: str  # blake3


class _Hashed:
    """A file that is hashed while it grows, so that bytes changed by the disk are detected."""

    closed = False

    def __init__(self, file: Growing) -> None:
        self._file: Growing | None = file
        self.hash = blake3()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        """Write and hash `data`."""
        if self._file is not None:
            self._file.write(data)
            self.hash.update(data)
        self.bytes += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.bytes

    def flush(self) -> None:
        """Do nothing: no data is buffered."""

    def drop(self) -> None:
        """Write no more, since a ParquetWriter that failed would still write in its destructor."""
        self._file = None


class PendingRows:
    """Batches of one table, gathered: each small one would cost as much as a thousand rows."""

    def __init__(self) -> None:
        self.bytes = 0
        self.rows = 0
        self._tables: list[pa.Table] = []
        self._small: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        if self._small and (len(self._small) == 1024 or self._small[0].schema != batch.schema):
            self._join()
        self._small.append(batch)
        self.rows += len(batch)
        self.bytes += batch.get_total_buffer_size()

    def _join(self) -> None:
        if self._small:
            self._tables.append(pa.Table.from_batches(self._small).combine_chunks())
            self._small.clear()

    def take(self) -> list[pa.Table]:
        """Return what was added, in order, and start again with nothing."""
        self._join()
        tables, self._tables = self._tables, []
        self.rows = self.bytes = 0
        return tables


class RowsWriter:
    """Writer of small batches as row groups."""

    def __init__(self, path: Path, sink: _Hashed, schema: pa.Schema) -> None:
        self._path, self._schema, self._sink = path, schema, sink
        # dictionaries of numbers that hardly repeat take a third of the time, and of the file (measured)
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        self._parquet = pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=texts)
        self._waiting = PendingRows()
        self._rows = 0  # in all

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        self._waiting.add(_fitted(plain(batch), self._schema))
        self._rows += len(batch)
        if self._waiting.rows >= ROW_GROUP or self._waiting.bytes >= GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        tables = self._waiting.take()
        if tables:
            self._parquet.write_table(pa.concat_tables(tables).combine_chunks(), row_group_size=ROW_GROUP)

    def close(self) -> None:
        """Write what waits, and the end of the file."""
        self._write()
        self._parquet.close()

    def let_go(self) -> None:
        """Mark the ParquetWriter as closed, so that it writes nothing when it is collected."""
        self._parquet.is_open = False

    def file(self) -> File:
        """Return the written file, after `close`."""
        return File(self._path, self._rows, self._sink.bytes, self._sink.hash.hexdigest())


@contextlib.contextmanager
def rows_writer(path: Path, schema: pa.Schema) -> Iterator[RowsWriter]:
    """Yield a writer of the rows of one table to `path`, which appears when the block is left.

    Raise DiskFailed, and what pyarrow raises for columns that Parquet lacks.
    """
    with whole(path, mode=0o444) as file:
        sink = _Hashed(file)
        try:
            writer = RowsWriter(path, sink, schema)
            try:
                yield writer
                writer.close()
            finally:
                writer.let_go()
        finally:
            sink.drop()


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return `batch` with its dictionaries decoded."""
    if not any(map(pa.types.is_dictionary, batch.schema.types)):
        return batch
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the plain `batch` with the columns of `schema`; columns that it lacks are null."""
    if batch.schema == schema:
        return batch
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        column = batch.column(place) if place >= 0 else pa.nulls(len(batch), field.type)
        columns.append(column if column.type == field.type else pa.nulls(len(batch), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class ParquetRows:
    """The rows of a Parquet file by number; the row group read last is kept."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path)
        groups = [self._file.metadata.row_group(i).num_rows for i in range(self._file.num_row_groups)]
        self._ends = np.cumsum(groups)
        self._number = -1
        self._group: pa.RecordBatch | None = None

    def slice(self, start: int, count: int) -> pa.RecordBatch:
        """Return `count` rows, at least one, from row `start` on."""
        first, last = np.searchsorted(self._ends, [start, start + count - 1], side="right")
        parts = []
        for number in range(first, last + 1):
            group = self._read(int(number))
            begin = int(self._ends[number]) - len(group)  # the group's first row
            parts.append(group.slice(max(0, start - begin), start + count - max(start, begin)))
        return parts[0] if len(parts) == 1 else _joined(pa.Table.from_batches(parts))

    def _read(self, number: int) -> pa.RecordBatch:
        if number != self._number or self._group is None:
            self._group = _joined(self._file.read_row_group(number))
            self._number = number
        return self._group

    def __enter__(self) -> ParquetRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _joined(table: pa.Table) -> pa.RecordBatch:
    """Return a table with rows as one batch."""
    return table.combine_chunks().to_batches()[0]
