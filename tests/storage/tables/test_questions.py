import os
import threading

import numpy as np
import pytest

import storage
import storage.tables.questions
from storage.errors import BadQuery, Mistake


def rows(run, sql, **limits):
    return storage.query(run, sql, **limits).to_pylist()


@pytest.mark.slow
def test_sql_errors_are_one_line_of_a_users_mistake(filled):
    with pytest.raises(BadQuery, match="Table with name matchs does not exist") as caught:
        storage.query(filled, "SELECT * FROM matchs")
    assert "\n" not in str(caught.value)
    with pytest.raises(BadQuery, match="syntax error"):
        storage.query(filled, "SELEC 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_csv_auto('{secret}')",
        "SELECT content FROM read_text('{secret}')",
        "SELECT content FROM read_blob('{secret}')",
        "SELECT * FROM read_json('{secret}')",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM parquet_metadata('{folder}/a.parquet')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{secret}')",
        "SELECT * FROM query_table('{secret}')",
        "FROM query('SELECT * FROM read_text(''{secret}'')')",
        "SELECT getenv('SECRET')",
        "COPY matches TO '{folder}/stolen.csv'",
        "COPY (SELECT 1) TO '{folder}/stolen.parquet' (FORMAT parquet)",
        "COPY matches FROM '{secret}'",
        "EXPORT DATABASE '{folder}/stolen'",
        "IMPORT DATABASE '{folder}'",
        "ATTACH '{folder}/other.duckdb'",
        "ATTACH '{run}/league.duckdb' AS run",
        "ATTACH ':memory:' AS other",
        "CREATE TABLE x AS SELECT * FROM read_text('{secret}')",
        "CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')",
        "CREATE PERSISTENT SECRET (TYPE http, BEARER_TOKEN 'a')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{folder}/evil.duckdb_extension'",
        "UPDATE EXTENSIONS",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SET temp_directory = '{folder}'",
        "SET log_query_path = '{folder}/log'",
        "SET GLOBAL python_enable_replacements = true",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "PRAGMA profiling_output = '{folder}/profile'",
        "CALL enable_logging('QueryLog')",
        "CHECKPOINT",
        "PREPARE v AS SELECT 1",
        "SELECT * FROM filled",
        "SELECT * FROM secret",
    ],
)
def test_user_sql_reaches_no_file_no_setting_and_no_python_variable(filled, tmp_path, monkeypatch, sql):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    secret = folder / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    monkeypatch.setenv("SECRET", "hidden")
    monkeypatch.setenv("HOME", str(folder))
    before = files_below(tmp_path)
    with pytest.raises(BadQuery) as caught:
        storage.query(filled, sql.format(secret=secret, folder=folder, run=filled))
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files_below(tmp_path) == before


def files_below(folder):
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


@pytest.mark.slow
def test_settings_tell_no_secret_of_the_machine(filled, monkeypatch):
    monkeypatch.setenv("SECRET", "hidden")
    assert "hidden" not in repr(rows(filled, "FROM duckdb_settings()"))


@pytest.mark.slow
def test_one_question_is_one_statement(filled):
    for sql, number in (("", 0), (";", 0), ("-- nothing", 0), ("SELECT 1; SELECT 2", 2)):
        with pytest.raises(BadQuery, match=f"found {number} statements, expected one"):
            storage.query(filled, sql)
    with pytest.raises(BadQuery, match="begins with DROP, expected a question"):
        storage.query(filled, "DROP VIEW matches")
    assert rows(filled, "SELECT 1 AS x; -- and no more") == [{"x": 1}]


@pytest.mark.slow
def test_a_query_that_takes_too_long_is_interrupted(filled):
    with pytest.raises(BadQuery, match=r"longer than 0\.2 seconds"):
        storage.query(
            filled,
            "SELECT count(*) FROM seats a, seats b, seats c, seats d, seats e WHERE a.score > b.score",
            timeout_seconds=0.2,
        )
    with pytest.raises(BadQuery, match="longer than 0 seconds"):
        storage.query(
            filled, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) FROM n", timeout_seconds=0
        )
    assert not [thread for thread in threading.enumerate() if "time limit" in thread.name]


@pytest.mark.slow
def test_a_query_that_needs_too_much_memory_is_refused_and_nothing_spills(filled, monkeypatch):
    monkeypatch.setattr(storage.tables.questions, "QUERY_MEMORY", "100MB")
    before = files_below(filled)
    for sql in (
        "SELECT range FROM range(100000000) ORDER BY hash(range)",
        "SELECT list(range) FROM range(1000000000)",
        "SELECT count(*) FROM range(100000000000) a, range(1000000000) b",
    ):
        with pytest.raises(BadQuery, match="the query needs more than 100MB of memory"):
            storage.query(filled, sql)
    assert files_below(filled) == before
    assert not os.path.exists(".tmp")


@pytest.mark.slow
def test_an_answer_that_holds_too_much_is_refused(filled, monkeypatch):
    monkeypatch.setattr(storage.tables.questions, "ANSWER_BYTES", 10 * 2**20)
    with pytest.raises(BadQuery, match="the answer holds over 10 MiB; ask for less, or add LIMIT"):
        storage.query(filled, "FROM range(1000000000000)")
    assert len(storage.query(filled, "FROM range(1000000000000)", max_rows=100_000)) == 100_000


@pytest.mark.slow
def test_an_error_behind_the_first_rows_is_a_mistake_too(filled):
    sql = "SELECT CASE WHEN range = 900000 THEN error('too far') ELSE range END AS x FROM range(1000000)"
    with pytest.raises(BadQuery, match="too far"):
        storage.query(filled, sql)


@pytest.mark.slow
@pytest.mark.parametrize("max_rows", [0, 1, 7, 160, 1000, None])
def test_answers_can_be_limited(filled, max_rows):
    found = storage.query(filled, "SELECT seq, seat FROM seats ORDER BY seq, seat", max_rows=max_rows)
    assert len(found) == min(160, 160 if max_rows is None else max_rows)
    assert found.schema.names == ["seq", "seat"]
    seqs = np.delete(np.arange(1, 83), [50, 51])  # decisions have these
    assert found["seq"].to_pylist() == np.repeat(seqs, 2)[: len(found)].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "num_rows"),
    [
        ("DESCRIBE matches", 14),
        ("SUMMARIZE matches", 14),
        ("SHOW TABLES", 33),
        ("EXPLAIN SELECT * FROM payoff", 1),
        ("EXPLAIN ANALYZE SELECT * FROM payoff", 1),
        ("PIVOT payoff ON away USING any_value(games) GROUP BY home", 3),
        ("FROM matches LIMIT 3", 3),
        ("VALUES (1), (2)", 2),
    ],
)
def test_questions_of_every_kind_are_answered_and_limited(filled, sql, num_rows):
    assert len(storage.query(filled, sql)) == num_rows
    assert len(storage.query(filled, sql, max_rows=1)) == 1


@pytest.mark.slow
def test_a_question_may_be_asked_of_the_past(filled):
    count = "SELECT count(*) AS n FROM matches"
    found = [rows(filled, count, as_of=moment)[0]["n"] for moment in (0, 1, "1999-12-31", 10**9)]
    assert found == [0, 50, 0, 80]
    with pytest.raises(Mistake, match="neither a number nor a time"):
        rows(filled, count, as_of="then")
