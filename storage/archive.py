"""The archive: a run's durable memory, and the one door through which anything is written to it.

    objects/    blobs            manifests/   one JSON per snapshot      learners/   states for resume
    ledger/     the journal      league.duckdb   its index               config.yaml, FORMAT

Order is what makes it safe. A snapshot's blob is on the disk before its manifest, the manifest
before its ledger row: a row never lacks its file. Results are acknowledged by the ledger before
the index hears of them. A learner's state is one unit: its JSON names the hash of its tensors.
"""

from __future__ import annotations

import difflib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import yaml

from storage import rows
from storage.blobs import Tensor, blob_path, map_tensors, publish, write_atomically
from storage.database import Database
from storage.errors import NotARun, RunExists, StorageError, UnknownSnapshot
from storage.ledger import Frame, Ledger, read_frames, sync_folder
from storage.records import (
    Bot,
    Competitor,
    Decision,
    LivePlayer,
    RatingChange,
    ResultBatch,
    Role,
    Snapshot,
    UpdateRecord,
)

FORMAT = {"version": 1}
FOLDERS = ("objects", "manifests", "ledger", "learners")


class ArchiveReader:
    """What a run remembers, read without its lock: also while another process writes it."""

    def __init__(self, run: Path) -> None:
        self.run = run
        _check_format(run)

    def config(self) -> dict[str, Any]:
        """The resolved settings the run was begun with."""
        return yaml.safe_load((self.run / "config.yaml").read_text())

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, in order of freezing."""
        return [
            snapshot
            for frame in read_frames(self.run / "ledger")
            if "snapshots" in frame.tables
            for snapshot in rows.snapshots_from_table(frame.tables["snapshots"])
        ]

    def resolve(self, prefix: str) -> Snapshot:
        """The snapshot of an id or a unique prefix of one. Raises UnknownSnapshot, naming the nearest."""
        snapshots = self.snapshots()
        fitting = [s for s in snapshots if s.snapshot_id == prefix] or [
            s for s in snapshots if s.snapshot_id.startswith(prefix)
        ]
        if len(fitting) == 1:
            return fitting[0]
        ids = [snapshot.snapshot_id for snapshot in fitting or snapshots]
        near = ids[:5] if fitting else difflib.get_close_matches(prefix, ids, n=3, cutoff=0.3)
        found = "fits several snapshots" if fitting else "is no snapshot of this run"
        raise UnknownSnapshot(f"{self.run}: '{prefix}' {found}; nearest: {', '.join(near) or 'none'}")

    def manifest(self, snapshot_id: str) -> dict[str, Any]:
        """Spec, parents, hashes and tensor table of a snapshot."""
        path = self._manifest_path(snapshot_id)
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise StorageError(f"{path}: the manifest cannot be read: {error}; put back a copy") from error

    def blob_path(self, snapshot: Snapshot) -> Path:
        return blob_path(self.run / "objects", snapshot.blob_hash)

    def _manifest_path(self, snapshot_id: str) -> Path:
        return self.run / "manifests" / f"{snapshot_id}.json"


def open_reader(run: str | Path) -> ArchiveReader:
    """Read a run. Raises NotARun for a folder that holds none."""
    return ArchiveReader(Path(run))


class Archive(ArchiveReader):
    """The writing side, held by one process at a time."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self._ledger = Ledger(run / "ledger")
        try:
            self._next_seq, self._last_match_id = 1, -1
            self._ids: set[str] = set()
            for frame in self._ledger.frames():
                self._note(frame.tables)
            self._database = Database(run / "league.duckdb", run / "ledger")
        except BaseException:
            self._ledger.close()
            raise

    @classmethod
    def create(cls, run: Path, config_yaml: str, run_row: Mapping[str, Any]) -> Archive:
        """Begin a run in a folder that does not exist yet, or is empty. Raises RunExists otherwise.

        `run_row` has name, env and seed. The folder appears whole: a crash leaves none, or a run.
        """
        if run.exists() and (not run.is_dir() or any(run.iterdir())):
            raise RunExists(
                f"{run}: something is here already, expected a new folder; "
                "add --resume to go on with it, or choose another --run"
            )
        try:
            run.parent.mkdir(parents=True, exist_ok=True)
            building = Path(tempfile.mkdtemp(dir=run.parent, prefix=f".{run.name}."))
        except OSError as error:
            raise NotARun(f"{run}: the folder cannot be made: {error.strerror}") from error
        try:
            building.chmod(0o755)
            for name in FOLDERS:
                (building / name).mkdir()
            write_atomically(building / "config.yaml", config_yaml.encode())
            write_atomically(building / "FORMAT", json.dumps(FORMAT).encode())
            building.rename(run)
            sync_folder(run.parent)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
        archive = cls(run)
        archive.begin_session(run_row, config_yaml)
        return archive

    @classmethod
    def open(cls, run: Path) -> Archive:
        """Go on with a run. Raises NotARun, RunLocked, or CorruptLedger."""
        return cls(run)

    def begin_session(self, run_row: Mapping[str, Any], config_yaml: str) -> None:
        """Note that a session starts, and with which settings."""
        try:
            installed = version("checkpoint-league")
        except PackageNotFoundError:  # run from a source tree that was never installed
            installed = "unknown"
        row = {
            "seq": self._next_seq,
            "name": run_row["name"],
            "env": run_row["env"],
            "seed": run_row["seed"],
            "config": config_yaml,
            "version": installed,
            "started_at": time.time(),
        }
        self._append({"runs": rows.rows_to_table([row], timestamps=("started_at",))})

    # ------------------------------------------------------------------ writing

    def add_player(self, player: LivePlayer) -> None:
        now = time.time()
        row = {"seq": self._next_seq, "player": player.player, "role": player.role, "added_at": now}
        competitor = self._competitor(player.player, "player", player.role, player.player)
        self._append(
            {"players": rows.rows_to_table([row], timestamps=("added_at",)), "competitors": competitor}
        )

    def add_bot(self, bot: Bot) -> None:
        self._append({"competitors": self._competitor(bot.name, "bot", None, None)})

    def add_snapshot(
        self,
        *,
        player: str,
        role: Role,
        env_steps: int,
        updates: int,
        parent_id: str | None,
        tensors: Mapping[str, Tensor],
        spec: Mapping[str, Any],
        architecture: str,
        reason: str,
        decisions: Sequence[Decision] = (),
    ) -> Snapshot:
        """Store a policy for good, and the decisions that led to it in the same frame.

        Raises StorageError if the player already has a snapshot of that step: ids are used once.
        """
        snapshot_id = f"{player}@{env_steps}"
        if snapshot_id in self._ids:
            raise StorageError(f"{self.run}: snapshot '{snapshot_id}' is there already; ids are used once")
        blob_hash, size = publish(self.run / "objects", tensors)
        now = time.time()
        snapshot = Snapshot(
            snapshot_id,
            player,
            role,
            env_steps,
            updates,
            parent_id,
            blob_hash,
            size,
            architecture,
            now,
            reason,
        )
        table = {
            n: {"shape": list(t.shape), "dtype": str(t.dtype).split(".")[-1]} for n, t in tensors.items()
        }
        manifest = {name: getattr(snapshot, name) for name in Snapshot.__slots__}
        manifest |= {"format": FORMAT["version"], "spec": dict(spec), "tensors": table}
        # a manifest without a row is what a kill leaves behind: it may be written over
        write_atomically(self._manifest_path(snapshot_id), json.dumps(manifest, indent=2).encode())
        tables = {
            "snapshots": rows.snapshot_to_table(snapshot, self._next_seq),
            "competitors": self._competitor(snapshot_id, "snapshot", role, player),
        }
        if decisions:
            tables["decisions"] = rows.decisions_to_table(decisions, self._next_seq + 1, now, snapshot_id)
        self._append(tables)
        return snapshot

    def append_results(self, results: ResultBatch, changes: Sequence[RatingChange]) -> int:
        """Record results and the ratings that follow from them, in one frame; returns its sequence."""
        return self._append(
            rows.results_to_tables(results, changes, self._next_seq, self._ledger.sequence + 1)
        )

    def append_ratings(self, changes: Sequence[RatingChange]) -> None:
        """Record ratings that follow from no result: those of newcomers."""
        self._append({"ratings": rows.ratings_to_table(changes, self._next_seq - 1)})

    def append_decisions(self, decisions: Sequence[Decision]) -> None:
        self._append({"decisions": rows.decisions_to_table(decisions, self._next_seq, time.time(), None)})

    def append_updates(self, records: Sequence[UpdateRecord]) -> None:
        self._append({"updates": rows.updates_to_table(records, self._next_seq, time.time())})

    def save_learner(self, player: str, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
        """Replace a learner's state. A crash leaves the old state or the new one, whole."""
        folder = self.run / "learners"
        before = self._learner_entry(player)
        try:
            blob_hash, _ = publish(folder, tensors)
            entry = {"blob": blob_hash, "meta": dict(meta)}
            write_atomically(folder / f"{player}.json", json.dumps(entry).encode())
        except OSError as error:
            raise StorageError(
                f"{folder}: {player}'s state cannot be saved: {error.strerror}; make room"
            ) from error
        if before is not None and before["blob"] != blob_hash:
            self._drop_state(before["blob"])

    def load_learner(self, player: str) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The state saved last, its bytes verified; None if none ever was."""
        entry = self._learner_entry(player)
        if entry is None:
            return None
        return map_tensors(blob_path(self.run / "learners", entry["blob"]), verify=True), entry["meta"]

    def flush(self) -> None:
        """Bring the index up to date with the ledger."""
        self._database.flush()

    def close(self) -> None:
        self._database.close()
        self._ledger.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ for resume

    def last_match_id(self) -> int:
        """Highest match id recorded, -1 if none was."""
        return self._last_match_id

    def history(self) -> Iterator[Competitor | Decision | ResultBatch]:
        """Everything the standings are made of, in the order in which it happened, batch by batch."""
        for frame in self._ledger.frames():
            yield from _events(frame)

    # ------------------------------------------------------------------ inside

    def _append(self, tables: Mapping[str, pa.Table]) -> int:
        sequence = self._ledger.append(tables)
        self._note(tables)
        self._database.ingest(sequence, tables)
        return sequence

    def _note(self, tables: Mapping[str, pa.Table]) -> None:
        """Keep count of what has been used up: seqs, match ids, snapshot ids."""
        for table in tables.values():
            if table.num_rows:
                self._next_seq = max(self._next_seq, pa.compute.max(table["seq"]).as_py() + 1)
        if "matches" in tables:
            self._last_match_id = max(
                self._last_match_id, int(np.max(tables["matches"]["match_id"].to_numpy()))
            )
        if "snapshots" in tables:
            self._ids.update(tables["snapshots"]["snapshot_id"].to_pylist())

    def _competitor(self, name: str, kind: str, role: str | None, player: str | None) -> pa.Table:
        row = {"seq": self._next_seq, "competitor": name, "kind": kind, "role": role, "player": player}
        return rows.rows_to_table([row])

    def _learner_entry(self, player: str) -> dict[str, Any] | None:
        path = self.run / "learners" / f"{player}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _drop_state(self, blob_hash: str) -> None:
        """Remove a learner state that no entry names any more (two players may share equal ones)."""
        folder = self.run / "learners"
        named = {json.loads(path.read_text())["blob"] for path in folder.glob("*.json")}
        if blob_hash not in named:
            blob_path(folder, blob_hash).unlink(missing_ok=True)


def _events(frame: Frame) -> Iterator[Competitor | Decision | ResultBatch]:
    tables = frame.tables
    if "players" in tables:
        for row in tables["players"].to_pylist():
            yield LivePlayer(row["player"], Role(row["role"]))
    elif "snapshots" in tables:
        yield from rows.snapshots_from_table(tables["snapshots"])
    elif "competitors" in tables:
        for row in tables["competitors"].to_pylist():
            yield Bot(row["competitor"])
    if "decisions" in tables:
        yield from rows.decisions_from_table(tables["decisions"])
    if "matches" in tables:
        yield rows.results_from_tables(tables)


def _check_format(run: Path) -> None:
    path = run / "FORMAT"
    if not path.is_file():
        raise NotARun(f"{run}: no run is here (there is no FORMAT file), expected a run folder")
    try:
        found = json.loads(path.read_text())["version"]
    except (ValueError, KeyError, TypeError):
        raise NotARun(f"{path}: cannot be read, expected {json.dumps(FORMAT)}") from None
    if found != FORMAT["version"]:
        raise NotARun(f"{path}: version {found}, expected {FORMAT['version']}; use the release that wrote it")
    missing = [name for name in (*FOLDERS, "config.yaml") if not (run / name).exists()]
    if missing:
        raise NotARun(f"{run}: {', '.join(missing)} missing, expected a whole run folder; put back a copy")
