"""Branches: a new run from any past moment of a recorded one, which is only read and may be training.

    moment = find_moment(run, "2_000_000")          the last frame that the run had then, and its settings
    branch = make_branch(moment, new, ...)          a run folder that appears whole or not at all

The branch has the ledger up to that frame, so everything that is a fold of facts is as it was: players, pool,
ratings, payoffs, clocks. Snapshots and learners' states are immutable files, so they are linked. A learner
goes on from the newest of its states that were saved by then; if a snapshot of it is younger, or no state is
left, training goes on from the snapshot's weights.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.disk import (
    Progress,
    link_or_copy,
    make_folder,
    sync_folder,
    whole_folder,
    write_json,
    write_whole,
)
from storage.ends import ENV_STEPS
from storage.errors import Mistake
from storage.layout import (
    CONFIG,
    FORMAT,
    LEARNERS,
    LEDGER,
    MANIFESTS,
    OBJECTS,
    VERSION,
    blob_path,
    manifest_path,
    require_ledger,
    require_new,
)
from storage.ledger.follower import walk
from storage.ledger.frames import Frame, FrameOffset, decode
from storage.ledger.journal import journal_path
from storage.ledger.ledger import Ledger, last_frame, read_frames, summed_until
from storage.ledger.segments import Segment
from storage.reader import SEATED
from storage.records import (
    STATE,
    BranchPoint,
    Competitor,
    Decision,
    Entrant,
    LivePlayer,
    Remove,
    Reset,
    Snapshot,
)
from storage.snapshots import learner_states
from storage.snapshots.learner_states import SavedState
from storage.tables import codec, columns, live
from storage.tables.columns import FOLDED, competitors_of
from storage.tables.moments import Moment, last_frame_at, parse_moment

SYNCED_TOGETHER = 256  # frames of a copy


class FileReplaced(Mistake):
    """A run in training has replaced a file that its branch needs; another look finds the newer one."""


@dataclass(frozen=True, slots=True)
class Past:
    """A run as it was at a moment: what a branch of it needs."""

    run: Path
    frame: int  # the last one of its ledger
    config: str  # the settings of its session then, YAML
    snapshots: tuple[Snapshot, ...]
    states: Mapping[str, Sequence[SavedState]]  # of each player: all that were saved by then, oldest first
    origins: Mapping[str, str]  # of each player: STATE, or the snapshot that its weights came from


def find_moment(run: Path, as_of: Moment | None = None) -> Past:
    """Return `run` as it was `as_of` env steps of the league or a time; `None`: as it is now.

    Raise NotARun, CorruptLedger, CorruptBlob, and Mistake for a tournament, a moment before the first match,
    and a snapshot whose files are not there.
    """
    require_ledger(run)
    named = {c.player for c in _events(run, None) if isinstance(c, LivePlayer)}
    saved = {player: learner_states.states(run / LEARNERS, player) for player in named}  # before the ledger:
    newest = last_frame(run / LEDGER)[0]  # so no state is younger than the newest frame
    frame = newest if as_of is None else last_frame_at(run, as_of)
    _require_played(run, as_of, frame)
    if frame == newest and as_of is not None:
        _require_reached(run, as_of)
    _require_fold(run / LEDGER, run, as_of, frame)
    snapshots: list[Snapshot] = []
    weights: dict[str, Snapshot | None] = {}  # of each player: what its weights came from last
    frozen_at: dict[str, int] = {}
    for event in _events(run, frame):
        match event:
            case Entrant():
                raise Mistake(f"{run}: is a tournament, expected a run of `league train`")
            case LivePlayer():
                weights[event.player] = None
            case Snapshot():
                snapshots.append(event)
                if event.player in weights:
                    weights[event.player], frozen_at[event.player] = event, event.env_steps
            case Reset():
                weights[event.player] = next(s for s in snapshots if s.snapshot_id == event.target)
            case Remove():
                del weights[event.player]
    _require_stored(run, snapshots)
    # All are of now: also one of an older version, which noted no frame, and one of a remote, where states
    # arrive before the frames that they follow.
    is_now = frame == newest
    states = {
        player: [s for s in saved.get(player, ()) if is_now or (s.frame is not None and s.frame <= frame)]
        for player in weights
    }
    origins = {}
    for player, snapshot in weights.items():
        newest_steps = max((state.env_steps for state in states[player][-1:]), default=-1)
        goes_on = newest_steps >= frozen_at.get(player, 0)
        origins[player] = STATE if goes_on else "" if snapshot is None else snapshot.snapshot_id
    return Past(run, frame, _config(run, frame), tuple(snapshots), states, origins)


def make_branch(
    past: Past,
    new: Path,
    parent: str,
    config_yaml: str,
    run_row: Mapping[str, Any],
    changes: Sequence[str] = (),
    progress: Progress | None = None,
) -> BranchPoint:
    """Make the run `new`, which goes on from `past`; it appears whole or not at all.

    `parent` is the folder or the address that the branch names as its origin. `config_yaml` are its settings,
    `run_row` is as of `Archive.create`, `changes` are the settings that differ from the parent's.

    Raise RunExists unless `new` is absent or an empty folder, Moved if a file was replaced since
    `find_moment`, CorruptLedger, DiskFailed, and Mistake where no folder can be.
    """
    require_new(new)
    with whole_folder(new) as fresh:
        for folder in (LEDGER, OBJECTS, MANIFESTS, LEARNERS):
            make_folder(fresh / folder)
        try:
            gone_on = {player for player, origin in past.origins.items() if origin == STATE}
            for player in gone_on:  # first: a run in training replaces them
                learner_states.put_newest(past.states[player][-1], fresh / LEARNERS, player)
            for player, states in past.states.items():
                kept = states[:-1] if player in gone_on else states
                learner_states.put_kept(kept, fresh / LEARNERS, player)
            copy_until(past.run / LEDGER, fresh / LEDGER, past.frame)
            _require_fold(fresh / LEDGER, past.run, None, past.frame)  # a run in training sums up meanwhile
            _link_snapshots(past, fresh, progress)
        except FileNotFoundError as error:
            raise FileReplaced(
                f"{error.filename}: was replaced while the branch was made; try again"
            ) from None
        write_whole(fresh / CONFIG, [config_yaml.encode()])
        write_json(fresh / FORMAT, {"version": VERSION})
        branch, seq = _measured(past, fresh, parent, tuple(changes))
        with Ledger(fresh / LEDGER, "making a branch") as ledger:
            begun = columns.run_table(run_row, config_yaml, seq, branch.branched_at)
            ledger.append({"runs": begun, "branches": codec.rows("branches", [branch], seq=seq)})
    return branch


def _events(run: Path, until: int | None) -> Iterable[Competitor | Decision]:
    """Yield competitors and decisions of the frames up to `until`, in the order of recording."""
    for frame in read_frames(run / LEDGER, tables=(*SEATED, "decisions")):
        if until is not None and frame.sequence > until:
            return
        yield from competitors_of(frame.tables)
        if "decisions" in frame.tables:
            yield from (decision for _, decision in columns.decisions_of(frame.tables["decisions"]))


def _require_played(run: Path, as_of: Moment | None, frame: int) -> None:
    first = next(read_frames(run / LEDGER, tables=("matches", "summed_matches")), None)
    if first is None:
        raise Mistake(f"{run}: no match is recorded, so there is nothing to go on from: train it first")
    if frame < first.sequence:
        raise Mistake(
            f"as of {as_of}: is before the first match of {run}, expected a later moment, such as --as-of 1, "
            "which is its first batch of results; start a new run to begin from nothing"
        )


def _require_reached(run: Path, as_of: Moment) -> None:
    """Raise Mistake for env steps beyond the newest match."""
    wanted = parse_moment(as_of)
    if isinstance(wanted, float):
        return
    with live.connect(run) as connection:
        ((played,),) = connection.sql(ENV_STEPS).fetchall()
    if wanted > played:
        raise Mistake(
            f"as of {wanted:,}: {run} has {played:,} env steps, expected at most as many; leave --as-of "
            "out to go on from where it is now"
        )


def _require_fold(ledger: Path, run: Path, as_of: Moment | None, frame: int) -> None:
    """Raise Mistake if matches were summed up, and what they led to was recorded only after `frame`."""
    if summed_until(ledger):
        fold = next(read_frames(ledger, tables=(FOLDED,)), None)
        if fold is None or fold.sequence > frame:
            raise Mistake(
                f"as of {'now' if as_of is None else as_of}: {run} has summed up its matches until shortly "
                "before then, and what they led to was recorded only a little later, expected a later moment"
            )


def _require_stored(run: Path, snapshots: Sequence[Snapshot]) -> None:
    """Raise Mistake if a file of a snapshot is not there, or a blob has another size."""
    for snapshot in snapshots:
        manifest = manifest_path(run, snapshot.snapshot_id)
        for path, size in ((blob_path(run / OBJECTS, snapshot.blob_hash), snapshot.bytes), (manifest, None)):
            found = path.stat().st_size if path.exists() else None
            if found is None or size not in (None, found):
                raise Mistake(
                    f"{path}: found {'nothing' if found is None else f'{found} bytes'}, expected a file of "
                    f"snapshot '{snapshot.snapshot_id}', which the league has at that moment; restore it "
                    "from a copy, or choose a moment before that snapshot"
                )


def _config(run: Path, frame: int) -> str:
    begun = read_frames(run / LEDGER, tables=("runs",))
    *_, last = itertools.takewhile(lambda found: found.sequence <= frame, begun)
    return str(last.tables["runs"]["config"][-1].as_py())


def _link_snapshots(past: Past, fresh: Path, progress: Progress | None) -> None:
    """Give the blobs and manifests of all snapshots a name in `fresh`; copy them to another file system."""
    folders: set[Path] = set()
    for done, snapshot in enumerate(past.snapshots, start=1):
        blob = blob_path(fresh / OBJECTS, snapshot.blob_hash)
        if not blob.exists():  # snapshots may share one
            if blob.parent not in folders:
                make_folder(blob.parent)
            link_or_copy(blob_path(past.run / OBJECTS, snapshot.blob_hash), blob, mode=0o444)
        manifest = manifest_path(fresh, snapshot.snapshot_id)
        link_or_copy(manifest_path(past.run, snapshot.snapshot_id), manifest)
        folders |= {blob.parent, manifest.parent}
        if progress is not None:
            progress("linking snapshots", done, len(past.snapshots))
    for folder in sorted(folders):
        sync_folder(folder)


def _measured(past: Past, fresh: Path, parent: str, changes: tuple[str, ...]) -> tuple[BranchPoint, int]:
    """Return the branch, and the number of its next match, decision or update."""
    with live.connect(fresh) as connection:
        (matches, env_steps), (last,), (ended, lasted) = (
            connection.execute(sql).fetchone() for sql in (_PLAYED, _LAST_SEQ, _CLOCK)
        )
    gone_on = [past.states[player][-1] for player, origin in past.origins.items() if origin == STATE]
    known = [float(state.meta.get("seconds", 0.0)) for state in gone_on]
    branch = BranchPoint(
        parent=parent,
        frame=past.frame,
        env_steps=int(env_steps),
        matches=int(matches),
        seconds=max(known, default=float(lasted)),
        learners=dict(past.origins),
        changes=changes,
        moment_at=float(ended),
        branched_at=time.time(),
    )
    return branch, int(last) + 1


_PLAYED = "SELECT coalesce(sum(matches), 0), coalesce(sum(env_steps), 0) FROM played WHERE NOT is_placing"
_LAST_SEQ = """
SELECT greatest(
    (SELECT coalesce(max(seq), 0) FROM played), (SELECT coalesce(max(seq), 0) FROM decisions),
    (SELECT coalesce(max(seq), 0) FROM updates))
