"""The archive: a run's durable memory, and the only way to write it.

    archive.add_snapshot(...)            blob, then manifest, then ledger: a row never lacks its file
    archive.append_results(...)          returns when the facts are on disk
    archive.history()                    everything again, in order, to resume by replaying

Readers that may come while a run trains use `open_reader`, which needs no lock.
"""

from __future__ import annotations

import json
import math
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import pyarrow as pa
import yaml

from storage.disk import guard, make_folder, whole_folder, write_json, write_whole
from storage.ends import MOST_REASON, End
from storage.errors import StorageError
from storage.incidents import Incident
from storage.layout import (
    CONFIG,
    FORMAT,
    INCIDENTS,
    LEARNERS,
    LEDGER,
    MANIFESTS,
    OBJECTS,
    VERSION,
    require_ledger,
    require_new,
)
from storage.ledger.compaction import Compaction
from storage.ledger.ledger import Ledger
from storage.reader import SEATED, ArchiveReader, open_reader, read_competitors
from storage.records import (
    Bot,
    BranchPoint,
    CacheRecord,
    Competitor,
    Decision,
    DrawnPair,
    Entrant,
    Freeze,
    LivePlayer,
    RatingChange,
    ResultBatch,
    Role,
    Snapshot,
    UpdateRecord,
    YardstickRecord,
)
from storage.retention.retention import Retention
from storage.retention.segment_sums import SegmentSums
from storage.settings import Keep
from storage.snapshots import blobs, learner_states, manifests
from storage.snapshots.blobs import Tensors
from storage.tables import codec, columns
from storage.tables.columns import (
    FOLDED,
    competitor_tables,
    competitors_of,
    entrant_tables,
    folded_of,
    folded_table,
)
from storage.tables.database_file import METADATA

__all__ = ["Archive", "ArchiveReader", "open_reader"]

FOLD_MATCHES = 200_000  # behind the newest fold, for another one: a resume applies them in seconds
LAST_FOLD_MATCHES = 10_000  # the same when training ends
SETTLED_BYTES = 2 * 2**20  # of the newest journal, from which on it is compacted when a session ends
MATCHES_PER_BYTE = 2  # of a fold, at least between two: it takes about a twentieth of what matches take
_T = TypeVar("_T")
_NUMBERED = dict.fromkeys(("matches", "summed_matches", "decisions", "updates"), "seq")
"""Columns that share the run's counter."""


