"""Branches as rows of the table `branches` and back: where a run was branched from another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

STATE = "state"  # in `Branch.learners`: the learner goes on from a state that was saved

_BRANCH = pa.schema(
    [
        ("seq", pa.int64()),
        ("parent", pa.string()),
        ("frame", pa.int64()),
        ("env_steps", pa.int64()),
        ("matches", pa.int64()),
        ("seconds", pa.float64()),
        ("learners", pa.string()),
        ("changes", pa.string()),
        ("moment_at", pa.float64()),
        ("branched_at", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The moment of a parent run at which a run was branched from it. Times are seconds since the epoch."""

    parent: str  # its folder, or the address of its remote
    frame: int  # last frame of the ledger that both runs have
    env_steps: int  # of the league by then
    matches: int  # by then
    seconds: float  # of training by then
    learners: Mapping[str, str]  # of each player: STATE, or the snapshot whose weights it goes on from
    changes: tuple[str, ...]  # settings that are other than the parent's, as `a.b=value`
    moment_at: float  # of the youngest fact that both runs have
    branched_at: float


def branch_table(branch: Branch, seq: int) -> pa.Table:
    """Return one row of `branches`; `seq` numbers the run's next match, decision or update."""
    row = {name: getattr(branch, name) for name in Branch.__slots__}
    row |= {"learners": json.dumps(dict(branch.learners)), "changes": json.dumps(branch.changes), "seq": seq}
    return pa.Table.from_pylist([row], _BRANCH)


def branches_of(table: pa.Table) -> list[Branch]:
    """Return the branches of these rows, in order."""
    found = []
    for row in table.select([name for name in _BRANCH.names if name != "seq"]).to_pylist():
        row |= {"learners": json.loads(row["learners"]), "changes": tuple(json.loads(row["changes"]))}
        found.append(Branch(**row))
    return found
