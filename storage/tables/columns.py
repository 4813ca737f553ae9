"""Facts as Arrow tables and back: the columns of schema.sql, as the ledger's frames carry them.

There are two differences from the tables that readers see. Times (`*_at`) are float64 seconds since the
epoch, as they were measured, so that they come back equal to the bit. Names are dictionary-encoded with the
dictionaries of their batch.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.errors import CorruptLedger, StorageError
from storage.records import (
    Add,
    Bot,
    Competitor,
    Decision,
    EndReason,
    Entrant,
    Freeze,
    LivePlayer,
    MatchBatch,
    Outcome,
    Purpose,
    RatingChange,
    Recordings,
    Remove,
    Reset,
    ResultBatch,
    Retire,
    Snapshot,
    Stop,
    UpdateRecord,
    by_team,
)
from storage.tables import codec
from storage.tables.schema import arrow_schema

OUTCOMES = [outcome.name.lower() for outcome in Outcome]
REASONS = [reason.name.lower() for reason in EndReason]
_DECISIONS = {kind.kind: kind for kind in (Freeze, Reset, Add, Remove, Stop, Retire)}
METRICS = ("policy_loss", "value_loss", "entropy", "gradient_norm")  # with a column of their own


def run_table(row: Mapping[str, Any], config_yaml: str, seq: int, started_at: float) -> pa.Table:
    """Return one row of `runs`: `row` has name, env, seed, most_lead. Raise StorageError for other keys."""
    foreign = set(row) - {"name", "env", "seed", "most_lead"}
    if foreign:
        raise StorageError(f"runs: unknown columns {sorted(foreign)}, expected name, env, seed and most_lead")
    try:
        installed = version("checkpoint-league")
    except PackageNotFoundError:  # a source tree that was never installed
        installed = "unknown"
    made = {column: row.get(column) for column in ("name", "env", "seed", "most_lead")}
    made |= {"seq": seq, "config": config_yaml, "version": installed, "started_at": started_at}
    return pa.Table.from_pylist([made], arrow_schema("runs"))


def decision_table(
    decisions: Sequence[Decision], seq: int, decided_at: float, snapshot_id: str | None = None
) -> pa.Table:
    """Return rows of `decisions`, numbered from `seq`; `snapshot_id` is what a Freeze made."""
    return codec.rows(
        "decisions",
        decisions,
        seq=list(range(seq, seq + len(decisions))),
        kind=[decision.kind for decision in decisions],
        snapshot_id=[_about(decision, snapshot_id) for decision in decisions],
        role=[decision.role if isinstance(decision, Add) else None for decision in decisions],
        decided_at=decided_at,
    )


def _about(decision: Decision, frozen: str | None) -> str | None:
    if isinstance(decision, (Reset, Retire)):
        return decision.target
    return frozen if isinstance(decision, Freeze) else None


def decisions_of(table: pa.Table) -> list[tuple[int, Decision]]:
    """Return (seq, decision) of each row."""
    found: list[tuple[int, Decision]] = []
    for row in table.to_pylist():
        seq, kind = row["seq"], row["kind"]
        if kind not in _DECISIONS:
            raise StorageError(f"decisions: seq {seq} is of kind '{kind}', which is unknown here")
        given = {"target": row["snapshot_id"], "role": row["role"]}
        own = {name: value for name, value in given.items() if name in _DECISIONS[kind].__slots__}
        common = {"player": row["player"], "reason": row["reason"]}
        evidence = codec.json_to_numbers(row["evidence"])
        found.append((seq, _DECISIONS[kind](evidence=evidence, **common, **own)))
    return found


def update_table(records: Sequence[UpdateRecord], seq: int, recorded_at: float) -> pa.Table:
    """Return rows of `updates`, numbered from `seq`."""
    others = [{k: v for k, v in r.metrics.items() if k not in METRICS} for r in records]
    return codec.rows(
        "updates",
        records,
        seq=list(range(seq, seq + len(records))),
        **{name: [r.metrics.get(name) for r in records] for name in METRICS},
        metrics=[codec.numbers_to_json(other) for other in others],
        recorded_at=recorded_at,
    )


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
        tables["ratings"] = codec.rows("ratings", changes, seq=seq + m - 1, batch=batch)
    if results.recordings is not None and len(results.recordings):
        tables["recordings"] = _recording_table(results.recordings, seq)
    return tables


def _recording_table(recordings: Recordings, seq: int) -> pa.Table:
    """Return rows of `recordings` for a batch of matches numbered from `seq`."""
    offset = pa.array(recordings.offset, pa.int32())
    actions = pa.ListArray.from_arrays(offset, pa.array(recordings.action, pa.float32()))
    return pa.table({"seq": seq + recordings.row, "actions": actions})


def _recordings_of(table: pa.Table, seq: int) -> Recordings:
    """Return the recordings that `_recording_table` received."""
    actions = table["actions"].combine_chunks()
    return Recordings(
        row=table["seq"].to_numpy() - seq,
        offset=np.append(0, np.cumsum(pc.list_value_length(actions).to_numpy(), dtype=np.int64)),
        action=actions.flatten().to_numpy(),
    )


def _learners(matches: MatchBatch) -> pa.DictionaryArray:
    """Return the first competitor by name that learns from each match, NULL if none does."""
    names, seated = sorted_by_name(matches)
    first = np.where(matches.learning, seated, len(names)).min(axis=1, initial=len(names))
    indices = pa.array(first.astype(np.int32), mask=first == len(names))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))


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
        match_id=rows["match_id"].to_numpy(),
        seed=rows["seed"].to_numpy(),
        match_type=match_type.astype(np.int16),
        seat=competitor.astype(np.int32).reshape(shape),
        learning=seats["learning"].to_numpy().reshape(shape),
        team_of_seat=_teams_of(seats, shape[1]),
    )
    return ResultBatch(
        matches=matches,
        outcome=outcome.astype(np.int8).reshape(shape),
        score=seats["score"].to_numpy().reshape(shape),
        rank=seats["rank"].to_numpy().reshape(shape),
        env_steps=rows["env_steps"].to_numpy(),
        reason=reason.astype(np.int8),
        started_at=rows["started_at"].to_numpy(),
        seconds=rows["seconds"].to_numpy(),
        recordings=None if recordings is None else _recordings_of(recordings, rows["seq"][0].as_py()),
        digest=rows["digest"].fill_null(0).to_numpy() if "digest" in rows.column_names else None,
    )


def _teams_of(seats: pa.Table, num_seats: int) -> tuple[int, ...] | None:
    """Return the team of each seat, `None` if each seat is its own team or no teams are stored."""
    if "team" not in seats.column_names:
        return None
    teams = seats["team"].slice(0, num_seats).to_pylist()
    return None if None in teams or teams == list(range(num_seats)) else tuple(teams)


def _indices(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.integer], tuple[str, ...]]:
    whole = column.unify_dictionaries()
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in whole.chunks]
    return np.concatenate(parts), tuple(whole.chunk(0).dictionary.to_pylist())


def meetings(results: ResultBatch, seq: int) -> pa.Table:
    """Return rows of `meetings`: how often each ordered pair met in these M matches, with results and leads.

    `seq` is the number of the last match. Sorted by (home, away). The lead of a game is half of what home's
    score is above away's.
    """
    names, seated = sorted_by_name(results.matches)
    first, outcome, place = by_team(results)
    seated = seated[:, first]
    score = results.score[:, first].astype(np.float64)
    pairs_met: list[npt.NDArray[np.int64]] = []  # [pairs of one kind, 2]: home and away as one number, result
    leads: list[npt.NDArray[np.float64]] = []
    for home, away in itertools.permutations(range(seated.shape[1]), 2):
        result = np.sign(place[:, home] - place[:, away]) + 1  # 0: a win of home, 1: even, 2: a loss
        void = (result == 1) & (outcome[:, home] == Outcome.FORFEIT)  # two forfeits say nothing
        met = (seated[:, home] != seated[:, away]) & ~void
        pairs_met.append(np.stack([seated[:, home] * len(names) + seated[:, away], result], axis=1)[met])
        leads.append((score[:, home] - score[:, away])[met] / 2.0)
    pair, result = np.concatenate(pairs_met).T if pairs_met else np.zeros((2, 0), np.int64)
    pairs, met_in = np.unique(pair, return_inverse=True)
    counts = np.bincount(met_in * 3 + result, minlength=3 * len(pairs)).reshape(-1, 3)
    lead = np.concatenate(leads) if leads else np.zeros(0)
    return pa.table(
        {
            "seq": np.full(len(pairs), seq, dtype=np.int64),
            "purpose": names_column(np.zeros(len(pairs), np.int8), [results.matches.purpose.value]),
            "home": names_column((pairs // len(names)).astype(np.int32), names),
            "away": names_column((pairs % len(names)).astype(np.int32), names),
            "games": counts.sum(axis=1).astype(np.int32),
            "wins": counts[:, 0].astype(np.int32),
            "draws": counts[:, 1].astype(np.int32),
            "losses": counts[:, 2].astype(np.int32),
            "lead": np.bincount(met_in, lead, minlength=len(pairs)),
            "squares": np.bincount(met_in, lead**2, minlength=len(pairs)),
        }
    )


def sorted_by_name(matches: MatchBatch) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the competitors' names in order, each once, and the seating [M, S] as indices into them."""
    names, numbered = np.unique(np.array(matches.competitors, dtype=str), return_inverse=True)
    return names.tolist(), numbered[matches.seat].astype(np.int64)


