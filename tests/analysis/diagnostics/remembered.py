"""Planted runs without a disk: the tables of a run in a DuckDB of their own, asked as a `History` is.

Ten seeds of each planted truth take seconds so, and not minutes. It is the archive itself that says what is
written; that both give the same findings is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.diagnostics import diagnose
from analysis.diagnostics.finding import Finding
from storage.archive import Archive
from storage.tables import schema
from storage.tables.schema import utc
from tests.analysis.planted_runs import Plan, Planter


class Remembered:
    """The few questions that diagnostics ask of a `History`."""

    runs = (Path("planted"),)

    def __init__(self, rng: np.random.Generator, plan: Plan | None = None) -> None:
        planter = Planter(rng, plan or Plan())
        memory = _Memory()
        with (
            mock.patch("storage.archive.time.time", planter.now),
            mock.patch("storage.archive.blobs.publish", return_value=("", 0)),
        ):
            planter.write(memory)
        self._connection = duckdb.connect(":memory:", config=schema.CONFIG)
        schema.create(self._connection)
        for name, types in schema.TABLES.items():
            self._fill(name, types, [frame[name] for frame in memory.frames if name in frame])

    def _fill(self, name: str, types: Any, parts: list[pa.Table]) -> None:
        if not parts or name == "seats":  # the largest, and no diagnostic asks for it
            return
        whole = pa.concat_tables(parts, promote_options="default").unify_dictionaries()
        there = [column for column in types if column in whole.column_names]
        chosen = ", ".join(utc(c) if types[c] == "TIMESTAMP" else f'"{c}"' for c in there)
        self._connection.register("whole", whole)
        into = ", ".join(f'"{column}"' for column in there)
        self._connection.execute(f"INSERT INTO {name} ({into}) SELECT {chosen} FROM whole")
        self._connection.unregister("whole")

    def config(self) -> dict[str, Any]:
        return {}

    def exploitability(self) -> pd.DataFrame:
        columns = ("run", "snapshot_id", "player", "env_steps", "kind", "value", "unit", "created_at")
        return pd.DataFrame({name: [] for name in columns})

    def sql(self, query: str, parameters: list[Any] | None = None) -> pd.DataFrame:
        return self._connection.execute(query, parameters or []).df()


def found(kind: str, plan: Plan | None = None, seed: int = 0) -> list[Finding]:
    """The findings of this kind in a run that was planted so."""
    return [one for one in diagnose(Remembered(np.random.default_rng(seed), plan)) if one.kind == kind]


class _Memory(Archive):
    """An archive whose frames stay where they are."""

    def __init__(self) -> None:
        self.run = Path("planted")
        self.frames: list[dict[str, pa.Table]] = []
        self._competitors = {}
        self._next_seq = 1
        self._behind_fold = 0
        self._ledger: Any = self

    @property
    def last_sequence(self) -> int:
        return len(self.frames)

    def _append_all(self, batches: Sequence[tuple[dict[str, pa.Table], int]]) -> int:
        self.frames += [tables for tables, _ in batches]
        self._next_seq += sum(numbers for _, numbers in batches)
        return len(self.frames)

    def _write_manifest(self, *_: Any) -> None:
        pass
