import duckdb
import pytest

from storage.archive import Archive
from storage.records import MAIN, Freeze, RatingChange
from storage.tables import columns, migrations
from storage.tables.migrations import Damaged

# The tables of an index before migrations had names, and one of its views.
FIRST = """
CREATE TABLE runs (
    seq BIGINT, name VARCHAR, env VARCHAR, seed BIGINT, config VARCHAR, version VARCHAR, started_at TIMESTAMP
);
CREATE TABLE players (player VARCHAR, role VARCHAR, added_at TIMESTAMP);
CREATE TABLE snapshots (
    snapshot_id VARCHAR, player VARCHAR, role VARCHAR, env_steps BIGINT, updates BIGINT, parent_id VARCHAR,
    blob_hash VARCHAR, bytes BIGINT, architecture VARCHAR, created_at TIMESTAMP, reason VARCHAR
);
CREATE TABLE competitors (
    competitor VARCHAR, kind VARCHAR, role VARCHAR, player VARCHAR, added_at TIMESTAMP
);
CREATE TABLE matches (
    seq BIGINT, match_id BIGINT, purpose VARCHAR, match_type VARCHAR, env VARCHAR, seed BIGINT,
    env_steps INTEGER, reason VARCHAR, started_at TIMESTAMP, seconds REAL, batch BIGINT
);
CREATE TABLE seats (
    seq BIGINT, seat TINYINT, competitor VARCHAR, learning BOOLEAN, outcome VARCHAR, score REAL, rank TINYINT
);
CREATE TABLE ratings (seq BIGINT, competitor VARCHAR, mu DOUBLE, sigma DOUBLE, games BIGINT);
CREATE TABLE decisions (
    seq BIGINT, kind VARCHAR, player VARCHAR, snapshot_id VARCHAR, role VARCHAR, reason VARCHAR,
    evidence VARCHAR, decided_at TIMESTAMP
);
CREATE TABLE updates (
    seq BIGINT, player VARCHAR, updates BIGINT, env_steps BIGINT, lag DOUBLE, policy_loss DOUBLE,
    value_loss DOUBLE, entropy DOUBLE, gradient_norm DOUBLE, metrics VARCHAR, recorded_at TIMESTAMP
);
CREATE TABLE ingest_state (sequence BIGINT, batch_id BLOB, schema VARCHAR);
CREATE VIEW payoff AS SELECT competitor AS home, count(*) AS games FROM seats GROUP BY competitor;
"""


@pytest.fixture
def old_run(run, make_results, weights, monkeypatch):
    """A run as the version before wrote it, closed: its frames know no meetings, nor does its index."""

    def result_tables(results, changes, seq, batch):
        tables = new_tables(results, changes, seq, batch)
        del tables["meetings"]
        return tables | {"matches": tables["matches"].drop_columns(["num_seats", "player"])}

    def rating_table(changes, seq, batch=None):
        return new_ratings(changes, seq, batch).drop_columns(["batch"])

    new_tables, new_ratings = columns.result_tables, columns.rating_table
    with monkeypatch.context() as patch, Archive.open(run) as archive:
        patch.setattr(columns, "result_tables", result_tables)
        patch.setattr(columns, "rating_table", rating_table)
        for i in range(4):
            archive.append_results(make_results(50, 50 * i, seed=i), [RatingChange("main-0", i, 8.0, 50)])
        freeze = Freeze(player="main-0", reason="due")
        archive.add_snapshot(
            "main-0", MAIN, 100, 2, "main-0@0", weights, {}, "mlp", "due", decisions=[freeze]
        )
    make_old(run / "league.duckdb")
    return run


def make_old(index):
    rows = everything(index)
    with duckdb.connect(str(index)) as connection:
        state = connection.execute("SELECT sequence, batch_id FROM ingest_state").fetchone()
    index.unlink()
    with duckdb.connect(str(index)) as connection:
        connection.execute(FIRST)
        connection.execute("INSERT INTO ingest_state VALUES (?, ?, 'a hash')", state)
        for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            width = len(connection.execute(f"DESCRIBE {name}").fetchall())
            for row in rows.get(name, []):
                marks = ", ".join("?" * width)
                connection.execute(f"INSERT INTO {name} VALUES ({marks})", row[:width])


