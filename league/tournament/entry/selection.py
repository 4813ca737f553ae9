"""Selection: the snapshots of a run for which a condition in SQL holds.

Asked are the columns of `snapshots`, and what the leaderboard says of each. The condition is a user's: it
is answered within the bounds of `storage.query`, and stays within its parentheses.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from storage import query
from storage.errors import BadQuery, Mistake
from storage.tables import migrations

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
MAY_BE_ASKED = f"columns that may be asked: {', '.join((*OWN, *RATED))}"
_BEFORE = f"""SELECT snapshot_id FROM (
    SELECT {", ".join(f"snapshots.{column}" for column in OWN)}, {", ".join(RATED)}
    FROM snapshots LEFT JOIN leaderboard ON leaderboard.competitor = snapshots.snapshot_id
) AS snapshots WHERE (
"""
_BEHIND = "\n)"  # on a line of its own: a comment may come before
_SHOWN = 24  # characters of the condition, from the place that is wrong


class BadSelection(Mistake):
    """A condition that cannot be asked, or that holds for no snapshot."""


def selected(run: Path, condition: str) -> set[str]:
    """The ids of the snapshots of `run` for which `condition` holds.

    Raises BadSelection with the place of what is wrong in it; NotARun, CorruptLedger.
    """
    _check_closed(condition)
    _check_bound(condition)
    try:
        return set(query(run, f"{_BEFORE}{condition}{_BEHIND}")["snapshot_id"].to_pylist())
    except BadQuery as error:
        raise BadSelection(f"select: {error}") from None


def _check_closed(condition: str) -> None:
    """Raise BadSelection for what would end before the condition does or reach beyond it, and for nothing."""
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
    """Raise BadSelection for what DuckDB does not understand, asked of a run in which nothing is: only
    from the text of a whole question does it tell the place."""
    with duckdb.connect(":memory:", config=migrations.CONFIG) as connection:
        migrations.create(connection)
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
            told = _explained(str(error), condition.encode(), len(before.encode()))
            raise BadSelection(f"select: {told}") from None


def _explained(error: str, condition: bytes, before: int) -> str:
    """DuckDB's error, as JSON, in a message; the condition began behind so many bytes."""
    told: dict[str, str] = json.loads(error.partition(": ")[2])
    message = _one_line(told["exception_message"].partition("\nCandidate bindings")[0].rstrip("!"))
    place = f" {_place(condition, int(told['position']) - before)}" if "position" in told else ""
    remedy = f"; {MAY_BE_ASKED}" if told.get("error_subtype") == "COLUMN_NOT_FOUND" else ""
    return f"{message}{place}{remedy}"


def _place(data: bytes, at: int) -> str:
    """Where byte `at` of a condition is, as a message tells it."""
    rest = data[at:].decode().strip()
    if not rest:
        return "at its end"
    cut = _one_line(rest[:_SHOWN]) + ("..." if len(rest) > _SHOWN else "")
    return f'at character {len(data[:at].decode()) + 1} ("{cut}")'


def _one_line(text: str) -> str:
    return " ".join(text.split())
