"""The sums of a segment: what is left of its matches, seats, meetings and ratings; no recorded actions.

The frames of a segment fall into groups: one ends before each frame with decisions, snapshots or the
beginning of a session, and one with the segment. So a sum never has matches of before and after a freeze.

    matches, seats      a share of the matches, drawn by their numbers; the others are in sums
    summed_matches      sums by group, minute, purpose, match type, game, reason and learning player
    summed_seats        sums by group, purpose, competitor, seat, outcome
    summed_opponents    how often each player learned from games with each other competitor, by group
    meetings            one row for each group and ordered pair of competitors; games of one batch before
    ratings             the last one of each competitor in each group
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.ledger.segments import Segment
from storage.tables import schema
from storage.tables.columns import FOLDED

BOUNDS = ("decisions", "snapshots", "runs", "players")  # tables whose frames no group spans
SUMMED = ("matches", "seats", "meetings", "ratings")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Sums:
    """What a segment is replaced by: rows of tables, and the frame that each of them comes with."""

    tables: dict[str, tuple[pa.Table, npt.NDArray[np.int64]]]  # in order of frames
    first_seq: int  # of the matches; 0: there are none
    last_seq: int


def sum_up(segment: Segment, share: float, origin: float | None = None) -> Sums:
    """Return the sums of `segment`; so large a `share` of its matches stays whole.

    Minutes are counted from `origin`, in seconds since the epoch: the beginning of the run's first match, by
    default that of the segment's. Raise CorruptLedger for a file that is not as it was written.
    """
    segment.verify()
    counts = segment.counts()
    tables = counts["table"].to_pylist()
    bounds = {s for s, name in zip(counts["sequence"].to_pylist(), tables, strict=True) if name in BOUNDS}
    ends = np.array(sorted({*(s - 1 for s in bounds if s > segment.first), segment.last}), np.int64)
    with duckdb.connect(":memory:", config=schema.CONFIG | {"threads": 1}) as connection:
        connection.execute("SET enable_progress_bar = false")
        for name in SUMMED:
            _show(connection, segment, name, ends)
        if "matches" not in segment.tables:
            first, last, began = 0, 0, 0.0
        else:
            (found,) = connection.execute(
                "SELECT min(seq), max(seq), min(started_at) FROM matches"
            ).fetchall()
            first, last, began = found
        origin = began if origin is None else origin
        keeps = f"hash(seq) % {_MILLION} < {round(share * _MILLION)}"
        connection.execute(f"CREATE TEMP VIEW gone AS SELECT * FROM matches WHERE NOT ({keeps})")
        connection.execute(_PLACED)
        made: dict[str, tuple[pa.Table, npt.NDArray[np.int64]]] = {}
        for name, question in _QUESTIONS.items():
            rows = connection.sql(question.format(keeps=keeps, origin=repr(origin))).to_arrow_table()
            if len(rows):
                frames = rows["frame"].to_numpy()
                made[name] = (_typed(name, rows.drop_columns(["frame"])), frames)
    return Sums(made, first, last)


def _show(connection: duckdb.DuckDBPyConnection, segment: Segment, name: str, ends: npt.NDArray) -> None:
    """Show the rows of a table of the segment as facts, with `frame`, the last one of their group."""
    columns = schema.arrow_schema(name)
    texts = [field.name for field in columns if pa.types.is_string(field.type)]
    rows = segment.table(name, texts) if name in segment.tables else columns.empty_table()
    for field in columns:
        if field.name not in rows.column_names:
            rows = rows.append_column(field.name, pa.nulls(len(rows), field.type))
    counts = segment.counts()
    mine = pc.fill_null(pc.equal(counts["table"], name), False)
    counts = counts.filter(mine)
    frames = np.repeat(counts["sequence"].to_numpy(), counts["rows"].to_numpy())
    groups = ends[np.searchsorted(ends, frames)] if len(frames) else np.zeros(0, np.int64)
    rows = rows.append_column("frame", pa.array(groups, pa.int64()))
    connection.register(name, rows.append_column("place", pa.array(np.arange(len(rows)), pa.int64())))


def _typed(name: str, rows: pa.Table) -> pa.Table:
    columns = schema.arrow_schema(name)
    names = [field.name for field in columns if field.name in rows.column_names]
    return pa.table({n: rows[n].cast(columns.field(n).type).combine_chunks() for n in names})


# The number of the last match of each group, of which sums are.
_PLACED = """
CREATE TEMP TABLE placed AS SELECT frame, max(seq) AS last_seq FROM matches GROUP BY frame
"""
_QUESTIONS = {
    "matches": "SELECT * EXCLUDE (place) FROM matches WHERE {keeps} ORDER BY place",
    "seats": "SELECT * EXCLUDE (place) FROM seats WHERE {keeps} ORDER BY place",
    "meetings": """
        SELECT
            max(seq) AS seq, purpose, home, away,
            sum(games) AS games, sum(wins) AS wins, sum(draws) AS draws, sum(losses) AS losses,
            sum(lead) AS lead, sum(squares) AS squares, frame
        FROM meetings GROUP BY frame, purpose, home, away ORDER BY frame, purpose, home, away
    """,
    "ratings": """
        SELECT r.* EXCLUDE (place) FROM (SELECT * FROM ratings
        QUALIFY row_number() OVER (PARTITION BY frame, competitor ORDER BY place DESC) = 1) r ORDER BY r.place
    """,
    "summed_matches": """
        SELECT
            any_value(last_seq) AS seq, frame AS batch, purpose, match_type, env, reason, num_seats, player,
            min(started_at) AS started_at, max(started_at + seconds) AS ended_at,
            count(*) AS matches, sum(env_steps) AS env_steps,
            sum(CAST(env_steps AS DOUBLE) ** 2) AS step_squares, sum(CAST(seconds AS DOUBLE)) AS seconds,
            max(match_id) AS last_match_id, frame
        FROM gone JOIN placed USING (frame)
        GROUP BY
            frame, floor((started_at - {origin}) / 60), purpose, match_type, env, reason, num_seats, player
        ORDER BY frame, min(started_at), purpose, match_type, reason, player
    """,
    "summed_seats": """
        SELECT
            any_value(last_seq) AS seq, purpose, reason, num_seats, competitor, seat, learning, outcome,
            count(*) AS seats, sum(CAST(score AS DOUBLE)) AS score,
            sum(CAST(score AS DOUBLE) ** 2) AS squares, gone.frame AS frame
        FROM seats JOIN gone USING (seq) JOIN placed ON placed.frame = gone.frame
        GROUP BY gone.frame, purpose, reason, num_seats, competitor, seat, learning, outcome
        ORDER BY frame, purpose, competitor, seat, outcome, reason
    """,
    "summed_opponents": """
        SELECT
            any_value(last_seq) AS seq, learner.competitor AS player, other.competitor AS opponent,
            count(DISTINCT learner.seq) AS games, gone.frame AS frame
        FROM seats learner JOIN seats other ON learner.seq = other.seq AND learner.seat <> other.seat
        JOIN gone ON gone.seq = learner.seq JOIN placed ON placed.frame = gone.frame
        WHERE learner.learning
        GROUP BY gone.frame, learner.competitor, other.competitor ORDER BY frame, player, opponent
    """,
}
DROPPED = (FOLDED, "recordings")  # tables that a summed segment has no more
