"""Records as rows of the tables, and back: numpy to Arrow by the column, never match by match."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from storage.records import (
    Add,
    Decision,
    EndReason,
    Freeze,
    MatchBatch,
    Outcome,
    Purpose,
    RatingChange,
    Reset,
    ResultBatch,
    Retire,
    Role,
    Snapshot,
    UpdateRecord,
)

OUTCOMES = tuple(outcome.name.lower() for outcome in Outcome)
REASONS = tuple(reason.name.lower() for reason in EndReason)
TIMESTAMP = pa.timestamp("us")
LOSS_COLUMNS = ("policy_loss", "value_loss", "entropy", "gradient_norm")


def results_to_tables(
    results: ResultBatch, changes: Sequence[RatingChange], first_seq: int, batch: int
) -> dict[str, pa.Table]:
    """`matches`, `seats` and `ratings` of M results, numbered from `first_seq` on."""
    matches = results.matches
    count, num_seats = matches.seat.shape
    seq = np.arange(first_seq, first_seq + count)
    match_rows = {
        "seq": seq,
        "match_id": matches.match_id,
        "purpose": _coded(np.zeros(count, np.int8), (str(matches.purpose),)),
        "match_type": _coded(matches.match_type, matches.match_types),
        "env": _coded(np.zeros(count, np.int8), (matches.env,)),
        "seed": matches.seed,
        "env_steps": results.env_steps,
        "reason": _coded(results.reason, REASONS),
        "started_at": pa.array((results.started_at * 1e6).astype(np.int64)).cast(TIMESTAMP),
        "seconds": results.seconds,
        "batch": np.full(count, batch),
    }
    seat_rows = {
        "seq": np.repeat(seq, num_seats),
        "seat": np.tile(np.arange(num_seats, dtype=np.int8), count),
        "competitor": _coded(matches.seat.ravel(), matches.competitors),
        "learning": matches.learning.ravel(),
        "outcome": _coded(results.outcome.ravel(), OUTCOMES),
        "score": results.score.ravel(),
        "rank": results.rank.ravel(),
    }
    return {
        "matches": pa.table(match_rows),
        "seats": pa.table(seat_rows),
        "ratings": ratings_to_table(changes, first_seq + count - 1),
    }


def results_from_tables(tables: Mapping[str, pa.Table]) -> ResultBatch:
    """The inverse of `results_to_tables`, ratings left out."""
    matches, seats = tables["matches"], tables["seats"]
    count = matches.num_rows
    match_type, match_types = _decoded(matches["match_type"])
    seat, competitors = _decoded(seats["competitor"])
    reason, reasons = _decoded(matches["reason"])
    outcome, outcomes = _decoded(seats["outcome"])
    reason_codes = np.array([REASONS.index(name) for name in reasons], np.int8)
    outcome_codes = np.array([OUTCOMES.index(name) for name in outcomes], np.int8)

    def per_seat(values: np.ndarray) -> np.ndarray:
        return values.reshape(count, -1)

    return ResultBatch(
        matches=MatchBatch(
            env=matches["env"][0].as_py(),
            purpose=Purpose(matches["purpose"][0].as_py()),
            match_types=match_types,
            competitors=competitors,
            match_id=_numbers(matches["match_id"]),
            seed=_numbers(matches["seed"]),
            match_type=match_type.astype(np.int16),
            seat=per_seat(seat.astype(np.int32)),
            learning=per_seat(_numbers(seats["learning"])),
        ),
        outcome=per_seat(outcome_codes[outcome]),
        score=per_seat(_numbers(seats["score"])),
        rank=per_seat(_numbers(seats["rank"])),
        env_steps=_numbers(matches["env_steps"]),
        reason=reason_codes[reason],
        started_at=_numbers(matches["started_at"].cast(pa.int64())) / 1e6,
        seconds=_numbers(matches["seconds"]),
    )


def ratings_to_table(changes: Sequence[RatingChange], seq: int) -> pa.Table:
    """Ratings as they stand after `seq`."""
    return pa.table(
        {
            "seq": np.full(len(changes), seq),
            "competitor": pa.array([change.competitor for change in changes], pa.string()),
            "mu": np.array([change.mu for change in changes], np.float64),
            "sigma": np.array([change.sigma for change in changes], np.float64),
            "games": np.array([change.games for change in changes], np.int64),
        }
    )


def snapshot_to_table(snapshot: Snapshot, seq: int) -> pa.Table:
    row = {name: getattr(snapshot, name) for name in Snapshot.__slots__}
    return rows_to_table(
        [{"seq": seq, **row}], timestamps=("created_at",), integers=("env_steps", "updates", "bytes")
    )


def snapshots_from_table(table: pa.Table) -> list[Snapshot]:
    rows = table.set_column(
        table.schema.get_field_index("created_at"), "created_at", table["created_at"].cast(pa.int64())
    ).to_pylist()
    return [
        Snapshot(**{name: row[name] for name in Snapshot.__slots__} | {"created_at": row["created_at"] / 1e6})
        for row in rows
    ]


def decisions_to_table(
    decisions: Sequence[Decision], first_seq: int, now: float, frozen: str | None
) -> pa.Table:
    """Rows of decisions; `frozen` is the id of the snapshot that a Freeze among them made."""
    return rows_to_table(
        [
            {
                "seq": first_seq + i,
                "kind": decision.kind,
                "player": decision.player,
                "role": decision.role if isinstance(decision, Add) else None,
                "snapshot_id": decision.target if isinstance(decision, Reset | Retire) else frozen,
                "reason": decision.reason,
                "evidence": json.dumps(dict(decision.evidence), allow_nan=False),
                "decided_at": now,
            }
            for i, decision in enumerate(decisions)
        ],
        timestamps=("decided_at",),
    )


def decisions_from_table(table: pa.Table) -> list[Decision]:
    found: list[Decision] = []
    for row in table.to_pylist():
        common: dict[str, Any] = {
            "player": row["player"],
            "reason": row["reason"],
            "evidence": json.loads(row["evidence"]),
        }
        if row["kind"] == Freeze.kind:
            found.append(Freeze(**common))
        elif row["kind"] == Reset.kind:
            found.append(Reset(**common, target=row["snapshot_id"]))
        elif row["kind"] == Retire.kind:
            found.append(Retire(**common, target=row["snapshot_id"]))
        elif row["kind"] == Add.kind:
            found.append(Add(**common, role=Role(row["role"])))
    return found


def updates_to_table(records: Sequence[UpdateRecord], first_seq: int, now: float) -> pa.Table:
    return rows_to_table(
        [
            {
                "seq": first_seq + i,
                "player": record.player,
                "updates": record.updates,
                "env_steps": record.env_steps,
                "lag": record.lag,
                **{name: record.metrics.get(name) for name in LOSS_COLUMNS},
                "metrics": json.dumps(dict(record.metrics)),
                "recorded_at": now,
            }
            for i, record in enumerate(records)
        ],
        timestamps=("recorded_at",),
        floats=("lag", *LOSS_COLUMNS),
    )


def rows_to_table(
    rows: Sequence[Mapping[str, Any]],
    *,
    timestamps: Sequence[str] = (),
    integers: Sequence[str] = (),
    floats: Sequence[str] = (),
) -> pa.Table:
    """A few rows as a table: text unless named otherwise, `seq` an integer; times are seconds."""
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in timestamps:
            columns[name] = pa.array([int(value * 1e6) for value in values], pa.int64()).cast(TIMESTAMP)
        elif name in floats:
            columns[name] = pa.array(values, pa.float64())
        elif name in integers or name in ("seq", "updates", "env_steps", "seed"):
            columns[name] = pa.array(values, pa.int64())
        else:
            columns[name] = pa.array(values, pa.string())
    return pa.table(columns)


def _coded(codes: np.ndarray, names: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32)), pa.array(list(names), pa.string())
    )


def _decoded(column: pa.ChunkedArray) -> tuple[np.ndarray, tuple[str, ...]]:
    array = column.combine_chunks()
    array = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    return array.indices.to_numpy(), tuple(array.dictionary.to_pylist())


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    return column.combine_chunks().to_numpy(zero_copy_only=False)
