import gc
import threading
import time

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import storage
import storage.tables.live
from storage.archive import Archive
from storage.errors import CorruptLedger, NotARun, RunLocked
from storage.ledger.ledger import Ledger
from storage.records import MAIN, LivePlayer, RatingChange
from storage.tables import columns, schema
from storage.tables.live import LiveConnection, tables_in
from storage.tables.live_tables import _last_rows
from tests.steps import flip_bit


def rows(run, sql, **limits):
    return storage.query(run, sql, **limits).to_pylist()


def one(connection, sql):
    (row,) = connection.execute(sql).fetchall()
    return row


def write(ledger, make_results, first, count, seq=1):
    """Frames of 20 results each."""
    for i in range(first, first + count):
        changes = [RatingChange("main-0", float(i), 8.0, 20 * i)]
        ledger.append(columns.result_tables(make_results(20, 20 * i, seed=i), changes, seq + 20 * i, i + 1))


@pytest.mark.slow
def test_a_reader_beside_a_writer_sees_each_acknowledged_row_once_at_every_look(bare, make_results):
    """Three closings and compactions of segments, and more, happen under the reader's eyes."""
    acknowledged, over = [0], threading.Event()

    def work():
        with Ledger(bare / "ledger", "test", segment_frames=8) as ledger:
            for i in range(60):
                write(ledger, make_results, i, 1)
                acknowledged[0] = i + 1
                if i % 3 == 2:
                    ledger.compact()
                time.sleep(0.005)
        over.set()

    with storage.connect(bare) as live:
        assert one(live, "SELECT count(*) FROM matches") == (0,)
        writer = threading.Thread(target=work)
        writer.start()
        looks = set()
        while not over.is_set():
            before = acknowledged[0]
            count, different, last, batches = one(
                live,
                "SELECT count(*), count(DISTINCT seq), coalesce(max(seq), 0), count(DISTINCT batch) "
                "FROM matches",
            )
            assert count == different == last == 20 * batches
            assert before <= batches <= acknowledged[0] + 1
            looks.add(batches)
        writer.join()
        assert len(looks) > 5
        assert one(live, "SELECT count(*), count(DISTINCT (seq, seat)) FROM seats") == (2400, 2400)
        assert one(live, "SELECT sum(games) FROM payoff WHERE home < away") == (1200,)
        assert one(live, "SELECT games FROM leaderboard") == (60 * 20,)
        assert sum(len(part) for part in live._runs[0].tables["seats"]._recent) <= 8 * 40


@pytest.mark.slow
def test_a_long_lived_reader_holds_only_what_is_not_compacted(bare, make_results):
    def held():
        live.refresh()
        return {name: sum(map(len, table._recent)) for name, table in live._runs[0].tables.items()}

    with Ledger(bare / "ledger", "test", segment_frames=10) as ledger, storage.connect(bare) as live:
        write(ledger, make_results, 0, 13)
        before = live.execute("FROM payoff ORDER BY ALL").fetchall()
        assert (held()["matches"], held()["ratings"]) == (260, 13)
        assert held()["meetings"] > 0
        ledger.compact()
        assert live.execute("FROM payoff ORDER BY ALL").fetchall() == before
        assert (held()["matches"], held()["seats"], held()["ratings"]) == (60, 120, 3)
        write(ledger, make_results, 13, 8)
        ledger.compact()
        assert one(live, "SELECT sum(games) FROM payoff") == (2 * 21 * 20,)
        assert (held()["matches"], held()["ratings"]) == (20, 1)
    with storage.connect(bare) as fresh:
        assert one(fresh, "SELECT sum(games) FROM payoff") == (2 * 21 * 20,)
        assert one(fresh, "SELECT games FROM leaderboard") == (21 * 20,)