"""
# When the youngest fact was recorded, and the seconds from the first match to the last fact of each session:
# a session that waits for processes and nodes does not train yet.
_CLOCK = """
WITH facts AS (
    SELECT started_at AS began, ended_at AS at FROM played
    UNION ALL SELECT NULL, decided_at FROM decisions UNION ALL SELECT NULL, recorded_at FROM updates
),
sessions AS (
    SELECT epoch(max(facts.at)) AS ended, epoch(max(facts.at)) - epoch(min(facts.began)) AS lasted
    FROM facts ASOF JOIN runs ON facts.at >= runs.started_at GROUP BY runs.started_at
)
SELECT coalesce(max(ended), 0.0), coalesce(sum(lasted), 0.0) FROM sessions
"""


def copy_until(source: Path, target: Path, last: int) -> None:
    """Copy the frames of the ledger `source` up to sequence `last` into the empty folder `target`.

    This works beside a writer of `source`. Compacted segments are immutable, so they are linked. What is
    behind the last whole one is appended again, frame by frame: sequences, batch ids and tables are those of
    the original. Raise CorruptLedger, DiskFailed, and Mistake if frames around `last` were summed up.
    """
    parts = walk(source)
    part, number = next(parts, None), 1
    while isinstance(part, Segment) and part.last <= last:
        for path, _ in part.files():
            link_or_copy(path, target / path.name, mode=0o444)
        part, number = next(parts, None), number + 1
    if isinstance(part, Segment) and part.summed is not None:
        raise Mistake(
            f"{source}: matches around frame {last} were summed up meanwhile (storage.retention), "
            "expected a later moment"
        )
    write_whole(journal_path(target, number), [])  # a ledger ends with a journal
    rest = itertools.chain.from_iterable(map(_frames, itertools.chain([part] if part else [], parts)))
    frames = itertools.takewhile(lambda frame: frame.sequence <= last, rest)
    with Ledger(target, "copying a ledger") as ledger:
        while some := list(itertools.islice(frames, SYNCED_TOGETHER)):
            ledger.append_all([(frame.tables, frame.batch_id) for frame in some])


def _frames(part: Segment | tuple[FrameOffset, bytes]) -> Iterator[Frame]:
    return part.frames() if isinstance(part, Segment) else iter([decode(*part)])
