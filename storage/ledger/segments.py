"""Compacted segments: what a closed journal becomes, Parquet files that any tool can read.

    00000007.<table>.parquet   all rows of that table in order, dictionaries decoded
    00000007.frames.arrow      which rows came with which frame, and how their dictionaries were
    00000007.json              the manifest: sequences, and each file's rows, bytes and blake3; written last

The manifest of a segment whose matches were summed up (storage/retention) has `summed`; the files with its
sums have other names, `00000007.<table>.summed.parquet`, and replace those of before when the manifest does.

Without its manifest a segment does not exist and its journal is the truth; with it, the journal is
superfluous and goes. The rows of a frame, cut out of the Parquet files and given their dictionaries
again, equal those that were appended.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from storage.disk import write_whole
from storage.errors import CorruptLedger, StorageError
from storage.ledger.frames import (
    BATCH_ID_BYTES,
    NAME,
    Frame,
    FrameOffset,
    open_stream,
    read,
    streams,
    write_stream,
)
from storage.ledger.journal import Journal
from storage.ledger.parquet import File, ParquetRows, rows_writer
from storage.snapshots import manifests


def manifest_path(folder: Path, number: int) -> Path:
    """Return the path of the file that makes the segment of that number exist in the ledger `folder`."""
    return folder / f"{number:08d}.json"


def _table_path(folder: Path, number: int, table: str, kind: str = "") -> Path:
    return folder / f"{number:08d}.{table}{kind}.parquet"


def _index_path(folder: Path, number: int, kind: str = "") -> Path:
    return folder / f"{number:08d}.frames{kind}.arrow"


SUMMED = ".summed"  # in the names of files with sums


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A compacted segment."""

    number: int
    first: int  # sequences of its frames
    last: int
    manifest: tuple[Path, int]  # and its bytes
    index: File  # which rows came with which frame
    tables: dict[str, File]  # by name
    summed: dict[str, Any] | None = None  # of one whose matches were summed up: numbers of its matches

    @classmethod
    def load(cls, folder: Path, number: int, *, verify: bool = True) -> Segment:
        """Load the segment of that number and compare every file with its hash.

        Without `verify` the comparison is left to the reader of a table. Raise CorruptLedger.
        """
        path = manifest_path(folder, number)
        try:
            fields = manifests.read(path)
            if not all(map(NAME.fullmatch, fields["tables"])):
                raise ValueError(f"tables {list(fields['tables'])}")
            summed = fields.get("summed")
            kinds = ("", SUMMED) if summed else ("",)
            index = file_of([_index_path(folder, number, kind) for kind in kinds], fields["frames"])
            tables = {
                name: file_of([_table_path(folder, number, name, kind) for kind in kinds], entry)
                for name, entry in fields["tables"].items()
            }
            first, last = int(fields["first"]), int(fields["last"])
            if summed:
                summed = {name: int(summed[name]) for name in ("first_seq", "last_seq")}
        except manifests.CorruptManifest as error:
            raise CorruptLedger(str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptLedger(
                f"{path}: no manifest of a segment: {type(error).__name__}: {error}"
            ) from None
        segment = cls(number, first, last, (path, len(manifests.seal(fields))), index, tables, summed)
        if verify:
            segment.verify()
        return segment

    def verify(self, table: str | None = None) -> None:
        """Compare the file of `table`, or all files, with their hashes. Raise CorruptLedger."""
        if table is None:
            for file in (self.index, *self.tables.values()):
                verify_file(file)
        elif table in self.tables:
            verify_file(self.tables[table])

    def path(self, table: str) -> Path | None:
        """Return the Parquet file with the rows of `table`; `None` if no frame has it."""
        return self.tables[table].path if table in self.tables else None

    def rows(self, table: str) -> int:
        """Return the number of rows of `table`."""
        return self.tables[table].rows if table in self.tables else 0

    def table(self, name: str, coded: Collection[str] = (), columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows of an existing table in order; with `columns`, those of them that its file has.

        Dictionaries are decoded, but for the columns `coded`, whose texts repeat and take much memory.
        """
        path = self.tables[name].path
        there = set(pq.read_schema(path).names)
        with pq.ParquetFile(path, read_dictionary=[column for column in coded if column in there]) as file:
            return file.read(None if columns is None else [column for column in columns if column in there])

    def highest(self, table: str, column: str) -> int | None:
        """Return the highest of a column's whole numbers, by the statistics of its file; `None`: no rows."""
        if not self.rows(table):
            return None
        path = self.tables[table].path
        described = pq.read_metadata(path)
        at = described.schema.names.index(column)
        groups = [described.row_group(i).column(at).statistics for i in range(described.num_row_groups)]
        if any(group is None or not group.has_min_max for group in groups):
            return pc.max(pq.read_table(path, columns=[column])[column]).as_py()
        return max(group.max for group in groups)

    def files(self) -> list[tuple[Path, int]]:
        """Return (file, its bytes) of everything that a copy needs, the manifest last."""
        files = [(file.path, file.bytes) for file in (*self.tables.values(), self.index)]
        return [*files, self.manifest]

    def batch_ids(self) -> dict[int, bytes]:
        """Return the batch ids of all frames by sequence; of a summed segment, of those that it still has."""
        index = self._index()
        sequences, firsts = np.unique(index["sequence"].to_numpy(), return_index=True)
        ids = index["batch_id"].take(pa.array(firsts)).to_pylist()
        return dict(zip(sequences.tolist(), ids, strict=True))

    def last_with(self, tables: Collection[str]) -> int | None:
        """Return the sequence of the last frame that has any of `tables`."""
        wanted = [name for name in tables if name in self.tables]
        if not wanted:
            return None
        index = self._index()
        holding = pc.is_in(index["table"], value_set=pa.array(wanted))
        return pc.max(index["sequence"].filter(holding)).as_py()

    def counts(self) -> pa.Table:
        """Return (sequence, table, rows) of every record batch, in order; an empty frame has a NULL table."""
        return self._index().select(["sequence", "table", "rows"])

    def rows_until(self, last: int) -> dict[str, int]:
        """Return the number of rows of each table that come with frames up to `last`."""
        counts = self.counts()
        kept = counts.filter(pc.less_equal(counts["sequence"], last)).group_by("table")
        summed = kept.aggregate([("rows", "sum")]).to_pydict()
        rows = zip(summed["table"], summed["rows_sum"], strict=True)
        return {name: number for name, number in rows if name and number}

    def frames(self, after: int = 0, tables: Collection[str] | None = None) -> Iterator[Frame]:
        """Yield the frames behind sequence `after`; with `tables`, only their parts in these tables."""
        wanted = set(self.tables) if tables is None else set(tables) & set(self.tables)
        if after >= self.last or (tables is not None and not wanted):
            return
        index = self._index()
        start = int(np.searchsorted(index["sequence"].to_numpy(), after, side="right"))
        before = index.slice(0, start).group_by("table").aggregate([("rows", "sum")])
        at = dict.fromkeys(self.tables, 0)  # rows of each table that came before
        at.update(zip(before["table"].to_pylist(), before["rows_sum"].to_pylist(), strict=True))
        stored = index["form"].combine_chunks()
        forms = functools.lru_cache(64)(lambda number: _parsed(stored.dictionary[number].as_buffer()))
        columns = [index[name][start:].to_pylist() for name in ("sequence", "batch_id", "table", "rows")]
        parts = zip(*columns, stored.indices[start:].to_pylist(), strict=True)  # one for each record batch
        with contextlib.ExitStack() as stack:
            rows = {name: stack.enter_context(ParquetRows(self.tables[name].path)) for name in wanted}
            for (sequence, batch_id), group in itertools.groupby(parts, key=lambda part: part[:2]):
                found: dict[str, list[pa.RecordBatch]] = {}
                schemas: dict[str, pa.Schema] = {}
                for _, _, name, count, number in group:
                    if name in wanted:
                        schemas[name], form = forms(number)
                        batches = found.setdefault(name, [])
                        if count:
                            batches.append(_restore(schemas[name], form, rows[name].slice(at[name], count)))
                        elif form is not None:
                            batches.append(form)
                        at[name] += count
                if found or tables is None:
                    made = {name: pa.Table.from_batches(found[name], schemas[name]) for name in found}
                    yield Frame(sequence, batch_id, made)

    def _index(self) -> pa.Table:
        verify_file(self.index)  # it is read rarely, and in one go
        return pa.ipc.open_stream(self.index.path.read_bytes()).read_all()


def compact(folder: Path, journal: Journal) -> Segment:
    """Publish the closed `journal` as a segment, durably; the journal itself stays.

    At most one row group of each table is in memory. Raise DiskFailed, CorruptLedger for a frame that has
    changed, StorageError for columns that Parquet cannot hold.
    """
    if not journal.uniform:
        raise StorageError(f"{journal.path}: not compacted: a column changes its type within the segment")
    number, index = journal.number, _IndexWriter()
    try:
        with contextlib.ExitStack() as stack, open(journal.path, "rb") as file:
            writers = {
                name: stack.enter_context(rows_writer(_table_path(folder, number, name), schema))
                for name, schema in journal.columns.schemas.items()
            }
            for place in journal.places:
                if not place.names:
                    index.add(place, None, 0, None)
                for name, data in streams(read(file, journal.path, place)):
                    stream = open_stream(data)
                    batches = list(stream)
                    for batch in batches:
                        index.add(place, name, len(batch), _form(batch))
                        writers[name].add(batch)
                    if not batches:
                        index.add(place, name, 0, write_stream(stream.schema, [], 0))
    except pa.ArrowException as error:
        raise StorageError(f"{journal.path}: not compacted: {error}") from error
    tables = {name: writer.file() for name, writer in writers.items()}
    entry = index.write(_index_path(folder, number))
    return _published(folder, number, journal.first, journal.last, entry, tables)


def replace(
    folder: Path,
    segment: Segment,
    made: Mapping[str, tuple[pa.Table, npt.NDArray[np.int64]]],
    gone: Collection[str],
    first_seq: int,
    last_seq: int,
) -> Segment:
    """Publish `segment` with other rows in some tables, durably; its files of before stay for readers.

    `made` has the new rows and the frame that each of them comes with, in order. Tables in `gone` that are
    not among them are there no more. Frames that are left with nothing are found no more, but the last one.
    The manifest is replaced last: a crash leaves the segment as it was. Raise DiskFailed.
    """
    number, index = segment.number, _IndexWriter()
    old = segment._index()
    kept = {name: file for name, file in segment.tables.items() if name not in made and name not in gone}
    stored = old["form"].combine_chunks()
    columns = [old[name].to_pylist() for name in ("sequence", "batch_id", "table", "rows")]
    parts: list[tuple[int, str | None, int, bytes | None]] = []
    ids: dict[int, bytes] = {}
    for sequence, batch_id, name, rows, form in zip(*columns, stored.indices.to_pylist(), strict=True):
        ids[sequence] = batch_id
        if name in kept:
            parts.append((sequence, name, rows, stored.dictionary[form].as_py()))
    tables = dict(kept)
    for name, (rows, frames) in made.items():
        with rows_writer(_table_path(folder, number, name, SUMMED), rows.schema) as writer:
            form = write_stream(rows.schema, [], 0)
            sequences, starts = np.unique(frames, return_index=True)
            for sequence, start, end in zip(
                sequences.tolist(), starts, [*starts[1:], len(frames)], strict=True
            ):
                (batch,) = rows.slice(start, end - start).combine_chunks().to_batches()
                writer.add(batch)
                parts.append((sequence, name, len(batch), form))
        tables[name] = writer.file()
    if all(sequence != segment.last for sequence, *_ in parts):
        parts.append((segment.last, None, 0, None))
    for sequence, name, rows, form in sorted(parts, key=lambda part: part[0]):
        index.add(FrameOffset(sequence, ids[sequence], 0, 0, ()), name, rows, form)
    entry = index.write(_index_path(folder, number, SUMMED))
    summed = {"first_seq": first_seq, "last_seq": last_seq}
    return _published(folder, number, segment.first, segment.last, entry, tables, summed)


def _published(
    folder: Path,
    number: int,
    first: int,
    last: int,
    index: File,
    tables: dict[str, File],
    summed: dict[str, Any] | None = None,
) -> Segment:
    """Write the manifest that makes a segment of these files exist, durably, and return the segment."""
    fields: dict[str, Any] = {
        "first": first,
        "last": last,
        "frames": entry_of(index),
        "tables": {name: entry_of(table) for name, table in tables.items()},
    }
    manifest = manifests.seal(fields if summed is None else fields | {"summed": summed})
    path = manifest_path(folder, number)
    write_whole(path, [manifest], mode=0o444)
    return Segment(number, first, last, (path, len(manifest)), index, tables, summed)


def superseded(folder: Path, seconds: float) -> Iterator[Path]:
    """Yield files of summed segments that their manifests no longer name, `seconds` after they were replaced.

    Files with sums that no manifest names are half of what a crash cut short.
    """
    found: dict[int, list[str]] = {}
    for name in os.listdir(folder):
        if name[:8].isdecimal() and name.endswith((".parquet", ".arrow")):
            found.setdefault(int(name[:8]), []).append(name)
    for number, names in sorted(found.items()):
        # The index of before goes last, so that a segment with files left to remove is known by names alone.
        index, manifest = _index_path(folder, number).name, manifest_path(folder, number)
        if index not in names or not any(f"{SUMMED}." in name for name in names) or not manifest.exists():
            continue
        segment = Segment.load(folder, number, verify=False)
        if segment.summed is None or time.time() - manifest.stat().st_mtime > seconds:
            named = {file.name for file, _ in segment.files()}
            gone = [name for name in names if name not in named]
            yield from (folder / name for name in sorted(gone, key=lambda name: (name == index, name)))


def entry_of(file: File) -> dict[str, Any]:
    """Return what a manifest has of a file."""
    return {"file": file.path.name, "rows": file.rows, "bytes": file.bytes, "blake3": file.hash}


def file_of(paths: list[Path], entry: dict[str, Any]) -> File:
    """Return the file, one of `paths`, that a manifest names. Raise ValueError, KeyError, TypeError."""
    path = next((path for path in paths if path.name == entry["file"]), paths[0])
    file = File(path, int(entry["rows"]), int(entry["bytes"]), entry["blake3"])
    if entry != entry_of(file):
        raise ValueError(f"found {entry}, expected file, rows, bytes and blake3 of {path.name}")
    return file


def verify_file(file: File) -> None:
    """Compare a file with its hash. Raise CorruptLedger."""
    try:
        size = file.path.stat().st_size
        found = blake3().update_mmap(file.path).hexdigest() if size == file.bytes else f"{size} bytes"
    except OSError as error:
        raise CorruptLedger(
            f"{file.path}: cannot be read: {error.strerror or error}; restore it from a backup"
        ) from None
    if found != file.hash:
        raise CorruptLedger(
            f"{file.path}: found {found}, expected {file.bytes} bytes that hash to {file.hash}; "
            "restore the file from a backup"
        )


# ---------------------------------------------------------------------- how a frame's tables were


def _form(batch: pa.RecordBatch) -> bytes:
    """Return the bytes that turn plain rows into `batch` again: a stream of its schema.

    If it has dictionaries, the stream also has the batch without its rows. The dictionaries are kept where
    one has a value twice, since values alone would not give the indices.
    """
    dictionaries = [
        batch.column(i).dictionary for i, t in enumerate(batch.schema.types) if pa.types.is_dictionary(t)
    ]
    if not dictionaries:
        return write_stream(batch.schema, [], 0)
    distinct = all(not d.null_count and pc.count_distinct(d).as_py() == len(d) for d in dictionaries)
    kept = batch.slice(0, 0) if distinct else batch
    return write_stream(batch.schema, [kept], sum(d.nbytes for d in dictionaries))


def _parsed(form: pa.Buffer) -> tuple[pa.Schema, pa.RecordBatch | None]:
    stream = open_stream(form)
    return stream.schema, next(iter(stream), None)


def _restore(schema: pa.Schema, form: pa.RecordBatch | None, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the plain `rows` as they were in the batch that `form` was made of."""
    if form is not None and len(form):
        return form
    columns = []
    for i, field in enumerate(schema):
        column = rows.column(field.name)
        if form is not None and pa.types.is_dictionary(field.type):
            dictionary = form.column(i).dictionary
            indices = pc.index_in(column, value_set=dictionary).cast(field.type.index_type)
            column = pa.DictionaryArray.from_arrays(indices, dictionary, ordered=field.type.ordered)
        elif pa.types.is_null(field.type):
            column = pa.nulls(len(rows))
        elif column.type != field.type:
            column = column.cast(field.type)  # Parquet has no times in seconds: they are milliseconds there
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _IndexWriter:
    """Writer of the index: a row per frame, table and record batch."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, bytes, str | None, int, int | None]] = []
        self._forms: dict[bytes, int] = {}  # and their numbers

    def add(self, place: FrameOffset, table: str | None, rows: int, form: bytes | None) -> None:
        """Add a record batch of a frame."""
        number = None if form is None else self._forms.setdefault(form, len(self._forms))
        self._parts.append((place.sequence, place.batch_id, table, rows, number))

    def write(self, path: Path) -> File:
        """Write the index."""
        kinds = pa.int64(), pa.binary(BATCH_ID_BYTES), pa.string(), pa.int64(), pa.int32()
        values = zip(*self._parts, strict=True) if self._parts else [()] * len(kinds)
        *columns, numbers = (pa.array(each, kind) for each, kind in zip(values, kinds, strict=True))
        forms = pa.DictionaryArray.from_arrays(numbers, pa.array(list(self._forms), pa.large_binary()))
        rows = pa.table([*columns, forms], ["sequence", "batch_id", "table", "rows", "form"])
        data = write_stream(rows.schema, rows.to_batches(), rows.nbytes)
        write_whole(path, [data], mode=0o444)
        return File(path, len(rows), len(data), blake3(data).hexdigest())
