import multiprocessing
import os
import threading

import duckdb
import numpy as np
import pytest

import storage
import storage.database
from storage.archive import Archive
from storage.errors import BadQuery, NotARun
from storage.records import (
    LEAGUE_EXPLOITER,
    MAIN,
    Freeze,
    LivePlayer,
    MatchBatch,
    Purpose,
    RatingChange,
    Reset,
    ResultBatch,
    UpdateRecord,
)

TABLES = (
    "runs",
    "players",
    "snapshots",
    "competitors",
    "matches",
    "seats",
    "ratings",
    "decisions",
    "updates",
)
VIEWS = ("payoff", "leaderboard", "match_mix", "lineage")


@pytest.fixture
def filled(run, make_results, weights):
    """A run with facts in every table, closed."""
    with Archive.open(run) as archive:
        archive.append_results(make_results(50), [RatingChange("main-0", 25.0, 8.0, 50)])
        archive.add_snapshot(
            "main-0",
            MAIN,
            100,
            2,
            "main-0@0",
            weights,
            {},
            "mlp",
            "due",
            decisions=[Freeze(player="main-0", reason="due")],
        )
        archive.add_snapshot("main-0", MAIN, 200, 4, "main-0@100", weights, {}, "mlp", "due")
        archive.append_decisions([Reset(player="main-0", reason="stuck", target="main-0@0")])
        changes = [RatingChange("main-0", 26.0, 2.0, 80), RatingChange("random", 21.0, 1.0, 40)]
        archive.append_results(make_results(30, 50, seed=1), changes)
        archive.append_updates([UpdateRecord("main-0", 5, 900, 0.5, {"entropy": 1.0, "kl": 0.25})])
    return run


def contents(run):
    with storage.connect(run) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for name in (*TABLES, *VIEWS)
        }


def rows(run, sql):
    return storage.query(run, sql).to_pylist()


def hold(run, ready, done):
    """A process that writes `run` until told to stop."""
    with Archive.open(run) as archive:
        archive.add_player(LivePlayer("late", LEAGUE_EXPLOITER))
        ready.set()
        done.wait()


@pytest.mark.parametrize("name", [*TABLES, *VIEWS])
def test_every_table_and_view_has_rows_and_the_promised_columns(filled, name):
    promised = {
        "snapshots": "snapshot_id, player, role, env_steps, updates, parent_id, blob_hash, bytes, "
        "architecture, created_at, reason",
        "matches": "seq, match_id, purpose, match_type, env, seed, env_steps, reason, started_at, seconds",
        "seats": "seq, seat, competitor, learning, outcome, score, rank",
        "ratings": "seq, competitor, mu, sigma, games",
        "decisions": "seq, kind, player, snapshot_id, reason, evidence",
        "updates": "player, updates, env_steps, lag, policy_loss, value_loss, entropy, gradient_norm",
        "payoff": "home, away, games, wins, draws, losses, win_rate",
        "leaderboard": "competitor, role, mu, sigma, games, win_rate, skill",
        "lineage": "snapshot_id, ancestor_id, generation",
    }
    assert len(rows(filled, f"SELECT {promised.get(name, '*')} FROM {name}")) > 0


def test_the_index_holds_what_was_recorded(filled, make_results):
    first = make_results(50)
    table = storage.query(
        filled, "SELECT *, epoch(started_at) AS at FROM matches JOIN seats USING (seq) WHERE match_id < 50"
    ).sort_by([("match_id", "ascending"), ("seat", "ascending")])
    assert len(table) == 100
    assert np.array_equal(table["score"].to_numpy(), first.score.ravel())
    names = np.array(first.matches.competitors)[first.matches.seat.ravel()]
    assert table["competitor"].to_pylist() == names.tolist()
    assert table["seed"].to_numpy()[::2].tolist() == first.matches.seed.tolist()
    assert np.allclose(table["at"].to_numpy()[::2], first.started_at, atol=1e-6, rtol=0)
    assert set(table["outcome"].to_pylist()) == {"win", "draw", "loss", "forfeit"}
    assert rows(filled, "SELECT name, env, seed FROM runs") == [
        {"name": "test", "env": "connect_four", "seed": 3}
    ]
    (update,) = rows(filled, "SELECT entropy, value_loss, metrics->>'kl' AS kl FROM updates")
    assert update == {"entropy": 1.0, "value_loss": None, "kl": "0.25"}


def test_the_payoff_counts_each_pair_from_both_sides(filled, make_results):
    batches = [make_results(50), make_results(30, 50, seed=1)]
    wins = draws = games = 0
    for batch in batches:
        for result in batch:
            seats = [seat.competitor for seat in result.match.seats]
            if "random" in seats:
                outcome = result.outcomes[seats.index("main-0")].name
                games, wins, draws = games + 1, wins + (outcome == "WIN"), draws + (outcome == "DRAW")
    (home,) = rows(filled, "SELECT * FROM payoff WHERE home = 'main-0' AND away = 'random'")
    (away,) = rows(filled, "SELECT * FROM payoff WHERE home = 'random' AND away = 'main-0'")
    assert (home["games"], home["wins"], home["draws"]) == (games, wins, draws)
    assert home["losses"] == games - wins - draws == away["wins"]
    assert home["win_rate"] == pytest.approx((wins + draws / 2) / games)
    assert home["win_rate"] + away["win_rate"] == pytest.approx(1.0)


