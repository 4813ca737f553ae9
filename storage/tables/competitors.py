"""The competitors of a run as rows of its tables and back: `competitors`, and the tables of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from storage.errors import StorageError
from storage.records import Bot, Competitor, Entrant, LivePlayer, Snapshot
from storage.tables import codec


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
    """Return the rows that seat entrants: of `entrants`, and of `competitors`.

    Raise StorageError if two have the same name.
    """
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
