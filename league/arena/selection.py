"""Selection: the snapshots of a run that fulfil an SQL condition.

The condition may use the columns of `snapshots` and some of the leaderboard. It is a user's text, so it
is evaluated within the bounds of `storage.query` and must stay within its parentheses.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from storage import query
from storage.errors import BadQuery, Mistake
from storage.tables import schema

OWN = (
    "snapshot_id",
    "player",
    "role",
    "env_steps",
    "updates",
    "parent_id",
    "blob_hash",
    "bytes",
    "architecture",
    "created_at",
    "reason",
)
RATED = ("mu", "sigma", "skill", "games", "win_rate")
MAY_BE_ASKED = f"columns that may be used: {', '.join((*OWN, *RATED))}"
_BEFORE = f"""SELECT snapshot_id FROM (
    SELECT {", ".join(f"snapshots.{column}" for column in OWN)}, {", ".join(RATED)}
    FROM snapshots LEFT JOIN leaderboard ON leaderboard.competitor = snapshots.snapshot_id
) AS snapshots WHERE (
"""
_BEHIND = "\n)"  # on its own line, as the condition may end with a comment
_SHOWN = 24  # characters of the condition that a message shows, from the wrong place on


class BadSelection(Mistake):
    """Condition that is invalid, or that no snapshot fulfils."""


def selected(run: Path, condition: str) -> set[str]:
    """Return the ids of the snapshots of `run` that fulfil `condition`.

    Raise BadSelection with the place of a mistake in it; NotARun, CorruptLedger.
    """
    _check_closed(condition)
    _check_bound(condition)
    try:
        return set(query(run, f"{_BEFORE}{condition}{_BEHIND}")["snapshot_id"].to_pylist())
    except BadQuery as error:
        raise BadSelection(f"select: {error}") from None


def _check_closed(condition: str) -> None:
    """Raise BadSelection for an empty condition, and for one that would escape from its parentheses."""
    data = condition.encode()  # the tokenizer counts bytes
    comment = duckdb.token_type.comment
    tokens = [(data[at : at + 1], at) for at, kind in duckdb.tokenize(condition) if kind is not comment]
    if not tokens:
        raise BadSelection("select: found nothing, expected a condition such as: role = 'main'")
    opened: list[int] = []
    for token, at in tokens:
        if token == b"(":
            opened.append(at)
        elif token == b")" and opened:
            opened.pop()
        elif token in (b")", b";"):
            raise BadSelection(f"select: found '{token.decode()}' {_place(data, at)}, expected one condition")
    if opened:
        raise BadSelection(f"select: found '(' {_place(data, opened[-1])}, expected ')' somewhere behind it")


def _check_bound(condition: str) -> None:
    """Raise BadSelection if DuckDB rejects the condition on empty tables, with the place of the mistake.

    DuckDB reports a place only for the text of a whole query.
    """
    with duckdb.connect(":memory:", config=schema.CONFIG) as connection:
        schema.create(connection)
        for setting in (
            "python_enable_replacements = false",
            "enable_external_access = false",
            "errors_as_json = true",
        ):
            connection.execute(f"SET {setting}")
        before = f"EXPLAIN {_BEFORE}"
        try:
            connection.execute(f"{before}{condition}{_BEHIND}")
        except duckdb.Error as error:
            explained = _explained(str(error), condition.encode(), len(before.encode()))
            raise BadSelection(f"select: {explained}") from None


def _explained(error: str, condition: bytes, before: int) -> str:
    """Return a message for DuckDB's error in JSON; `before` bytes precede the condition."""
    fields: dict[str, str] = json.loads(error.partition(": ")[2])
    message = _one_line(fields["exception_message"].partition("\nCandidate bindings")[0].rstrip("!"))
    place = f" {_place(condition, int(fields['position']) - before)}" if "position" in fields else ""
    remedy = f"; {MAY_BE_ASKED}" if fields.get("error_subtype") == "COLUMN_NOT_FOUND" else ""
    return f"{message}{place}{remedy}"


def _place(data: bytes, at: int) -> str:
    """Return the place of byte `at` of a condition in readable form."""
    rest = data[at:].decode().strip()
    if not rest:
        return "at its end"
    cut = _one_line(rest[:_SHOWN]) + ("..." if len(rest) > _SHOWN else "")
    return f'at character {len(data[:at].decode()) + 1} ("{cut}")'


def _one_line(text: str) -> str:
    return " ".join(text.split())