def test_more_than_two_seats_are_compared_by_rank_and_two_forfeits_say_nothing(run):
    batch = MatchBatch(
        env="three",
        purpose=Purpose.EVALUATION,
        match_types=("all",),
        competitors=("a", "b", "c"),
        match_id=np.arange(2),
        seed=np.arange(2),
        match_type=np.zeros(2, np.int16),
        seat=np.array([[0, 1, 2], [0, 1, 2]], np.int32),
        learning=np.zeros((2, 3), np.bool_),
    )
    results = ResultBatch(
        matches=batch,
        outcome=np.array([[0, 2, 2], [0, 3, 3]], np.int8),
        score=np.zeros((2, 3), np.float32),
        rank=np.array([[0, 1, 2], [0, 1, 1]], np.int8),
        env_steps=np.ones(2, np.int32),
        reason=np.zeros(2, np.int8),
        started_at=np.zeros(2),
        seconds=np.zeros(2, np.float32),
    )
    with Archive.open(run) as archive:
        archive.append_results(results, [])
    found = {(r["home"], r["away"]): (r["games"], r["wins"], r["losses"]) for r in rows(run, "FROM payoff")}
    assert found == {
        ("a", "b"): (2, 2, 0),
        ("a", "c"): (2, 2, 0),
        ("b", "a"): (2, 0, 2),
        ("c", "a"): (2, 0, 2),
        ("b", "c"): (1, 1, 0),
        ("c", "b"): (1, 0, 1),
    }


def test_the_leaderboard_shows_the_latest_ratings_best_first(filled):
    found = rows(filled, "SELECT competitor, role, mu, skill, games FROM leaderboard")
    assert found == [
        {"competitor": "main-0", "role": "main", "mu": 26.0, "skill": 20.0, "games": 80},
        {"competitor": "random", "role": None, "mu": 21.0, "skill": 18.0, "games": 40},
    ]


def test_shares_of_the_match_mix_add_up_to_one(filled):
    mix = rows(filled, "FROM match_mix")
    assert {row["match_type"] for row in mix} == {"self_play", "pfsp"}
    assert {row["player"] for row in mix} == {"main-0"}
    assert sum(row["matches"] for row in mix) == 80
    assert sum(row["share"] for row in mix) == pytest.approx(1.0)


def test_lineage_follows_parents_to_the_root(filled):
    found = {tuple(row.values()) for row in rows(filled, "FROM lineage")}
    assert found == {
        ("main-0@100", "main-0@0", 1),
        ("main-0@200", "main-0@100", 1),
        ("main-0@200", "main-0@0", 2),
    }


def damage_nothing(index):
    pass


def delete(index):
    index.unlink()