class Archive(ArchiveReader):
    """The one writer of a run; made by `create` or `open`, closed by `close` or `with`.

    All that writes raises RunTaken, and has written nothing, once another process went on with the run.
    """

    def __init__(self, run: Path, ledger: Ledger, keep: Keep | None = None) -> None:
        super().__init__(run, read_competitors(run))
        self.num_changes = 0  # frames with METADATA that were recorded since the run was opened
        self._ledger = ledger
        self._next_seq = max(ledger.highest(_NUMBERED), 0) + 1
        self._keep = keep
        self._ended = False  # whether what a session recorded is to be compacted
        self._folded = 0  # frame of a fold that a resume goes on from; before it is known, no match goes
        self._fold_bytes, self._behind_fold = 0, 0  # of the newest fold, and the matches since
        steps = [SegmentSums(ledger).step]
        if keep is not None:
            steps.append(Retention(ledger, keep, lambda: self._folded).step)
        # all of them each time, so that none starves another
        self._compaction = Compaction(ledger, lambda: sum(step() for step in steps) > 0)
        self._end_guard = guard(run, ledger.require_own)

    @classmethod
    def create(
        cls,
        run: str | Path,
        config_yaml: str,
        run_row: Mapping[str, Any],
        entrants: Sequence[Entrant] = (),
        keep: Keep | None = None,
    ) -> Archive:
        """Make a new run at `run`, which appears whole, with the `entrants` of a tournament, or not at all.

        `run_row` has name, env and seed, and most_lead where payoffs count scores. Raise RunExists unless
        `run` is absent or an empty folder, Mistake where no folder can be.
        """
        run = Path(run)
        require_new(run)
        now = time.time()
        first = {"runs": columns.run_table(run_row, config_yaml, 1, now), **entrant_tables(entrants, now)}
        with whole_folder(run) as fresh:
            for folder in (LEDGER, OBJECTS, MANIFESTS, LEARNERS):
                make_folder(fresh / folder)
            write_whole(fresh / CONFIG, [config_yaml.encode()])
            with Ledger(fresh / LEDGER, _owner()) as ledger:
                ledger.append(first)
            write_json(fresh / FORMAT, {"version": VERSION})
        return cls.open(run, keep)

    @classmethod
    def open(cls, run: str | Path, keep: Keep | None = None) -> Archive:
        """Open the run at `run` for writing.

        With `keep` older matches are summed up from now on, once `note_fold` has recorded what they led to.

        Where the process that wrote it was cut off, it is kept out from then on (storage/ledger/lock.py).
        Raise NotARun, RunLocked, CorruptLedger.
        """
        run = Path(run)
        require_ledger(run)
        ledger = Ledger(run / LEDGER, _owner())
        try:
            return cls(run, ledger, keep)
        except BaseException:
            ledger.close()
            raise

    # ------------------------------------------------------------------ writing

    @property
    def next_seq(self) -> int:
        """Number of the next match, decision or update; the first is 1."""
        return self._next_seq

    def begin_session(
        self, run_row: Mapping[str, Any], config_yaml: str, entrants: Sequence[Entrant] = ()
    ) -> int:
        """Record that the run continues, and its settings; `create` does so for the first session.

        `entrants` join a tournament from now on, in the same frame. Raise StorageError if a name is taken.

        The file of settings is that of the newest session, but where a remote knows the run by its first one.
        """
        for entrant in entrants:
            self._require_free(entrant.competitor)
        if not any(map(_names_remote, (self.config(), yaml.safe_load(config_yaml)))):
            write_whole(self.run / CONFIG, [config_yaml.encode()])
        now = time.time()
        begun = columns.run_table(run_row, config_yaml, self._next_seq, now)
        tables = {"runs": begun, **entrant_tables(entrants, now)}
        sequence = self._append(tables, numbers=0)
        self._competitors |= {entrant.competitor: entrant for entrant in entrants}
        return sequence

    def add_player(self, player: LivePlayer, decisions: Sequence[Decision] = ()) -> int:
        """Record a new player, in one frame with the `decisions` (an Add) that it comes from.

        Raise StorageError if the name is taken.
        """
        return self._seat(player, decisions)

    def add_bot(self, bot: Bot) -> int:
        """Record a new bot. Raise StorageError if the name is taken."""
        return self._seat(bot)

    def add_snapshot(
        self,
        player: str,
        role: Role,
        env_steps: int,
        updates: int,
        parent_id: str | None,
        tensors: Tensors,
        spec: Mapping[str, Any],
        architecture: str,
        reason: str,
        evidence: Mapping[str, float] | None = None,
        decisions: Sequence[Decision] = (),
    ) -> Snapshot:
        """Store `tensors` (copied) as the snapshot `<player>@<env_steps>`, durable on return.

        If an imported snapshot has that id, a number follows it. `spec` (JSON) is what a policy is built
        from; `evidence` goes into the manifest (`None`: that of the Freeze in `decisions`). `decisions`, the
        Freeze that led here and its consequences, are recorded in one frame with the snapshot: after a crash
        all of them, or none.

        Raise StorageError if the id is taken or the parent unknown; nothing is recorded then.
        """
        snapshot_id = self._own_id(player, env_steps)
        self._require_free(snapshot_id)
        if parent_id is not None and not isinstance(self._competitors.get(parent_id), Snapshot):
            raise StorageError(f"{self.run}: parent '{parent_id}' of '{snapshot_id}' is no snapshot here")
        blob_hash, size = blobs.publish(self.run / OBJECTS, tensors)
        created_at = time.time()
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            player=player,
            role=role,
            env_steps=env_steps,
            updates=updates,
            parent_id=parent_id,
            blob_hash=blob_hash,
            bytes=size,
            architecture=architecture,
            created_at=created_at,
            reason=reason,
        )
        if evidence is None:
            evidence = next((d.evidence for d in decisions if isinstance(d, Freeze)), {})
        fields = {
            "evidence": json.loads(codec.numbers_to_json(evidence)),
            "spec": dict(spec),
            "tensors": blobs.describe(tensors),
        }
        self._write_manifest(snapshot, fields)
        tables = competitor_tables(snapshot, created_at)
        if decisions:
            tables["decisions"] = columns.decision_table(decisions, self._next_seq, created_at, snapshot_id)
        self._append(tables, numbers=len(decisions))
        self._competitors[snapshot_id] = snapshot
        return snapshot

    def add_imported(self, snapshot: Snapshot, fields: Mapping[str, Any]) -> None:
        """Record a snapshot whose blob was received already; `fields` are added to its manifest.

        Raise StorageError if the id is taken.
        """
        self._require_free(snapshot.snapshot_id)
        self._write_manifest(snapshot, fields)
        self._append(competitor_tables(snapshot, snapshot.created_at), numbers=0)
        self._competitors[snapshot.snapshot_id] = snapshot

    def append_results(
        self, results: ResultBatch, changes: Sequence[RatingChange], drawn: Sequence[DrawnPair] = ()
    ) -> int:
        """Record M results and the ratings after them as one batch, durable on return; return its sequence.

        `drawn` are pairs of a tournament whose first match is among the results. An empty batch writes
        nothing. Raise IndexError for a competitor, match type, outcome or reason without a name; nothing is
        written then.
        """
        if not drawn:
            return self.append_all_results([(results, changes)])
        tables = columns.result_tables(results, changes, self._next_seq, self._ledger.last_sequence + 1)
        row = {int(number): self._next_seq + at for at, number in enumerate(results.matches.match_id)}
        tables["drawn_pairs"] = codec.rows("drawn_pairs", drawn, seq=[row[pair.match_id] for pair in drawn])
        self._append(tables, numbers=len(results))
        self._behind_fold += len(results)
        return self._ledger.last_sequence

    def append_all_results(self, batches: Sequence[tuple[ResultBatch, Sequence[RatingChange]]]) -> int:
        """Record batches of results, each with the ratings after it, durable together on return.

        Return the ledger's last sequence. A crash keeps the first few of them. Raise as `append_results`.
        """
        seq, sequence = self._next_seq, self._ledger.last_sequence
        several = []
        for results, changes in batches:
            if len(results):
                sequence += 1
                several.append((columns.result_tables(results, changes, seq, sequence), len(results)))
                seq += len(results)
        self._append_all(several)
        self._behind_fold += sum(rows for _, rows in several)
        return self._ledger.last_sequence

    def append_ratings(self, changes: Sequence[RatingChange]) -> int:
        """Record ratings that follow from no result: those of newcomers."""
        return self._append_rows("ratings", changes, batch=self._ledger.last_sequence + 1)

    def append_decisions(self, decisions: Sequence[Decision]) -> int:
        """Record decisions that make no snapshot; the others are recorded by `add_snapshot`."""
        return self._append_numbered("decisions", columns.decision_table, decisions)

    def append_updates(self, records: Sequence[UpdateRecord]) -> int:
        """Record the reports of learners."""
        return self._append_numbered("updates", columns.update_table, records)

    def append_caches(self, records: Sequence[CacheRecord]) -> int:
        """Record the counters of the caches of this run's processes."""
        return self._append_rows("caches", records, recorded_at=time.time())

    def append_yardsticks(self, records: Sequence[YardstickRecord]) -> int:
        """Record what competitors score on fixed yardsticks, durable on return."""
        return self._append_rows("yardsticks", records, created_at=time.time())

    def append_incidents(self, incidents: Sequence[Incident]) -> int:
        """Record what died or was set aside, durable on return."""
        return self._append_rows("incidents", incidents)

    def append_end(self, end: End) -> int:
        """Record how a session ended, durable on return; `close` then compacts the rest of the ledger."""
        end = replace(end, reason=end.reason[:MOST_REASON])
        sequence = self._append_rows("ends", [end])
        self._ended = self._ledger.end_segment(SETTLED_BYTES)
        return sequence

    def save_set_aside(self, name: str, fields: Mapping[str, Any]) -> Path:
        """Keep matches that were set aside, as JSON, in a file of that name; return it. Raise DiskFailed."""
        make_folder(self.run / INCIDENTS)
        path = self.run / INCIDENTS / name
        write_json(path, fields)
        return path

    @property
    def wants_fold(self) -> bool:
        """Whether `note_fold` is due: a resume would apply many matches, or a segment can be summed up."""
        if self._keep is not None and self._ledger.closed_until > self._folded:
            return True
        return self._behind_fold >= max(FOLD_MATCHES, MATCHES_PER_BYTE * self._fold_bytes)

    @property
    def wants_last_fold(self) -> bool:
        """Whether `note_fold` is worth it when training ends."""
        return self._behind_fold >= LAST_FOLD_MATCHES

    def note_fold(self, arrays: Mapping[str, npt.NDArray[Any]], fields: Mapping[str, Any]) -> int:
        """Record what the league is a fold of all results so far to, for a resume to go on from."""
        table = folded_table(arrays, fields)
        sequence = self._append({FOLDED: table}, numbers=0)
        self._fold_bytes = table.nbytes
        self.rely_on_fold(sequence)
        return sequence

    def rely_on_fold(self, sequence: int, matches: int = 0) -> None:
        """Let matches before that fold be summed up: the league was resumed from it, and `matches` behind."""
        self._folded, self._behind_fold = sequence, matches
        self._compaction.wake()

    def require_own(self) -> None:
        """Raise RunTaken if this process was cut off and another one goes on with the run."""
        self._ledger.require_own()

    def close(self) -> None:
        """Close the ledger, so that another process can open the run."""
        try:
            self._compaction.close(finish=self._ended)
        finally:
            self._end_guard()
            self._ledger.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _seat(self, competitor: LivePlayer | Bot, decisions: Sequence[Decision] = ()) -> int:
        self._require_free(competitor.competitor)
        now = time.time()
        tables = competitor_tables(competitor, now)
        if decisions:
            tables["decisions"] = columns.decision_table(decisions, self._next_seq, now)
        sequence = self._append(tables, numbers=len(decisions))
        self._competitors[competitor.competitor] = competitor
        return sequence

    def _own_id(self, player: str, env_steps: int) -> str:
        """Return the id of a player's snapshot, with a number if an import has taken the plain one.

        Ids are never parsed, so the number does no harm.
        """
        plain = wanted = f"{player}@{env_steps}"
        number = 1
        while isinstance(holder := self.find(wanted), Snapshot) and holder.player != player:
            number += 1
            wanted = f"{plain}-{number}"
        return wanted

    def _write_manifest(self, snapshot: Snapshot, fields: Mapping[str, Any]) -> None:
        manifest = {name: getattr(snapshot, name) for name in Snapshot.__slots__} | dict(fields)
        write_whole(self.manifest_path(snapshot.snapshot_id), [manifests.seal(manifest)])

    def _require_free(self, name: str) -> None:
        if name in self._competitors:
            kind = type(self._competitors[name]).__name__
            raise StorageError(f"{self.run}: '{name}' is there already ({kind}), expected a new name")

    def _append_rows(self, table: str, records: Sequence[Any], **others: Any) -> int:
        """Append rows, if there are any, of a table that takes no numbers of the run; return the sequence."""
        if not records:
            return self._ledger.last_sequence
        rows = codec.rows(table, records, seq=self._next_seq - 1, **others)
        return self._append({table: rows}, numbers=0)

    def _append_numbered(
        self, table: str, rows: Callable[[Sequence[_T], int, float], pa.Table], records: Sequence[_T]
    ) -> int:
        """Append rows, if there are any, each of which takes a number of the run; return the sequence."""
        if not records:
            return self._ledger.last_sequence
        return self._append({table: rows(records, self._next_seq, time.time())}, numbers=len(records))

    def _append(self, tables: dict[str, pa.Table], numbers: int) -> int:
        """Append a batch with so many numbered rows; return its sequence."""
        return self._append_all([(tables, numbers)])

    def _append_all(self, batches: Sequence[tuple[dict[str, pa.Table], int]]) -> int:
        """Append batches, each with so many numbered rows; return the last sequence of the ledger."""
        self._ledger.append_all([(tables, secrets.token_bytes(16)) for tables, _ in batches])
        self._next_seq += sum(numbers for _, numbers in batches)
        self.num_changes += sum(not METADATA.isdisjoint(tables) for tables, _ in batches)
        self._compaction.look()
        return self._ledger.last_sequence

    def ledger_extent(self) -> list[tuple[Path, int]]:
        """Return every file that a copy of the ledger needs, in order, with its acknowledged bytes."""
        return self._ledger.extent()

    # ------------------------------------------------------------------ remembering

    def newest_fold(self) -> tuple[int, dict[str, npt.NDArray[Any]], dict[str, Any]] | None:
        """Return (frame, arrays, fields) of the newest `note_fold`; `None` before the first.

        It is the fold of all results of the frames before. Raise CorruptLedger.
        """
        frame = self._ledger.last_with((FOLDED,))
        return None if frame is None else (frame.sequence, *folded_of(frame.tables[FOLDED]))

    @property
    def summed_until(self) -> int:
        """The last frame whose matches were summed up; 0: all are there."""
        return max((s.last for s in self._ledger.compacted if s.summed is not None), default=0)

    def history(
        self, *, after: int = 0, before: float = math.inf, since: int = 0
    ) -> Iterator[Competitor | Decision | ResultBatch]:
        """Yield every fact that a league is a fold of, in the order of recording.

        Left out are results of frames up to `after`, all facts up to frame `since`, and those from frame
        `before` on. A snapshot comes before the decisions recorded with it, so that a Reset finds its target.
        """
        results = () if before <= after + 1 else ("matches", "seats")
        for frame in self._ledger.frames(since, tables=(*SEATED, "decisions", *results)):
            if frame.sequence >= before:
                return
            yield from competitors_of(frame.tables)
            if "decisions" in frame.tables:
                yield from (decision for _, decision in columns.decisions_of(frame.tables["decisions"]))
            if "matches" in frame.tables and frame.sequence > after:
                yield columns.results_of(frame.tables)

    def results(self, after_batch: int = 0) -> Iterator[ResultBatch]:
        """Yield the batches of results behind the ledger's sequence `after_batch`, exactly as appended."""
        for frame in self._ledger.frames(after_batch, tables=("matches", "seats")):
            yield columns.results_of(frame.tables)

    def last_match_id(self) -> int:
        """Return the highest match id recorded; -1 if there is none. It reads the journals, and no files."""
        return self._ledger.highest({"matches": "match_id", "summed_matches": "last_match_id"})

    def yardsticks(self) -> list[YardstickRecord]:
        """Return all figures on yardsticks that the ledger has, in the order of recording."""
        return self._records(YardstickRecord, "yardsticks")

    def branches(self) -> list[BranchPoint]:
        """Return the moments at which this run and its ancestors were branched, oldest first."""
        return self._records(BranchPoint, "branches")

    def incidents(self) -> list[Incident]:
        """Return everything that died or was set aside, in the order of recording."""
        return self._records(Incident, "incidents")

    def _records(self, kind: type[_T], table: str) -> list[_T]:
        frames = self._ledger.frames(tables=(table,))
        return [record for frame in frames for record in codec.records(kind, frame.tables[table])]

    # ------------------------------------------------------------------ learners

    def save_learner(self, player: str, tensors: Tensors, meta: Mapping[str, Any]) -> None:
        """Save a learner's state, `tensors` and `meta` (JSON); a crash leaves the old or the new pair."""
        learner_states.save(self.run / LEARNERS, player, tensors, meta, self._ledger.last_sequence)

    def keep_learner(self, player: str, most: int) -> None:
        """Keep the state saved last, for branches of the run: `most` states in all, spread over the run."""
        learner_states.keep(self.run / LEARNERS, player, most)

    def load_learner(self, player: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return (tensors, meta) as saved last, verified; `None` before the first save. Raise CorruptBlob."""
        return learner_states.load(self.run / LEARNERS, player)

    def save_refused(self, player: str, update: int, tensors: Tensors) -> Path:
        """Keep the batch that an update of `player` was refused for; return its safetensors file."""
        return learner_states.save_refused(self.run / LEARNERS, player, update, tensors)


def _names_remote(config: Any) -> bool:
    """Return whether settings, as they were read, have a remote."""
    storage = config.get("storage") if isinstance(config, Mapping) else None
    return isinstance(storage, Mapping) and storage.get("remote") is not None


def _owner() -> str:
    """Return the name of this process for the error of other writers."""
    return " ".join([Path(argument).name for argument in sys.argv[:1]] + sys.argv[1:3]) or "python"
