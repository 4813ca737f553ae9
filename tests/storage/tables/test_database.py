import os
import random
import threading
from dataclasses import replace

import duckdb
import numpy as np
import pytest

import storage
import storage.tables.database
from storage.archive import Archive
from storage.errors import StorageError
from storage.ledger.ledger import Ledger
from storage.records import (
    MAIN,
    Freeze,
    Purpose,
    RatingChange,
    Reset,
    UpdateRecord,
)
from storage.tables import columns, migrations
from storage.tables.database import Database, renew
from tests import made_up
from tests.parameters import mostly_long

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
    "meetings",
)
VIEWS = ("payoff", "leaderboard", "match_mix", "match_mix_over_time", "learned_from", "lineage")


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


def indexed(run):
    """What any DuckDB finds in the index of a stopped run."""
    with duckdb.connect(str(run / "league.duckdb"), read_only=True) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for name in (*TABLES, *VIEWS)
        }


def rows(run, sql):
    return storage.query(run, sql).to_pylist()


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_more_than_two_seats_are_compared_by_rank_and_two_forfeits_say_nothing(run):
    batch = made_up.matches(("a", "b", "c"), [[0, 1, 2]] * 2, purpose=Purpose.EVALUATION)
    results = made_up.results(batch, [[0, 2, 2], [0, 3, 3]], rank=[[0, 1, 2], [0, 1, 1]])
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


@pytest.mark.slow
def test_the_leaderboard_shows_the_latest_ratings_best_first(filled):
    found = rows(filled, "SELECT competitor, role, mu, skill, games FROM leaderboard")
    assert found == [
        {"competitor": "main-0", "role": "main", "mu": 26.0, "skill": 20.0, "games": 80},
        {"competitor": "random", "role": None, "mu": 21.0, "skill": 18.0, "games": 40},
    ]


@pytest.mark.slow
def test_shares_of_the_match_mix_add_up_to_one(filled):
    mix = rows(filled, "FROM match_mix")
    assert {row["match_type"] for row in mix} == {"self_play", "pfsp"}
    assert {row["player"] for row in mix} == {"main-0"}
    assert sum(row["matches"] for row in mix) == 80
    assert sum(row["share"] for row in mix) == pytest.approx(1.0)


@pytest.mark.slow
def test_lineage_follows_parents_to_the_root(filled):
    found = {tuple(row.values()) for row in rows(filled, "FROM lineage")}
    assert found == {
        ("main-0@100", "main-0@0", 1),
        ("main-0@200", "main-0@100", 1),
        ("main-0@200", "main-0@0", 2),
    }


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


def tear_the_block_at_12288(index):
    data = bytearray(index.read_bytes())
    data[12_288 : 12_288 + 512] = bytes(512)
    index.write_bytes(data)


def zero_a_page(index):
    data = bytearray(index.read_bytes())
    data[4096:8192] = bytes(4096)
    data[8192:12_288] = bytes(4096)
    index.write_bytes(data)


def put_a_folder(index):
    index.unlink()
    index.mkdir()
    (index / "file").write_text("in it")


def put_a_pipe(index):
    index.unlink()
    os.mkfifo(index)


def link_to_nowhere(index):
    index.unlink()
    index.symlink_to("nowhere")


def link_to_another_file(index):
    index.rename(index.with_name("another.duckdb"))
    index.symlink_to("another.duckdb")


def put_a_folder_as_log(index):
    index.with_name("league.duckdb.wal").mkdir()


def change(*statements):
    def damage(index):
        with duckdb.connect(str(index)) as connection:
            for statement in statements:
                connection.execute(statement)

    damage.__name__ = statements[0]
    return damage