def truncate(index):
    os.truncate(index, index.stat().st_size // 2)


def empty(index):
    os.truncate(index, 0)


def garbage(index):
    index.write_bytes(os.urandom(50_000))


def scratch(index):
    data = bytearray(index.read_bytes())
    for offset in range(12_288, len(data), 4096):
        data[offset + 100] ^= 0xFF
    index.write_bytes(data)


def old_schema(index):
    with duckdb.connect(str(index)) as connection:
        connection.execute("UPDATE ingest_state SET schema = 'older'")


def missing_table(index):
    with duckdb.connect(str(index)) as connection:
        connection.execute("DROP TABLE ratings CASCADE")


def ahead(index):
    with duckdb.connect(str(index)) as connection:
        connection.execute("UPDATE ingest_state SET sequence = 999")


def other_run(index):
    with duckdb.connect(str(index)) as connection:
        connection.execute("DELETE FROM matches")
        connection.execute("UPDATE ingest_state SET batch_id = 'sixteen bytes id'::BLOB")


DAMAGES = (delete, truncate, empty, garbage, scratch, old_schema, missing_table, ahead, other_run)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_or_damaged_index_is_rebuilt_equal(filled, damage):
    before = contents(filled)
    index = filled / "league.duckdb"
    damage(index)
    assert contents(filled) == before, "a reader goes round a damaged index"
    Archive.open(filled).close()
    assert index.exists()
    assert contents(filled) == before
    with duckdb.connect(str(index), read_only=True) as connection:
        for name in TABLES:
            assert sorted(connection.execute(f"FROM {name}").fetchall(), key=repr) == before[name]
    aside = [path.name for path in filled.glob("league.duckdb.damaged-*")]
    assert aside == ([] if damage is delete else ["league.duckdb.damaged-1"])


def test_an_index_that_is_behind_is_completed_not_rebuilt(filled, make_results):
    index = filled / "league.duckdb"
    early = index.read_bytes()
    with Archive.open(filled) as archive:
        archive.append_results(make_results(10, 80, seed=2), [])
    before = contents(filled)
    index.write_bytes(early)
    assert contents(filled) == before, "a reader must not take an index that is behind"
    Archive.open(filled).close()
    assert contents(filled) == before
    assert not list(filled.glob("*.damaged-*"))


def test_a_write_ahead_log_without_its_index_is_not_replayed_into_the_new_one(filled):
    before = contents(filled)
    (filled / "league.duckdb").unlink()
    (filled / "league.duckdb.wal").write_bytes(b"left behind")
    Archive.open(filled).close()
    assert contents(filled) == before


def test_readers_see_a_run_that_another_process_writes_and_do_not_disturb_it(filled):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    writer = context.Process(target=hold, args=(filled, ready, done))
    writer.start()
    try:
        assert ready.wait(60)
        assert {"player": "late"} in rows(filled, "SELECT player FROM players")
        assert rows(filled, "SELECT count(*) AS n FROM matches") == [{"n": 80}]
        with pytest.raises(duckdb.IOException, match="lock"):
            duckdb.connect(str(filled / "league.duckdb"), read_only=True)
    finally:
        done.set()
        writer.join(60)
    assert writer.exitcode == 0
    assert not list(filled.glob("*.damaged-*"))
    assert {"player": "late"} in rows(filled, "SELECT player FROM players")


def test_a_reader_in_the_writers_own_process_leaves_its_lock_alone(run):
    with Archive.open(run) as archive:
        for number in range(3):
            archive.add_player(LivePlayer(f"p{number}", MAIN))
            assert rows(run, "SELECT count(*) AS n FROM players") == [{"n": 2 + number}]
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            assert pool.apply(can_open, (run / "league.duckdb",)) is False


def can_open(index):
    try:
        duckdb.connect(str(index)).close()
    except duckdb.IOException:
        return False
    return True


def test_an_open_reader_does_not_keep_a_run_from_being_resumed(filled):
    with storage.connect(filled) as connection:
        with Archive.open(filled) as archive:
            archive.add_player(LivePlayer("late", MAIN))
        assert connection.execute("SELECT count(*) FROM players").fetchall() == [(1,)]
    assert not list(filled.glob("*.damaged-*"))


def test_facts_reach_the_index_within_its_waiting_time(run, make_results, monkeypatch):
    with Archive.open(run) as archive:
        count = "SELECT count(*) FROM matches"
        archive.append_results(make_results(10), [])
        archive.flush()
        assert archive._database.connection.execute(count).fetchall() == [(10,)]
        archive.append_results(make_results(10, 10), [])
        assert archive._database.connection.execute(count).fetchall() == [(10,)]
        monkeypatch.setattr(storage.database, "FLUSH_SECONDS", 0.0)
        archive.append_results(make_results(10, 20), [])
        assert archive._database.connection.execute(count).fetchall() == [(30,)]


def test_a_failing_index_costs_no_fact(run, make_results):
    with Archive.open(run) as archive:
        archive.append_results(make_results(10), [])
        archive._database.connection.execute("DROP TABLE matches CASCADE")
        archive.flush()
        archive.append_results(make_results(10, 10), [])
        assert rows(run, "SELECT count(*) AS n FROM matches") == [{"n": 20}]
    assert rows(run, "SELECT count(*) AS n FROM matches") == [{"n": 20}]
    with Archive.open(run) as archive:
        assert archive.last_match_id() == 19


def test_sql_errors_are_one_line_of_a_users_mistake(filled):
    with pytest.raises(BadQuery, match="Table with name matchs does not exist") as caught:
        storage.query(filled, "SELECT * FROM matchs")
    assert "\n" not in str(caught.value)
    with pytest.raises(BadQuery, match="syntax error"):
        storage.query(filled, "SELEC 1")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY matches TO '/tmp/stolen.csv'",
        "ATTACH '/tmp/other.duckdb'",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SELECT * FROM filled",
    ],
)
def test_user_sql_reaches_no_file_no_setting_and_no_python_variable(filled, sql):
    with pytest.raises(BadQuery):
        storage.query(filled, sql)


def test_a_query_that_takes_too_long_is_interrupted(filled):
    with pytest.raises(BadQuery, match=r"longer than 0\.2 seconds"):
        storage.query(
            filled,
            "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b",
            timeout_seconds=0.2,
        )
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_answers_can_be_limited_and_described(filled):
    assert len(storage.query(filled, "FROM seats", max_rows=7)) == 7
    assert storage.query(filled, "DESCRIBE matches").num_rows == 11
    assert storage.query(filled, "SET VARIABLE x = 1").num_rows == 0


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(NotARun, match="no file FORMAT"):
        storage.connect(tmp_path)
    (tmp_path / "FORMAT").write_text('{"version": 99}')
    with pytest.raises(NotARun, match="format version 99, this package reads version 1"):
        storage.query(tmp_path, "SELECT 1")