def names_column(indices: npt.NDArray[np.integer], names: Sequence[str]) -> pa.DictionaryArray:
    """Return a text for each of `indices` [n]. Raise IndexError for one without a name: it is not stored."""
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names, pa.string()), safe=True)


def competitor_tables(competitor: Snapshot | LivePlayer | Bot, added_at: float) -> dict[str, pa.Table]:
    """Return the rows that seat a competitor: of `competitors`, and of `players` or `snapshots`."""
    kind, role, player = "bot", None, None
    tables: dict[str, pa.Table] = {}
    if isinstance(competitor, Snapshot):
        kind, role, player = "snapshot", competitor.role, competitor.player
        tables["snapshots"] = codec.rows("snapshots", [competitor])
    elif isinstance(competitor, LivePlayer):
        kind, role, player = "player", competitor.role, competitor.player
        tables["players"] = codec.rows("players", [competitor], added_at=added_at)
    named = {"competitor": competitor.competitor, "kind": kind, "role": role, "player": player}
    tables["competitors"] = codec.rows("competitors", [competitor], **named, added_at=added_at)
    return tables


def entrant_tables(entrants: Sequence[Entrant], joined_at: float) -> dict[str, pa.Table]:
    """Return the rows that seat entrants, if there are any: of `entrants`, and of `competitors`.

    Raise StorageError if two have the same name.
    """
    if not entrants:
        return {}
    names = {entrant.competitor for entrant in entrants}
    if len(names) < len(entrants):
        raise StorageError(
            f"entrants: {len(entrants)} have {len(names)} names between them, expected as many"
        )
    return {
        "entrants": codec.rows("entrants", entrants, joined_at=joined_at),
        "competitors": codec.rows("competitors", entrants, added_at=joined_at),
    }