DAMAGES = (
    delete,
    truncate,
    empty,
    garbage,
    scratch,
    tear_the_block_at_12288,
    zero_a_page,
    put_a_folder,
    put_a_pipe,
    link_to_nowhere,
    link_to_another_file,
    put_a_folder_as_log,
    change("DELETE FROM ingest_state"),
    change("UPDATE ingest_state SET sequence = 999"),
    change("UPDATE ingest_state SET batch_id = 'sixteen bytes id'::BLOB", "DELETE FROM matches"),
    change("UPDATE migrations SET name = 'another' WHERE rowid = 1"),
    change("INSERT INTO migrations VALUES ('of a later version')"),
    change("DROP TABLE ratings CASCADE"),
    change("ALTER TABLE ratings ADD COLUMN another INTEGER"),
    change("DROP TABLE migrations"),
    change("DROP TABLE ingest_state"),
)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_or_damaged_index_is_rebuilt_equal(filled, damage):
    before = contents(filled)
    index = filled / "league.duckdb"
    damage(index)
    assert contents(filled) == before, "a reader goes round a damaged index"
    Archive.open(filled).close()
    assert index.is_file()
    assert indexed(filled) == before
    aside = {name.removesuffix(".wal") for name in os.listdir(filled) if "damaged" in name}
    assert aside == (set() if damage is delete else {"league.duckdb.damaged-1"})


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 1, 5000])
def test_a_damaged_write_ahead_log_costs_nothing(filled, size):
    before = indexed(filled)
    (filled / "league.duckdb.wal").write_bytes(os.urandom(size))
    Archive.open(filled).close()
    assert indexed(filled) == before


@pytest.mark.slow
def test_a_write_ahead_log_without_its_index_is_not_replayed_into_the_new_one(filled):
    before = contents(filled)
    (filled / "league.duckdb").unlink()
    (filled / "league.duckdb.wal").write_bytes(b"left behind")
    Archive.open(filled).close()
    assert contents(filled) == before


@pytest.mark.slow
def test_whatever_bytes_change_the_index_ends_up_equal(filled):
    before, good = indexed(filled), (filled / "league.duckdb").read_bytes()
    rng = random.Random(5)
    for _ in range(12):
        data = bytearray(good)
        at, size = rng.randrange(len(data)), rng.choice([1, 512, 4096, 65_536])
        kind = rng.choice(["flip", "zero", "noise", "cut", "insert", "repeat"])
        if kind == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del data[at : at + size]
        elif kind == "insert":
            data[at:at] = rng.randbytes(size)
        else:
            new = {"zero": bytes(size), "noise": rng.randbytes(size), "repeat": good[:size]}[kind]
            data[at : at + size] = new[: len(data) - at]
        (filled / "league.duckdb").write_bytes(data)
        Archive.open(filled).close()
        assert indexed(filled) == before, f"{kind} of {size} at {at}"
    assert len(list(filled.glob("*.damaged-*"))) == 3


@pytest.mark.slow
def test_only_the_newest_damaged_copies_are_kept(filled):
    index = filled / "league.duckdb"
    for damage in (garbage, put_a_folder, garbage, empty, garbage):
        damage(index)
        Archive.open(filled).close()
    assert sorted(path.name for path in filled.glob("*.damaged-*")) == [
        f"league.duckdb.damaged-{number}" for number in (3, 4, 5)
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "error", [duckdb.FatalException, OSError, UnicodeDecodeError, MemoryError, RuntimeError]
)
def test_an_open_never_fails_for_the_index_whatever_reading_it_raises(filled, monkeypatch, error):
    before = indexed(filled)

    def fail(connection):
        raise error("utf-8", b"", 0, 1, "damaged") if error is UnicodeDecodeError else error("damaged")

    monkeypatch.setattr(storage.tables.database, "_check", fail)
    Archive.open(filled).close()
    assert indexed(filled) == before


def written(folder, batches, segment_frames=4):
    """A ledger of these frames, segments of four, opened to write."""
    ledger = Ledger(folder, "test", segment_frames=segment_frames)
    for tables in batches:
        ledger.append(tables)
    return ledger


