"""The rows of a segment that its sums are made of, and where stretches and stages in it end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.ledger.segments import Segment
from storage.retention.groups import Ints, Key
from storage.tables import schema

BOUNDS = ("decisions", "snapshots", "runs", "players")  # tables whose frames no stretch of matches spans
OF_PLAYERS = ("decisions", "snapshots", "players")  # those with a player
RESOLUTION = 256
KINDS = ("purpose", "match_type", "env", "reason", "player")  # texts of matches
_READ = {  # columns that sums are made of
    "matches": ("seq", *KINDS, "env_steps", "started_at", "seconds", "num_seats"),
    "seats": ("competitor", "learning", "outcome", "score"),
}


class SegmentRows:
    """What is read of a segment. Frames are numbered from 0 here."""

    def __init__(self, segment: Segment) -> None:
        self._segment, self.first = segment, segment.first
        self.last_match_id = segment.highest("matches", "match_id") or 0
        counts = segment.counts()
        self._sequences = counts["sequence"].to_numpy() - segment.first
        self._counts = counts["rows"].to_numpy()
        self._names = counts["table"].to_numpy(zero_copy_only=False)
        self.num_frames = segment.last - segment.first + 1
        self.matches = self.rows("matches")
        self.at = self.frames("matches")  # [matches]
        self.seq = self.matches["seq"].to_numpy()
        self.sizes = self._sizes()  # [matches] number of seats

    def rows(self, name: str) -> pa.Table:
        """Return the rows of a table, of columns that sums are made of; one that the file lacks is NULL."""
        columns = schema.arrow_schema(name)
        wanted = [columns.field(column) for column in _READ.get(name, columns.names)]
        if name not in self._segment.tables:
            return pa.schema(wanted).empty_table()
        self._segment.verify(name)
        texts = [field.name for field in wanted if pa.types.is_string(field.type)]
        rows = self._segment.table(name, texts, [field.name for field in wanted])
        for field in wanted:
            if field.name not in rows.column_names:
                rows = rows.append_column(field.name, pa.nulls(len(rows), field.type))
        return rows

    def _sizes(self) -> Ints:
        sizes = self.matches["num_seats"].fill_null(-1).to_numpy().astype(np.int64)
        if (sizes < 0).any():  # recorded before it was stored
            seq = self._segment.table("seats")["seq"].to_numpy()
            sizes = np.searchsorted(seq, self.seq, side="right") - np.searchsorted(seq, self.seq)
        return sizes

    def frames(self, name: str) -> Ints:
        """Return the frame of each row of a table."""
        mine = self._names == name
        return np.repeat(self._sequences[mine], self._counts[mine])

    def players(self, name: str) -> npt.NDArray[Any]:
        """Return the player of each row of a table."""
        self._segment.verify(name)
        return self._segment.table(name, columns=["player"])["player"].to_numpy()

    def bounds(self) -> Ints:
        """Return how many frames with BOUNDS there are up to each frame."""
        there = np.zeros(self.num_frames, np.int64)
        there[self._sequences[np.isin(self._names, BOUNDS)]] = 1
        return np.cumsum(there)

    def stretches(self, most: float = np.inf) -> Ints:
        """Return the stretch of each frame: RESOLUTION in the run so far, and in the segment at `most`."""
        last = np.zeros(self.num_frames, np.int64)
        last[self.at] = self.seq  # of each frame the last match
        last = np.maximum.accumulate(np.maximum(last, self.seq[0] if len(self.seq) else 0))
        span = int(last[-1] - last[0]) + 1
        width = max(1, int(last[-1]) // RESOLUTION, int(np.ceil(span / max(1, most))))
        return (last - last[0]) // width


class Stages:
    """Stages of competitors: how often their player was decided on or frozen in the segment."""

    def __init__(self, part: SegmentRows) -> None:
        found: dict[str, list[Ints]] = {}
        for name in OF_PLAYERS:
            frames = part.frames(name)
            players = part.players(name) if len(frames) else np.zeros(0, np.str_)
            for player in set(players.tolist()):
                found.setdefault(player, []).append(frames[players == player])
        self._row = {player: number for number, player in enumerate(found, 1)}
        self._stage = np.zeros((1 + len(found), part.num_frames), np.int64)  # row 0: without stages
        for number, each in enumerate(found.values(), 1):
            bounds = np.unique(np.concatenate(each))
            self._stage[number] = np.searchsorted(bounds, np.arange(part.num_frames), side="right")

    def of(self, codes: npt.NDArray[Any], names: pa.Array, at: Ints) -> Key:
        """Return the stage of each of n competitors, `names[codes]`, at its frame `at` [n]."""
        row = np.array([self._row.get(name, 0) for name in names.to_pylist()], np.int64)
        return self._stage[row[codes], at], int(self._stage.max()) + 1
