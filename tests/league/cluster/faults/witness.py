"""A witness: reads the ledger beside the writer and remembers each fact that it has seen, and when."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from storage.layout import LEDGER
from storage.ledger.follower import Follower
from storage.ledger.frames import decode
from storage.ledger.segments import Segment

LOOK_SECONDS = 0.1


class Seen(NamedTuple):
    """What some frame brought."""

    at: float  # by the monotonic clock
    updates: int = 0  # of a player's learner


class Witness:
    """All frames of a run by sequence, and the times of what they brought."""

    def __init__(self, run: Path) -> None:
        self._folder = run / LEDGER
        self.frames: dict[int, bytes] = {}  # batch ids by sequence
        self.matches: list[float] = []  # times of frames with matches
        self.match_ids: set[int] = set()
        self.updates: dict[str, list[Seen]] = defaultdict(list)
        self.played: dict[str, float] = {}  # when a match was recorded that the player learned from
        self.seats: dict[str, list[tuple[float, int]]] = defaultdict(list)  # of those: time and number
        self.incidents: list[tuple[float, str, str, str]] = []  # time, kind, who, cause
        self.decisions: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        follower: Follower | None = None
        while not self._ended.is_set():
            time.sleep(LOOK_SECONDS)
            if follower is None and not self._folder.exists():
                continue
            try:
                follower = follower or Follower(self._folder)
                segments, payloads = follower.look()
                for segment in segments:
                    segment.verify()
                    self._compacted(segment)
                for frame in (decode(place, payload) for place, payload in payloads):
                    self._take(frame.sequence, frame.batch_id, frame.tables)
            except Exception as error:  # shown by whoever waits
                self.error = error
                return

    def _compacted(self, segment: Segment) -> None:
        """Compare a compacted segment with what was seen of it, and take in what was not seen yet."""
        ids = segment.batch_ids()
        unseen = [sequence for sequence in ids if sequence not in self.frames]
        changed = [sequence for sequence in ids if self.frames.get(sequence, ids[sequence]) != ids[sequence]]
        assert not changed, f"frames have changed: {changed[:5]}"
        for frame in segment.frames(unseen[0] - 1, None) if unseen else ():  # decoding all takes a minute
            if frame.sequence not in self.frames:
                self._take(frame.sequence, frame.batch_id, frame.tables)

    def _take(self, sequence: int, batch_id: bytes, tables: dict[str, pa.Table]) -> None:
        now = time.monotonic()
        assert self.frames.get(sequence, batch_id) == batch_id, "a frame has changed"
        self.frames[sequence] = batch_id
        if "matches" in tables:
            self.matches.append(now)
            ids = tables["matches"]["match_id"].to_pylist()
            twice = self.match_ids.intersection(ids)
            assert not twice, f"matches are there twice: {sorted(twice)[:5]}"
            assert len(set(ids)) == len(ids), "matches are there twice in one frame"
            self.match_ids.update(ids)
            seats = tables["seats"].filter(tables["seats"]["learning"])
            for row in seats["competitor"].value_counts().to_pylist():
                self.played[row["values"]] = now
                self.seats[row["values"]].append((now, row["counts"]))
        for row in tables["updates"].to_pylist() if "updates" in tables else ():
            self.updates[row["player"]].append(Seen(now, row["updates"]))
        for row in tables["incidents"].to_pylist() if "incidents" in tables else ():
            self.incidents.append((now, row["kind"], row["who"], row["cause"]))
        for row in tables["decisions"].to_pylist() if "decisions" in tables else ():
            self.decisions.append((row["kind"], f"{row['player']}: {row['reason']}"))

    def rate(self, player: str, since: float, until: float) -> float:
        """Return the seats a second in which the player learned, in matches recorded in that time."""
        return sum(n for at, n in self.seats[player] if since < at <= until) / (until - since)

    def longest_gap(self, since: float, until: float) -> float:
        """Return the longest time without a recorded match."""
        times = [since, *(at for at in self.matches if since < at < until), until]
        return max(later - before for before, later in itertools.pairwise(times))