@pytest.fixture
def batches(make_results):
    """The tables of 30 frames: results with ratings, and now and then a decision or an update."""
    found = []
    for i in range(30):
        seq = 1 + 20 * i
        results = make_results(20, 20 * i, seed=i)
        learning = np.random.default_rng(i).random((20, 2)) < 0.5  # nobody, one or both
        results = replace(results, matches=replace(results.matches, learning=learning))
        tables = columns.result_tables(results, [RatingChange("main-0", 25.0 + i, 8.0, 20 * i)], seq, i + 1)
        if i % 5 == 0:
            tables["decisions"] = columns.decision_table([Freeze(player="main-0", reason=f"{i}")], seq, 1.5)
        if i % 7 == 0:
            tables["updates"] = columns.update_table([UpdateRecord("main-0", i, i, 0.5, {"kl": i})], seq, 2.5)
        found.append(tables)
    return found


def as_of_old(batch):
    """The tables as they were written before teams were stored."""
    return batch | {"seats": batch["seats"].drop_columns(["team"])}


def dump(path, ledger, progress=None):
    """All rows of an index made of `ledger` at `path`."""
    database = Database.open(path, ledger, progress)
    found = {
        name: database.connection.execute(f"FROM {name}").fetchall() for name in migrations.newest().tables
    }
    assert database.connection.execute("SELECT sequence, batch_id FROM ingest_state").fetchall() == [
        (ledger.last_sequence, ledger.batch_id(ledger.last_sequence))
    ]
    database.close()
    return found


# The view `match_mix` as it was before matches knew their player: the reference.
MIX = """
WITH learners AS (SELECT seq, min(competitor) AS player FROM seats WHERE learning GROUP BY seq)
SELECT
    learners.player, purpose, match_type, count(*) AS matches,
    count(*) / sum(count(*)) OVER (PARTITION BY learners.player, purpose) AS share
FROM matches LEFT JOIN learners USING (seq)
GROUP BY learners.player, purpose, match_type
ORDER BY learners.player, purpose, count(*) DESC, match_type
"""


@pytest.mark.slow
@pytest.mark.parametrize("num_old", mostly_long([10, 0, 3, 30]))
def test_compacted_segments_and_frames_make_the_same_index(tmp_path, batches, num_old):
    (tmp_path / "ledger").mkdir()
    mixed = [as_of_old(batch) for batch in batches[:num_old]] + batches[num_old:]
    with written(tmp_path / "ledger", mixed) as ledger:
        from_frames = dump(tmp_path / "a.duckdb", ledger)
        assert ledger.compact() == 7
        assert dump(tmp_path / "b.duckdb", ledger) == from_frames
    assert len(from_frames["meetings"]) > 60
    teams = [row[-1] for row in from_frames["seats"]]
    assert teams == [None] * (40 * num_old) + [0, 1] * (20 * (30 - num_old))
    with duckdb.connect(str(tmp_path / "b.duckdb")) as connection:
        assert connection.execute("FROM match_mix").fetchall() == connection.execute(MIX).fetchall()
        assert len(connection.execute("FROM match_mix").fetchall()) == 8  # 2 types, 3 names and nobody


@pytest.mark.long
@pytest.mark.parametrize("known", [2, 4, 5, 12, 29])
def test_an_older_copy_is_completed_from_segments_and_frames(tmp_path, batches, known):
    (tmp_path / "ledger").mkdir()
    with written(tmp_path / "ledger", batches[:known]) as ledger:
        dump(tmp_path / "old.duckdb", ledger)
    with written(tmp_path / "ledger", batches[known:]) as ledger:
        ledger.compact()
        assert dump(tmp_path / "old.duckdb", ledger) == dump(tmp_path / "new.duckdb", ledger)
    assert not list(tmp_path.glob("*.damaged-*"))


@pytest.mark.slow
def test_rebuilding_tells_how_far_it_is(tmp_path, batches, monkeypatch):
    (tmp_path / "ledger").mkdir()
    monkeypatch.setattr(storage.tables.database, "MAX_ROWS", 1)
    told = []
    with written(tmp_path / "ledger", batches) as ledger:
        ledger.compact()
        dump(tmp_path / "a.duckdb", ledger, lambda *step: told.append(step))
        assert told == [("index", done, 30) for done in (4, 8, 12, 16, 20, 24, 28, 29, 30)]
        told.clear()
        dump(tmp_path / "a.duckdb", ledger, lambda *step: told.append(step))
        assert told == []