@pytest.mark.long
def test_thousands_of_small_frames_become_few_parts(bare, make_results):
    with Ledger(bare / "ledger", "test") as ledger, storage.connect(bare) as live:
        for i in range(150):
            write(ledger, make_results, i, 1)
            live.refresh()
        parts = live._runs[0].tables["seats"]._recent
        assert len(parts) <= 8
        assert all(part["competitor"].num_chunks == 1 for part in parts)
        assert one(live, "SELECT count(*), count(DISTINCT seq) FROM seats") == (6000, 3000)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_frames_with_other_types_and_columns_are_read_as_one(bare, text):
    indices = pa.array([0, 1, 0], pa.int8())
    kinds = [
        pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"])),
        pa.DictionaryArray.from_arrays(indices.cast(pa.int64()), pa.array(["b", "c"])),
        pa.array(["c", None, "a"], text),
    ]
    with Ledger(bare / "ledger", "test") as ledger, storage.connect(bare) as live:
        for i, names in enumerate(kinds):
            table = {
                "seq": pa.array(range(3 * i, 3 * i + 3), pa.int32()),
                "competitor": names,
                "new": indices,
            }
            ledger.append({"seats": pa.table(table), "unheard_of": pa.table({"x": indices})})
        for _ in range(2):
            found = live.execute("SELECT seq, competitor, score FROM seats ORDER BY seq").fetchall()
            assert [row[0] for row in found] == list(range(9))
            assert [row[1] for row in found] == ["a", "b", "a", "b", "c", "b", "c", None, "a"]
            assert {row[2] for row in found} == {None}
            ledger._start_segment()
            ledger.compact()


@pytest.mark.slow
def test_a_reader_in_the_writers_own_process_leaves_its_lock_alone(run):
    with Archive.open(run) as archive, storage.connect(run) as live:
        for number in range(3):
            archive.add_player(LivePlayer(f"p{number}", MAIN))
            assert one(live, "SELECT count(*) FROM players") == (2 + number,)
        with pytest.raises(RunLocked):
            Archive.open(run)


@pytest.mark.slow
def test_two_connections_have_nothing_in_common(filled):
    with storage.connect(filled) as one_reader, storage.connect(filled) as other, other.cursor() as third:
        one_reader.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x")
        one_reader.execute("SET threads = 1")
        one_reader.execute("DROP VIEW leaderboard")
        for reader in (other, third):
            with pytest.raises(duckdb.CatalogException):
                reader.execute("FROM mine")
            assert len(reader.execute("FROM leaderboard").fetchall()) == 2
        one_reader.close()
        assert one(other, "SELECT count(*) FROM matches") == (80,)


@pytest.mark.slow
def test_an_answer_begun_is_finished_though_the_run_goes_on(filled, make_results):
    with Archive.open(filled) as archive, storage.connect(filled) as live:
        relation = live.sql("SELECT seq FROM matches ORDER BY seq")
        archive.append_results(make_results(10, 80), [])
        assert len(relation.fetchall()) == 80
        assert len(live.sql("FROM matches").fetchall()) == 90


@pytest.mark.slow
def test_an_answer_read_in_parts_is_left_alone_and_what_is_new_shown_afterwards(filled, make_results):
    with Archive.open(filled) as archive, storage.connect(filled) as live:
        reader = live.sql("FROM range(1000000)").to_arrow_reader(1000)
        assert len(reader.read_next_batch()) == 1000
        archive.append_results(make_results(10, 80), [])
        with pytest.raises(duckdb.ResourceInUseException):
            live.execute("SELECT count(*) FROM matches")
        assert sum(len(batch) for batch in reader) == 999_000
        assert one(live, "SELECT count(*) FROM matches") == (90,)


@pytest.mark.slow
def test_after_an_error_a_connection_is_closed_rather_than_lacking_rows(filled, make_results):
    with Archive.open(filled) as archive, storage.connect(filled) as live:
        archive.append_results(make_results(10, 80), [])
        (journal,) = (filled / "ledger").glob("*.journal")
        good = journal.read_bytes()
        journal.write_bytes(good[:1000])
        with pytest.raises(CorruptLedger):
            live.execute("SELECT 1")
        journal.write_bytes(good)
        with pytest.raises(duckdb.ConnectionException):
            live.execute("SELECT 1")


