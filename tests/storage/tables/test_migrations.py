import duckdb
import pytest

from storage.archive import Archive
from storage.records import RatingChange
from storage.tables import columns, migrations
from storage.tables.migrations import Damaged

pytestmark = pytest.mark.slow


@pytest.fixture
def old_run(run, make_results, monkeypatch):
    """A closed run as before teams and leads were stored: neither its frames nor its index have them."""
    new_tables = columns.result_tables

    def result_tables(*arguments):
        tables = new_tables(*arguments)
        return tables | {
            "seats": tables["seats"].drop_columns(["team"]),
            "meetings": tables["meetings"].drop_columns(["lead", "squares"]),
        }

    with monkeypatch.context() as patch, Archive.open(run) as archive:
        patch.setattr(columns, "result_tables", result_tables)
        for i in range(4):
            archive.append_results(make_results(50, 50 * i, seed=i), [RatingChange("main-0", i, 8.0, 50)])
    with duckdb.connect(str(run / "league.duckdb")) as connection:
        make_first(connection)
    return run


def make_first(connection):
    """Take the newest index back to the oldest schema that is brought forward."""
    connection.execute("DROP VIEW learned_from")
    connection.execute("CREATE VIEW another AS SELECT 1 AS x")
    connection.execute("DROP TABLE yardsticks")
    connection.execute("DROP TABLE branches")
    connection.execute("DROP TABLE incidents")
    connection.execute("DROP TABLE ends")
    connection.execute("DROP TABLE drawn_pairs")
    for name in ("matches", "seats", "opponents"):
        connection.execute(f"DROP TABLE summed_{name}")
    connection.execute("DROP VIEW played; DROP VIEW seated; ALTER TABLE ingest_state DROP COLUMN summed")
    connection.execute("ALTER TABLE seats DROP COLUMN team")
    connection.execute("DROP VIEW payoff")
    connection.execute("DROP VIEW leaderboard")
    connection.execute("ALTER TABLE runs DROP COLUMN most_lead")
    connection.execute("ALTER TABLE meetings DROP COLUMN lead")
    connection.execute("ALTER TABLE meetings DROP COLUMN squares")
    connection.execute(f"DELETE FROM migrations WHERE rowid >= {len(migrations.BASELINE)}")


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
    assert {row[-1] for row in migrated["seats"]} == {None}
    assert {row[-2:] for row in migrated["meetings"]} == {(None, None)}


def test_a_migrated_index_goes_on_as_any_other(old_run, make_results):
    with Archive.open(old_run) as archive:
        archive.append_results(make_results(10, 200, seed=9), [RatingChange("main-0", 30.0, 8.0, 50)])
        archive.flush()
        teams = "SELECT team, count(*) FROM seats GROUP BY team ORDER BY team"
        assert archive._database.connection.execute(teams).fetchall() == [(0, 10), (1, 10), (None, 400)]
        (games,) = archive._database.connection.execute("SELECT sum(games) FROM payoff").fetchone()
        assert games == 2 * 210


@pytest.mark.parametrize("done", range(len(migrations.MIGRATIONS) + 1))
def test_every_prefix_of_the_migrations_leads_to_the_newest_schema(done):
    with duckdb.connect() as connection:
        migrations.create(connection)
        make_first(connection)
        connection.execute("UPDATE ingest_state SET sequence = 7, batch_id = 'id'::BLOB")
        for name, sql in migrations.MIGRATIONS[:done]:
            connection.execute(sql)
            connection.execute("INSERT INTO migrations VALUES (?)", [name])
        migrations.bring_forward(connection)
        with duckdb.connect() as fresh:
            migrations.create(fresh)
            assert shape(connection) == shape(fresh)
        assert connection.execute("FROM ingest_state").fetchall() == [(7, b"id", 0)]


def shape(connection):
    tables = migrations._schema_of(connection).tables
    names = migrations._done(connection) if "migrations" in tables else None
    views = connection.execute("SELECT view_name, sql FROM duckdb_views() WHERE NOT internal").fetchall()
    return names, sorted(views), tables


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO migrations VALUES ('later than this version')",
        "UPDATE migrations SET name = 'another'",
        "DELETE FROM migrations WHERE rowid = 0",
        "DELETE FROM migrations",
        "DELETE FROM migrations WHERE rowid >= 8",
        "DROP TABLE migrations",
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