def test_facts_reach_the_index_within_its_waiting_time(run, make_results, monkeypatch):
    with Archive.open(run) as archive:
        count = "SELECT count(*) FROM matches"
        archive.append_results(make_results(10), [])
        archive.flush()
        assert archive._database.connection.execute(count).fetchall() == [(10,)]
        archive.append_results(make_results(10, 10), [])
        assert archive._database.connection.execute(count).fetchall() == [(10,)]
        monkeypatch.setattr(storage.tables.database, "FLUSH_SECONDS", 0.0)
        archive.append_results(make_results(10, 20), [])
        assert archive._database.connection.execute(count).fetchall() == [(30,)]


@pytest.mark.slow
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


def test_facts_are_recorded_while_older_ones_are_folded_in(run, make_results, monkeypatch):
    """The fold waits for an event that is set only after the next facts are recorded."""
    recorded = threading.Event()
    fold = storage.tables.database._fold

    def slow(connection, frames):
        assert recorded.wait(10)
        fold(connection, frames)

    with Archive.open(run) as archive:
        archive.flush()
        monkeypatch.setattr(storage.tables.database, "_fold", slow)
        monkeypatch.setattr(storage.tables.database, "FLUSH_SECONDS", 0.0)
        archive.append_results(make_results(10), [])
        monkeypatch.setattr(storage.tables.database, "FLUSH_SECONDS", 60.0)
        archive.append_results(make_results(10, 10), [])
        assert archive.last_match_id() == 19
        recorded.set()
        count = "SELECT count(*) FROM matches"
        assert archive._database.connection.execute(count).fetchall() == [(10,)]
        archive.flush()
        assert archive._database.connection.execute(count).fetchall() == [(20,)]


def test_what_comes_faster_than_it_is_folded_in_is_fetched_from_the_ledger(run, make_results, monkeypatch):
    """The first fold waits until so many rows are recorded that their frames are let go."""
    recorded = threading.Event()
    fold = storage.tables.database._fold

    def slow(connection, frames):
        assert recorded.wait(10)
        fold(connection, frames)

    with Archive.open(run) as archive:
        archive.flush()
        monkeypatch.setattr(storage.tables.database, "_fold", slow)
        monkeypatch.setattr(storage.tables.database, "FLUSH_SECONDS", 0.0)
        monkeypatch.setattr(storage.tables.database, "MOST_WAITING", 100)
        for n in range(10):  # 38 rows of each 10 matches, so that the frames of 90 are more than may wait
            archive.append_results(make_results(10, 10 * n), [])
        assert len(archive._database._waiting) < 9
        recorded.set()
        archive.flush()
        numbers = archive._database.connection.execute("SELECT match_id FROM matches").fetchall()
        assert [number for (number,) in numbers] == list(range(100))


@pytest.mark.slow
def test_a_fold_that_fails_beside_recording_costs_no_fact(run, make_results, monkeypatch):
    with Archive.open(run) as archive:
        archive._database.connection.execute("DROP TABLE matches CASCADE")
        monkeypatch.setattr(storage.tables.database, "FLUSH_SECONDS", 0.0)
        archive.append_results(make_results(10), [])
        archive.append_results(make_results(10, 10), [])
        with pytest.raises(StorageError, match="the index is closed, or failed; open the run again"):
            archive._database.connection  # noqa: B018 - asking is what raises
    assert rows(run, "SELECT count(*) AS n FROM matches") == [{"n": 20}]


def test_an_index_that_another_process_may_have_open_gets_new_files_with_the_same_bytes(tmp_path):
    path, log = tmp_path / "league.duckdb", tmp_path / "league.duckdb.wal"
    path.write_bytes(b"index")
    log.write_bytes(b"log")
    with open(path, "r+b") as old, open(log, "r+b") as old_log:
        renew(path)
        assert (path.read_bytes(), log.read_bytes()) == (b"index", b"log")
        for late in (old, old_log):
            late.write(b"late")
            late.flush()
    assert (path.read_bytes(), log.read_bytes()) == (b"index", b"log")
    renew(tmp_path / "none")