@pytest.mark.long
def test_closing_lets_go_of_memory_and_file(filled, make_results):
    with Archive.open(filled) as archive:
        archive.append_results(make_results(20_000, 80), [])
    gc.collect()
    before = pa.total_allocated_bytes()
    live = storage.connect(filled)
    live.execute("SELECT count(*) FROM seats").fetchall()
    held = pa.total_allocated_bytes() - before
    assert held > 400_000
    live.close()
    gc.collect()
    assert pa.total_allocated_bytes() - before < held / 10
    with pytest.raises(duckdb.ConnectionException):
        live.execute("SELECT 1")


@pytest.mark.slow
def test_a_corrupt_ledger_is_told_to_readers(filled):
    (journal,) = (filled / "ledger").glob("*.journal")
    flip_bit(journal, 200)
    with pytest.raises(CorruptLedger):
        storage.connect(filled)
    with pytest.raises(CorruptLedger):
        storage.query(filled, "SELECT 1")


@pytest.fixture
def compacted(bare, make_results):
    """A run with 160 matches in a compacted segment, and 100 in the journal behind it."""
    with Ledger(bare / "ledger", "test", segment_frames=8) as ledger:
        write(ledger, make_results, 0, 13)
        ledger.compact()
    return bare


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM matches",
        'SELECT COUNT(*) FROM Main."MATCHES"',
        "WITH m AS (FROM matches) SELECT (SELECT count(*) FROM m)",
        "SELECT sum(matches)::INT FROM match_mix",
        "SELECT count(*) FROM query_table('mat' || 'ches')",
        "SELECT count(*) FROM query('FROM mat' || 'ches')",
    ],
)
def test_a_table_is_read_when_a_statement_comes_to_it_by_whatever_name(sql, compacted):
    with storage.connect(compacted) as live:
        assert one(live, sql) == (260,)
    with storage.connect(compacted) as live:
        live.execute(f"CREATE TEMP VIEW mine AS {sql}")
        assert one(live, "FROM mine") == (260,)
    with storage.connect(compacted) as live:
        assert live.sql(sql).fetchall() == [(260,)]


@pytest.mark.parametrize("moment", [None, 100, 2_000])
def test_the_newest_rows_have_the_whole_last_match_in_the_journal_or_in_a_file(moment, compacted):
    with storage.connect(compacted, as_of=moment) as live:
        (last,) = one(live, "SELECT max(seq) FROM seats")
    with storage.connect(compacted, as_of=moment) as live:
        found = live.newest("seats")
        assert found["seq"].to_pylist().count(last) == 2
        assert max(found["seq"].to_pylist()) == last
        assert live.newest("players").num_rows == 0


def test_a_match_in_two_row_groups_is_whole_among_the_newest_rows(tmp_path):
    rows = pa.table({"seq": [1, 1, 2, 2, 3, 3]})
    pq.write_table(rows, tmp_path / "rows", row_group_size=5)
    assert _last_rows(tmp_path / "rows", ["seq"])["seq"].to_pylist() == [1, 1, 2, 2, 3, 3]
    pq.write_table(rows, tmp_path / "rows", row_group_size=2)
    assert _last_rows(tmp_path / "rows", ["seq"])["seq"].to_pylist() == [2, 2, 3, 3]


def test_what_no_statement_named_is_an_error_rather_than_empty(compacted):
    with storage.connect(compacted) as live:
        assert one(live, "SELECT count(*) FROM ratings") == (13,)
        with pytest.raises(duckdb.Error, match="does not name"):
            live._connection.execute("SELECT count(*) FROM matches").fetchall()
        assert one(live, "SELECT count(*) FROM matches") == (260,)


@pytest.mark.slow
def test_a_file_that_has_changed_is_found_out_when_its_table_is_first_asked_for(compacted):
    (file,) = (compacted / "ledger").glob("*.seats.parquet")
    flip_bit(file, 0.5)
    for sql in ("SELECT count(*) FROM seats", "FROM learned_from", "FROM seats LIMIT 0"):
        with storage.connect(compacted) as live:
            assert one(live, "SELECT count(*) FROM matches") == (260,)
            with pytest.raises(CorruptLedger, match=r"seats\.parquet: found .* restore"):
                live.execute(sql)
    file.unlink()
    with (
        pytest.raises(CorruptLedger, match=r"seats\.parquet: cannot be read"),
        storage.connect(compacted) as live,
    ):
        live.execute("FROM seats")


