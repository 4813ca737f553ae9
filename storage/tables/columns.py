"""Facts as Arrow tables and back: the columns of schema.sql, as the ledger's frames carry them.

There are two differences from the index. Times (`*_at`) are float64 seconds since the epoch, as they were
measured, so that they come back equal to the bit. Names are dictionary-encoded with the dictionaries of their
batch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.errors import StorageError
from storage.records import (
    Add,
    CacheRecord,
    Decision,
    DrawnPair,
    EndReason,
    Freeze,
    MatchBatch,
    Outcome,
    Purpose,
    RatingChange,
    Recordings,
    Remove,
    Reset,
    ResultBatch,
    Retire,
    Role,
    Stop,
    UpdateRecord,
    YardstickRecord,
)
from storage.tables.meetings import meetings, names_column, sorted_by_name

OUTCOMES = [outcome.name.lower() for outcome in Outcome]
REASONS = [reason.name.lower() for reason in EndReason]
METRICS = ("policy_loss", "value_loss", "entropy", "gradient_norm")  # with a column of their own
YARDSTICK_COLUMNS = {
    **dict.fromkeys(("competitor", "yardstick", "kind", "measure", "mode", "part"), pa.string()),
    **dict.fromkeys(("value", "low", "high"), pa.float64()),
    "samples": pa.int64(),
}

_DECISION = pa.schema(
    [
        ("seq", pa.int64()),
        ("kind", pa.string()),
        ("player", pa.string()),
        ("snapshot_id", pa.string()),
        ("role", pa.string()),
        ("reason", pa.string()),
        ("evidence", pa.string()),
        ("decided_at", pa.float64()),
    ]
)


def run_table(row: Mapping[str, Any], config_yaml: str, seq: int, started_at: float) -> pa.Table:
    """Return one row of `runs`: `row` has name, env, seed, most_lead. Raise StorageError for other keys."""
    foreign = set(row) - {"name", "env", "seed", "most_lead"}
    if foreign:
        raise StorageError(f"runs: unknown columns {sorted(foreign)}, expected name, env, seed and most_lead")
    try:
        installed = version("checkpoint-league")
    except PackageNotFoundError:  # a source tree that was never installed
        installed = "unknown"
    return pa.table(
        {
            "seq": pa.array([seq], pa.int64()),
            "name": pa.array([row.get("name")], pa.string()),
            "env": pa.array([row.get("env")], pa.string()),
            "seed": pa.array([row.get("seed")], pa.int64()),
            "config": pa.array([config_yaml], pa.string()),
            "version": pa.array([installed], pa.string()),
            "started_at": pa.array([started_at], pa.float64()),
            "most_lead": pa.array([row.get("most_lead")], pa.float64()),
        }
    )


def decision_table(
    decisions: Sequence[Decision], seq: int, decided_at: float, snapshot_id: str | None = None
) -> pa.Table:
    """Return rows of `decisions`, numbered from `seq`; `snapshot_id` is what a Freeze made."""
    rows = [
        {
            "seq": seq + i,
            "kind": decision.kind,
            "player": decision.player,
            "snapshot_id": _about(decision, snapshot_id),
            "role": decision.role if isinstance(decision, Add) else None,
            "reason": decision.reason,
            "evidence": numbers_to_json(decision.evidence),
            "decided_at": decided_at,
        }
        for i, decision in enumerate(decisions)
    ]
    return pa.Table.from_pylist(rows, _DECISION)


def _about(decision: Decision, frozen: str | None) -> str | None:
    if isinstance(decision, (Reset, Retire)):
        return decision.target
    return frozen if isinstance(decision, Freeze) else None


def decisions_of(table: pa.Table) -> list[tuple[int, Decision]]:
    """Return (seq, decision) of each row."""
    found: list[tuple[int, Decision]] = []
    for row in table.to_pylist():
        evidence = {name: float(value) for name, value in json.loads(row["evidence"]).items()}
        common: dict[str, Any] = {"player": row["player"], "reason": row["reason"], "evidence": evidence}
        decision: Decision
        match row["kind"]:
            case Freeze.kind:
                decision = Freeze(**common)
            case Reset.kind:
                decision = Reset(target=row["snapshot_id"], **common)
            case Add.kind:
                decision = Add(role=Role(row["role"]), **common)
            case Remove.kind:
                decision = Remove(**common)
            case Stop.kind:
                decision = Stop(**common)
            case Retire.kind:
                decision = Retire(target=row["snapshot_id"], **common)
            case other:
                raise StorageError(f"decisions: seq {row['seq']} is of kind '{other}', which is unknown here")
        found.append((row["seq"], decision))
    return found


def update_table(records: Sequence[UpdateRecord], seq: int, recorded_at: float) -> pa.Table:
    """Return rows of `updates`, numbered from `seq`."""
    columns: dict[str, pa.Array] = {
        "seq": pa.array(range(seq, seq + len(records)), pa.int64()),
        "player": pa.array([r.player for r in records], pa.string()),
        "updates": pa.array([r.updates for r in records], pa.int64()),
        "env_steps": pa.array([r.env_steps for r in records], pa.int64()),
        "lag": pa.array([r.lag for r in records], pa.float64()),
    }
    for name in METRICS:
        columns[name] = pa.array([r.metrics.get(name) for r in records], pa.float64())
    others = [{k: v for k, v in r.metrics.items() if k not in METRICS} for r in records]
    columns["metrics"] = pa.array([numbers_to_json(other) for other in others], pa.string())
    columns["recorded_at"] = pa.array([recorded_at] * len(records), pa.float64())
    return pa.table(columns)


def result_tables(
    results: ResultBatch, changes: Sequence[RatingChange], seq: int, batch: int
) -> dict[str, pa.Table]:
    """Return rows of `matches`, `seats`, `meetings`, `ratings` and `recordings` for M results.

    They are numbered from `seq`; `batch` is the sequence of the frame that they go into.
    """
    matches = results.matches
    m, s = matches.seat.shape
    constant = np.zeros(m, dtype=np.int8)
    numbers = np.arange(seq, seq + m, dtype=np.int64)
    tables = {
        "matches": pa.table(
            {
                "seq": numbers,
                "match_id": matches.match_id,
                "purpose": names_column(constant, [matches.purpose.value]),
                "match_type": names_column(matches.match_type, matches.match_types),
                "env": names_column(constant, [matches.env]),
                "seed": matches.seed,
                "env_steps": results.env_steps,
                "reason": names_column(results.reason, REASONS),
                "started_at": results.started_at,
                "seconds": results.seconds,
                "batch": np.full(m, batch, dtype=np.int64),
                "num_seats": np.full(m, s, dtype=np.int8),
                "player": _learners(matches),
            }
        ),
        "seats": pa.table(
            {
                "seq": np.repeat(numbers, s),
                "seat": np.tile(np.arange(s, dtype=np.int8), m),
                "competitor": names_column(matches.seat.ravel(), matches.competitors),
                "learning": matches.learning.ravel(),
                "outcome": names_column(results.outcome.ravel(), OUTCOMES),
                "score": results.score.ravel(),
                "rank": results.rank.ravel(),
                "team": np.tile(np.array(matches.team_of_seat or range(s), dtype=np.int8), m),
            }
        ),
        "meetings": meetings(results, seq + m - 1),
    }
    if results.digest is not None:
        digest = pa.array(results.digest, pa.int64(), mask=results.digest == 0)
        tables["matches"] = tables["matches"].append_column("digest", digest)
    if changes:
        tables["ratings"] = rating_table(changes, seq + m - 1, batch)
    if results.recordings is not None and len(results.recordings):
        tables["recordings"] = _recording_table(results.recordings, seq)
    return tables


def drawn_table(drawn: Sequence[DrawnPair], results: ResultBatch, seq: int) -> pa.Table:
    """Return rows of `drawn_pairs`, of pairs whose first match is among M results numbered from `seq`."""
    row = {int(number): seq + at for at, number in enumerate(results.matches.match_id)}
    return pa.table(
        {
            "seq": pa.array([row[each.match_id] for each in drawn], pa.int64()),
            "match_id": pa.array([each.match_id for each in drawn], pa.int64()),
            "round": pa.array([each.round for each in drawn], pa.int32()),
            "probability": pa.array([each.probability for each in drawn], pa.float64()),
            "standing": pa.array([numbers_to_json(each.standing) for each in drawn], pa.string()),
        }
    )


def _recording_table(recordings: Recordings, seq: int) -> pa.Table:
    """Return rows of `recordings` for a batch of matches numbered from `seq`."""
    offset = pa.array(recordings.offset, pa.int32())
    actions = pa.ListArray.from_arrays(offset, pa.array(recordings.action, pa.float32()))
    return pa.table({"seq": seq + recordings.row, "actions": actions})


def _recordings_of(table: pa.Table, seq: int) -> Recordings:
    """Return the recordings that `_recording_table` received."""
    actions = table["actions"].combine_chunks()
    return Recordings(
        row=_numbers(table["seq"]) - seq,
        offset=np.append(0, np.cumsum(pc.list_value_length(actions).to_numpy(), dtype=np.int64)),
        action=actions.flatten().to_numpy(),
    )


def _learners(matches: MatchBatch) -> pa.DictionaryArray:
    """Return the first competitor by name that learns from each match, NULL if none does."""
    names, seated = sorted_by_name(matches)
    first = np.where(matches.learning, seated, len(names)).min(axis=1, initial=len(names))
    indices = pa.array(first.astype(np.int32), mask=first == len(names))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


def rating_table(changes: Sequence[RatingChange], seq: int, batch: int | None = None) -> pa.Table:
    """Return rows of `ratings`, as they are after `seq`.

    `batch` is the sequence of the frame that they go into: the latest rating of a competitor is that of the
    latest frame.
    """
    return pa.table(
        {
            "seq": np.full(len(changes), seq, dtype=np.int64),
            "competitor": pa.array([c.competitor for c in changes], pa.string()),
            "mu": pa.array([c.mu for c in changes], pa.float64()),
            "sigma": pa.array([c.sigma for c in changes], pa.float64()),
            "games": pa.array([c.games for c in changes], pa.int64()),
            "batch": pa.array([batch] * len(changes), pa.int64()),
        }
    )


def cache_table(records: Sequence[CacheRecord], seq: int, recorded_at: float) -> pa.Table:
    """Return rows of `caches`, as they are after `seq`; `recorded_at` in seconds since the epoch."""
    return pa.table(
        {
            "seq": np.full(len(records), seq, dtype=np.int64),
            "node": pa.array([r.node for r in records], pa.string()),
            "tier": pa.array([r.tier for r in records], pa.string()),
            "hits": pa.array([r.hits for r in records], pa.int64()),
            "misses": pa.array([r.misses for r in records], pa.int64()),
            "resident": pa.array([r.resident for r in records], pa.int64()),
            "bytes": pa.array([r.bytes for r in records], pa.int64()),
            "evictions": pa.array([json.dumps(dict(r.evictions)) for r in records], pa.string()),
            "recorded_at": np.full(len(records), recorded_at, dtype=np.float64),
        }
    )


def yardstick_table(records: Sequence[YardstickRecord], seq: int | None, created_at: float) -> pa.Table:
    """Return rows of `yardsticks`, as they are after `seq`; `created_at` in seconds since the epoch."""
    return pa.table(
        {
            "seq": pa.array([seq] * len(records), pa.int64()),
            **{
                name: pa.array([getattr(r, name) for r in records], kind)
                for name, kind in YARDSTICK_COLUMNS.items()
            },
            "created_at": pa.array([created_at] * len(records), pa.float64()),
        }
    )


def results_of(tables: Mapping[str, pa.Table]) -> ResultBatch:
    """Return the batch that `result_tables` received, the same arrays in the same order."""
    rows, seats, recordings = tables["matches"], tables["seats"], tables.get("recordings")
    shape = (len(rows), len(seats) // len(rows))
    match_type, match_types = _indices(rows["match_type"])
    competitor, competitors = _indices(seats["competitor"])
    reason, _ = _indices(rows["reason"])
    outcome, _ = _indices(seats["outcome"])
    matches = MatchBatch(
        env=rows["env"][0].as_py(),
        purpose=Purpose(rows["purpose"][0].as_py()),
        match_types=match_types,
        competitors=competitors,
        match_id=_numbers(rows["match_id"]),
        seed=_numbers(rows["seed"]),
        match_type=match_type.astype(np.int16),
        seat=competitor.astype(np.int32).reshape(shape),
        learning=_numbers(seats["learning"]).reshape(shape),
        team_of_seat=_teams_of(seats, shape[1]),
    )
    return ResultBatch(
        matches=matches,
        outcome=outcome.astype(np.int8).reshape(shape),
        score=_numbers(seats["score"]).reshape(shape),
        rank=_numbers(seats["rank"]).reshape(shape),
        env_steps=_numbers(rows["env_steps"]),
        reason=reason.astype(np.int8),
        started_at=_numbers(rows["started_at"]),
        seconds=_numbers(rows["seconds"]),
        recordings=None if recordings is None else _recordings_of(recordings, rows["seq"][0].as_py()),
        digest=_numbers(rows["digest"].fill_null(0)) if "digest" in rows.column_names else None,
    )


def _teams_of(seats: pa.Table, num_seats: int) -> tuple[int, ...] | None:
    """Return the team of each seat, `None` if each seat is its own team or no teams are stored."""
    if "team" not in seats.column_names:
        return None
    teams = seats["team"].slice(0, num_seats).to_pylist()
    return None if None in teams or teams == list(range(num_seats)) else tuple(teams)


def numbers_to_json(values: Mapping[str, float]) -> str:
    """Return a JSON object; infinities and NaN, which JSON lacks, become text that float() reads."""
    plain = {k: float(v) for k, v in values.items()}
    return json.dumps({k: v if math.isfinite(v) else str(v) for k, v in plain.items()})


def _indices(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.integer], tuple[str, ...]]:
    whole = column.unify_dictionaries()
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in whole.chunks]
    return np.concatenate(parts), tuple(whole.chunk(0).dictionary.to_pylist())


def _numbers(column: pa.ChunkedArray) -> npt.NDArray:
    return column.to_numpy()
