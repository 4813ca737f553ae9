import math

import pyarrow as pa
import pytest

from storage.ends import End
from storage.incidents import Incident
from storage.records import (
    MAIN,
    BranchPoint,
    CacheRecord,
    DrawnPair,
    Entrant,
    LivePlayer,
    RatingChange,
    Snapshot,
    YardstickRecord,
)
from storage.tables import codec, schema

RECORDS = {
    "players": LivePlayer("main-0", MAIN),
    "snapshots": Snapshot("main-0@5", "main-0", MAIN, 5, 1, None, "ab", 8, "mlp", 1.7e9 + 1 / 3, "due"),
    "entrants": Entrant("a", "snapshot", MAIN, "main-0", "runs/x", "main-0@5", "ab", 5, 1.5, "mlp", 0.5),
    "ratings": RatingChange("main-0", 25.0, 8.0, 3),
    "caches": CacheRecord("here", "disk", 1, 2, 3, 4, {"room": 2}),
    "drawn_pairs": DrawnPair(4, 1, 0.5, {"main-0": math.inf, "random": -1.0}),
    "incidents": Incident(kind="learner", who="x", players=("a", "b"), matches=2, happened_at=7.0),
    "ends": End(state="stopped", seconds=1.0, of_seconds=None, env_steps=5, ended_at=9.0),
    "branches": BranchPoint(
        parent="p",
        frame=3,
        env_steps=4,
        matches=5,
        seconds=6.0,
        learners={"main-0": "state"},
        changes=("a=1",),
        moment_at=1.0,
        branched_at=2.0,
    ),
    "yardsticks": YardstickRecord(
        competitor="c",
        yardstick="random",
        kind="games",
        measure="score",
        mode="sample",
        part="all",
        value=0.5,
        low=0.25,
        high=0.75,
        samples=10,
    ),
}


@pytest.mark.parametrize("table", RECORDS)
def test_a_record_comes_back_equal_from_its_row_which_has_the_columns_of_the_schema(table):
    record = RECORDS[table]
    others = {column: None for column in schema.TABLES[table] if not hasattr(record, column)}
    rows = codec.rows(table, [record, record], **others)
    assert rows.schema == schema.arrow_schema(table)
    assert codec.records(type(record), rows) == [record, record]


def test_columns_that_a_record_lacks_have_one_value_or_one_for_each_row():
    rows = codec.rows("ratings", [RECORDS["ratings"]] * 2, seq=[7, 8], batch=3)
    assert (rows["seq"].to_pylist(), rows["batch"].to_pylist()) == ([7, 8], [3, 3])
    with pytest.raises(KeyError, match="batch"):
        codec.rows("ratings", [RECORDS["ratings"]], seq=7)


def test_rows_of_a_newer_version_have_columns_that_are_left_out():
    rows = codec.rows("ratings", [RECORDS["ratings"]], seq=7, batch=3).append_column("new", pa.array([1]))
    assert codec.records(RatingChange, rows) == [RECORDS["ratings"]]