def competitors_of(tables: Mapping[str, pa.Table]) -> list[Competitor]:
    """Return the competitors that a frame seats, in order: players, bots, snapshots, entrants."""
    found: list[Competitor] = []
    entrants = codec.records(Entrant, tables["entrants"]) if "entrants" in tables else []
    if "players" in tables:
        found += codec.records(LivePlayer, tables["players"])
    if "competitors" in tables:
        entered = {entrant.competitor for entrant in entrants}  # bots among them are here too
        rows = tables["competitors"].to_pylist()
        bots = [row["competitor"] for row in rows if row["kind"] == "bot"]
        found += [Bot(name) for name in bots if name not in entered]
    if "snapshots" in tables:
        found += codec.records(Snapshot, tables["snapshots"])
    return found + entrants


# A frame with this table has the fold of all frames before it: what a league is a fold of its results to,
# exact to the bit; arrays are compressed, all else is JSON. Once the matches of old segments are summed up, a
# run resumes from such a frame: it cannot replay them any more. No reader has this table.
FOLDED = "folded"
_FOLDED_FIELDS = "fields"  # the row with what is no array
_ARRAY_TYPES = ("float64", "int64", "int32", "bool")


def folded_table(arrays: Mapping[str, npt.NDArray[Any]], fields: Mapping[str, Any]) -> pa.Table:
    """Return a row for each array and one for the JSON `fields`. Raise ValueError for other types."""
    rows: list[dict[str, Any]] = [
        {"name": _FOLDED_FIELDS, "type": "json", "shape": [], "data": json.dumps(fields).encode()}
    ]
    for name, array in arrays.items():
        if str(array.dtype) not in _ARRAY_TYPES:
            raise ValueError(
                f"folded: '{name}' is of {array.dtype}, expected one of {', '.join(_ARRAY_TYPES)}"
            )
        data = pa.compress(np.ascontiguousarray(array).tobytes(), "zstd", asbytes=True)
        rows.append({"name": name, "type": str(array.dtype), "shape": list(array.shape), "data": data})
    return pa.Table.from_pylist(
        rows,
        pa.schema(
            [
                ("name", pa.string()),
                ("type", pa.string()),
                ("shape", pa.list_(pa.int64())),
                ("data", pa.large_binary()),
            ]
        ),
    )


def folded_of(table: pa.Table) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return (arrays, fields) as `folded_table` received them. Raise CorruptLedger."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    fields: dict[str, Any] = {}
    try:
        for row in table.to_pylist():
            if row["type"] == "json":
                fields = json.loads(row["data"])
            elif row["type"] in _ARRAY_TYPES:
                size = int(np.prod(row["shape"])) * np.dtype(row["type"]).itemsize
                data = pa.decompress(row["data"], size, "zstd", asbytes=True)
                arrays[row["name"]] = np.frombuffer(data, row["type"]).reshape(row["shape"]).copy()
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise CorruptLedger(f"table {FOLDED} of the ledger: cannot be read: {error}") from None
    return arrays, fields
