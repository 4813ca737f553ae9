"""The competitors of a run as rows of its tables and back: `competitors`, and the tables of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from storage.errors import StorageError
from storage.records import Bot, Competitor, Entrant, LivePlayer, Role, Snapshot

_SNAPSHOT = pa.schema(
    [
        ("snapshot_id", pa.string()),
        ("player", pa.string()),
        ("role", pa.string()),
        ("env_steps", pa.int64()),
        ("updates", pa.int64()),
        ("parent_id", pa.string()),
        ("blob_hash", pa.string()),
        ("bytes", pa.int64()),
        ("architecture", pa.string()),
        ("created_at", pa.float64()),
        ("reason", pa.string()),
    ]
)
_ENTRANT = pa.schema(
    [
        ("competitor", pa.string()),
        ("kind", pa.string()),
        ("role", pa.string()),
        ("player", pa.string()),
        ("run", pa.string()),
        ("snapshot_id", pa.string()),
        ("blob_hash", pa.string()),
        ("env_steps", pa.int64()),
        ("created_at", pa.float64()),
        ("architecture", pa.string()),
        ("temperature", pa.float64()),
    ]
)
_COMPETITOR = ["competitor", "kind", "role", "player"]  # the columns that entrants share with everyone


def competitor_tables(competitor: Snapshot | LivePlayer | Bot, added_at: float) -> dict[str, pa.Table]:
    """Return the rows that seat a competitor: of `competitors`, and of `players` or `snapshots`."""
    kind, role, player = "bot", None, None
    tables: dict[str, pa.Table] = {}
    if isinstance(competitor, Snapshot):
        kind, role, player = "snapshot", competitor.role, competitor.player
        fields = {name: getattr(competitor, name) for name in _SNAPSHOT.names}
        tables["snapshots"] = pa.Table.from_pylist([fields], _SNAPSHOT)
    elif isinstance(competitor, LivePlayer):
        kind, role, player = "player", competitor.role, competitor.player
        tables["players"] = pa.table({"player": [player], "role": [role], "added_at": [added_at]})
    text = pa.string()
    tables["competitors"] = pa.table(
        {
            "competitor": pa.array([competitor.competitor], text),
            "kind": pa.array([kind], text),
            "role": pa.array([role], text),
            "player": pa.array([player], text),
            "added_at": pa.array([added_at], pa.float64()),
        }
    )
    return tables


def entrant_tables(entrants: Sequence[Entrant], joined_at: float) -> dict[str, pa.Table]:
    """Return the rows that seat entrants: of `entrants`, and of `competitors`.

    Raise StorageError if two have the same name.
    """
    names = {entrant.competitor for entrant in entrants}
    if len(names) < len(entrants):
        raise StorageError(
            f"entrants: {len(entrants)} have {len(names)} names between them, expected as many"
        )
    rows = [{name: getattr(entrant, name) for name in _ENTRANT.names} for entrant in entrants]
    table = pa.Table.from_pylist(rows, _ENTRANT)
    now = pa.array([joined_at] * len(rows), pa.float64())
    return {
        "entrants": table.append_column("joined_at", now),
        "competitors": table.select(_COMPETITOR).append_column("added_at", now),
    }


def competitors_of(tables: Mapping[str, pa.Table]) -> list[Competitor]:
    """Return the competitors that a frame seats, in order: players, bots, snapshots, entrants."""
    found: list[Competitor] = []
    entrants: list[Entrant] = []
    if "entrants" in tables:
        entrants = [Entrant(**row) for row in tables["entrants"].select(_ENTRANT.names).to_pylist()]
    if "players" in tables:
        found += [LivePlayer(row["player"], Role(row["role"])) for row in tables["players"].to_pylist()]
    if "competitors" in tables:
        entered = {entrant.competitor for entrant in entrants}  # bots among them are here too
        rows = tables["competitors"].to_pylist()
        bots = [row["competitor"] for row in rows if row["kind"] == "bot"]
        found += [Bot(name) for name in bots if name not in entered]
    if "snapshots" in tables:
        found += [Snapshot(**row) for row in tables["snapshots"].select(_SNAPSHOT.names).to_pylist()]
    return found + entrants