@pytest.mark.slow
def test_of_several_runs_no_view_counts_what_happened_in_another(compacted, filled):
    views = ("payoff", "leaderboard", "match_mix", "learned_from", "lineage")
    with storage.connect(compacted, filled) as both:
        names = dict(zip(both.names, (compacted, filled), strict=True))
        for name, run in names.items():
            with storage.connect(run) as alone:
                for table in (*schema.TABLES, *views):
                    expected = [(name, *row) for row in alone.execute(f"FROM {table}").fetchall()]
                    found = both.execute(f"FROM {table} WHERE run = ?", [name]).fetchall()
                    assert sorted(found, key=repr) == sorted(expected, key=repr), table


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(NotARun, match="no file FORMAT"):
        storage.connect(tmp_path)
    (tmp_path / "FORMAT").write_text('{"version": 99}')
    with pytest.raises(NotARun, match="format version 99, this package reads version 1"):
        storage.query(tmp_path, "SELECT 1")
    (tmp_path / "FORMAT").write_text('{"version": 1}')
    with pytest.raises(NotARun, match="no folder ledger in it"):
        storage.connect(tmp_path)


@pytest.mark.slow
def test_connections_are_duckdbs_in_all_else(filled):
    with storage.connect(filled) as live:
        assert isinstance(live, LiveConnection)
        assert live.execute("SELECT ? + 1 AS x", [2]).df()["x"].tolist() == [3]
        assert live.execute("SELECT 1 AS x, 2 AS y").fetchone() == (1, 2)
        assert [column[0] for column in live.description] == ["x", "y"]
        assert live.sql("SELECT 1 AS x").to_arrow_table().to_pylist() == [{"x": 1}]
        with pytest.raises(AttributeError):
            live.no_such_method()


@pytest.mark.slow
def test_what_an_earlier_question_left_unread_keeps_no_later_one_from_being_fresh(filled, make_results):
    with Archive.open(filled) as archive, storage.connect(filled) as live:
        for i in range(3):
            assert live.execute("SELECT count(*) OVER () FROM matches").fetchone() == (80 + 10 * i,)
            archive.append_results(make_results(10, 80 + 10 * i), [])
        for ask in (live.sql, live.query):
            assert ask("SELECT count(*) FROM matches").fetchall() == [(110,)]
        archive.append_results(make_results(10, 110), [])
        assert len(live.table("matches").fetchall()) == 120


KNOWN = {"matches", "seats", "played", "payoff"}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "SELECT purpose, sum(matches), matches FROM played p WHERE matches > 3 ORDER BY matches",
            {"played"},
        ),
        ("FROM Matches", {"matches"}),
        ('SELECT * FROM main."matches" m, run_1.seats', {"matches", "seats"}),
        ("FROM played SELECT matches", {"played"}),
        ("SELECT (SELECT max(seq) FROM matches), seats FROM payoff", {"matches", "payoff"}),
        (
            "WITH x AS (FROM seats) SELECT matches FROM x JOIN (payoff JOIN played ON true) USING (seq)",
            {"seats", "payoff", "played"},
        ),
        ("SELECT 'FROM matches' -- FROM seats\n/* JOIN played */ FROM payoff", {"payoff"}),
        ("SELECT '--', $$ ' $$, x FROM matches", {"matches"}),
        ("PIVOT matches ON purpose USING sum(env_steps)", {"matches"}),
        ("SUMMARIZE matches", {"matches"}),
        (
            "SELECT * FROM (SELECT sum(matches) AS n FROM played) WHERE n IN (SELECT seq FROM seats)",
            {"played", "seats"},
        ),
        ("INSERT INTO t SELECT matches FROM x UNION ALL SELECT seats FROM payoff", {"payoff"}),
        ("SELECT 1; FROM seats", {"seats"}),
        (")) FROM seats", {"seats"}),
        ("", set()),
    ],
)
def test_names_count_where_a_table_may_be(statement, expected):
    assert tables_in(statement, KNOWN) == expected
