"""A journal: one segment of the ledger as it is written, frame behind frame, until it is compacted."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from storage.ledger.frames import Frame, FrameOffset, decode, not_arrow, read, scan, streams


def journal_path(folder: Path, number: int) -> Path:
    """Return the path of the journal of that number in the ledger `folder`."""
    return folder / f"{number:08d}.journal"


class PlainColumns:
    """The columns of all tables of a segment, dictionaries decoded: the columns of its Parquet files."""

    def __init__(self) -> None:
        self.schemas: dict[str, pa.Schema] = {}
        self._seen: set[tuple[str, bytes]] = set()

    def take(self, sections: Iterable[tuple[str, pa.Buffer]]) -> bool:
        """Add the columns of a frame's tables; return False and add none if one has another type already."""
        added: dict[str, pa.Schema] = {}
        seen = []
        for name, stream in sections:
            head = _schema_message(stream)
            if (name, head) not in self._seen:
                seen.append((name, head))
                fresh = _plain(pa.ipc.read_schema(pa.py_buffer(head)))
                known = self.schemas.get(name, fresh)
                try:
                    added[name] = pa.unify_schemas([known, fresh], promote_options="default")
                except (pa.ArrowInvalid, pa.ArrowTypeError):
                    return False
        self.schemas.update(added)
        self._seen.update(seen)
        return True


class Journal:
    """A journal's index of frames, and the frames themselves, read on demand.

    `before` is the sequence of the last frame of the segment before.
    """

    def __init__(self, folder: Path, number: int, before: int) -> None:
        self.number = number
        self.path = journal_path(folder, number)
        self.first = before + 1
        self.places: list[FrameOffset] = []
        self.columns = PlainColumns()
        self.uniform = True  # no column has two types: can be compacted

    @classmethod
    def scanned(cls, folder: Path, number: int, before: int, last: bool) -> Journal:
        """Read the index of the journal in the file. Raise OSError, CorruptLedger."""
        journal = cls(folder, number, before)
        with open(journal.path, "rb") as file:
            for place, payload in scan(file, journal.path, previous=before, last=last):
                try:
                    journal.uniform &= journal.columns.take(streams(payload))
                except (pa.ArrowException, OSError, struct.error) as error:
                    raise not_arrow(place, error) from None
                journal.places.append(place)
        return journal

    @property
    def last(self) -> int:
        """Sequence of the last frame; first - 1 if there is none."""
        return self.first + len(self.places) - 1

    @property
    def end(self) -> int:
        """Bytes up to the end of the last whole frame."""
        return self.places[-1].offset + self.places[-1].size if self.places else 0

    def files(self) -> list[tuple[Path, int]]:
        """Return (file, bytes that count) of everything that a copy needs."""
        return [(self.path, self.end)]

    def batch_ids(self) -> dict[int, bytes]:
        """Return the batch ids of all frames by sequence."""
        return {place.sequence: place.batch_id for place in self.places}

    def last_with(self, tables: Collection[str]) -> int | None:
        """Return the sequence of the last frame that has any of `tables`."""
        holding = (p.sequence for p in reversed(self.places) if not set(tables).isdisjoint(p.names))
        return next(holding, None)

    def frames(self, after: int = 0, tables: Collection[str] | None = None) -> Iterator[Frame]:
        """Yield the frames behind sequence `after`; with `tables`, only their parts in these tables.

        Raise FileNotFoundError, before the first frame only, if the journal is gone; CorruptLedger.
        """
        places = self.places[max(0, after - self.first + 1) :]
        if tables is not None:
            places = [place for place in places if not set(tables).isdisjoint(place.names)]
        if places:
            with open(self.path, "rb") as file:
                for place in places:
                    yield decode(place, read(file, self.path, place), tables)


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return `schema` with dictionaries decoded, every column nullable, no metadata."""
    return pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )


def _schema_message(stream: pa.Buffer) -> bytes:
    """Return the first message of an Arrow IPC stream: marker u32, length u32, and that many bytes.

    Format: https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format
    """
    _, length = struct.unpack("<II", stream[:8].to_pybytes())
    return stream.slice(0, 8 + length).to_pybytes()