def everything(index):
    with duckdb.connect(str(index), read_only=True) as connection:
        return {name: connection.execute(f"FROM {name}").fetchall() for name in migrations.newest().tables}


def described(index):
    with duckdb.connect(str(index), read_only=True) as connection:
        found = connection.execute("SELECT name FROM (SHOW ALL TABLES) ORDER BY name").fetchall()
        return {name: connection.execute(f"DESCRIBE {name}").fetchall() for (name,) in found}


def test_an_index_of_an_older_version_is_brought_forward_to_what_a_rebuild_gives(old_run):
    index = old_run / "league.duckdb"
    Archive.open(old_run).close()
    assert not list(old_run.glob("*.damaged-*"))
    migrated, columns_then = everything(index), described(index)
    index.unlink()
    Archive.open(old_run).close()
    assert everything(index) == migrated
    assert described(index) == columns_then
    assert len(migrated["meetings"]) == 16
    assert [row[-1] for row in migrated["ratings"]] == [None] * 4


def test_a_migrated_index_goes_on_as_any_other(old_run, make_results):
    with Archive.open(old_run) as archive:
        archive.append_results(make_results(10, 200, seed=9), [RatingChange("main-0", 30.0, 8.0, 50)])
        archive.flush()
        ratings = archive._database.connection.execute("FROM ratings ORDER BY seq").fetchall()
        assert ratings[-1][-1] == archive._ledger.last_sequence
        (games,) = archive._database.connection.execute("SELECT sum(games) FROM payoff").fetchone()
        assert games == 2 * 210


@pytest.mark.parametrize("done", range(len(migrations.MIGRATIONS) + 1))
def test_every_prefix_of_the_migrations_leads_to_the_newest_schema(done):
    with duckdb.connect() as connection:
        connection.execute(FIRST)
        connection.execute("INSERT INTO ingest_state VALUES (7, 'id'::BLOB, 'a hash')")
        connection.execute("CREATE TABLE migrations (name VARCHAR)")
        for name, sql in migrations.MIGRATIONS[:done]:
            connection.execute(sql)
            connection.execute("INSERT INTO migrations VALUES (?)", [name])
        migrations.bring_forward(connection)
        with duckdb.connect() as fresh:
            migrations.create(fresh)
            assert shape(connection) == shape(fresh)
        assert connection.execute("FROM ingest_state").fetchall() == [(7, b"id")]


def shape(connection):
    names = connection.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()
    views = connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
    return names, sorted(views), migrations._schema_of(connection).tables


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO migrations VALUES ('later than this version')",
        "UPDATE migrations SET name = 'another'",
        "DELETE FROM migrations WHERE rowid = 0",
        "DELETE FROM migrations",
        "ALTER TABLE matches ADD COLUMN another INTEGER",
        "ALTER TABLE matches ALTER seed TYPE VARCHAR",
        "DROP TABLE caches",
        "CREATE TABLE another (x INTEGER)",
        "ALTER TABLE ingest_state ADD COLUMN another INTEGER",
    ],
)
def test_an_index_with_another_past_is_refused_and_left_as_it_is(change):
    with duckdb.connect() as connection:
        migrations.create(connection)
        connection.execute(change)
        before = shape(connection)
        with pytest.raises((Damaged, duckdb.Error)):
            migrations.bring_forward(connection)
        assert shape(connection) == before


def test_views_are_made_anew_when_they_differ():
    with duckdb.connect() as connection:
        migrations.create(connection)
        before = shape(connection)
        connection.execute("CREATE OR REPLACE VIEW lineage AS SELECT 1 AS snapshot_id")
        connection.execute("CREATE VIEW another AS SELECT * FROM payoff")
        migrations.bring_forward(connection)
        assert shape(connection) == before
