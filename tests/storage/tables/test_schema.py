import duckdb
import numpy as np
import pytest

import storage
from storage.archive import Archive
from storage.records import Purpose
from storage.tables import schema
from tests import made_up

TABLES = (
    *("runs", "players", "snapshots", "competitors", "matches", "seats", "ratings", "decisions"),
    *("updates", "meetings"),
)
VIEWS = ("payoff", "leaderboard", "match_mix", "match_mix_over_time", "learned_from", "lineage")


def rows(run, sql):
    return storage.query(run, sql).to_pylist()


@pytest.mark.slow
def test_every_table_and_view_has_rows_and_the_promised_columns(filled):
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
    for name in (*TABLES, *VIEWS):
        assert len(rows(filled, f"SELECT {promised.get(name, '*')} FROM {name}")) > 0, name


@pytest.mark.slow
def test_tables_hold_what_was_recorded(filled, make_results):
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
def test_more_than_two_seats_are_compared_by_rank_and_two_forfeits_say_nothing(run):
    batch = made_up.matches(("a", "b", "c"), [[0, 1, 2]] * 3, purpose=Purpose.EVALUATION)
    outcome, rank = [[0, 2, 2], [0, 3, 3], [1, 1, 1]], [[0, 1, 2], [0, 1, 1], [0, 0, 0]]
    results = made_up.results(batch, outcome, rank=rank)
    with Archive.open(run) as archive:
        archive.append_results(results, [])
    columns = ("games", "wins", "draws", "losses", "win_rate")
    found = {(row["home"], row["away"]): [row[name] for name in columns] for row in rows(run, "FROM payoff")}
    assert found == {
        ("a", "b"): [3, 2, 1, 0, 2.5 / 3],
        ("a", "c"): [3, 2, 1, 0, 2.5 / 3],
        ("b", "a"): [3, 0, 1, 2, 0.5 / 3],
        ("c", "a"): [3, 0, 1, 2, 0.5 / 3],
        ("b", "c"): [2, 1, 1, 0, 0.75],
        ("c", "b"): [2, 0, 1, 1, 0.25],
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


def test_what_is_read_from_the_schema_is_what_duckdb_reads_there():
    with duckdb.connect(":memory:", config=schema.CONFIG) as connection:
        schema.create(connection)
        found = connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal "
            "ORDER BY table_name, column_index"
        ).fetchall()
    expected = [
        (table, *column) for table in sorted(schema.TABLES) for column in schema.TABLES[table].items()
    ]
    assert [row for row in found if row[0] not in schema.VIEWS] == expected
    assert {table for table, *_ in found} == {*schema.TABLES, *schema.VIEWS}


@pytest.mark.parametrize("runs", [1, 2])
def test_users_see_the_tables_and_views_alone_and_each_column_has_a_comment(run, tmp_path, runs):
    Archive.create(tmp_path / "other", "", {"name": "other", "env": "connect_four", "seed": 0}).close()
    with storage.connect(*[run, tmp_path / "other"][:runs]) as live:
        shown = {name for (name,) in live.execute("SHOW TABLES").fetchall()}
        assert shown == {*schema.TABLES, *schema.VIEWS}
        assert len(shown) == 33
        nothing = "NOT internal AND schema_name <> 'ledger' AND comment IS NULL"
        assert live.execute(f"SELECT * FROM duckdb_views() WHERE {nothing}").fetchall() == []
        assert live.execute(f"SELECT * FROM duckdb_columns() WHERE {nothing}").fetchall() == []
        lead = "SELECT comment FROM duckdb_columns() WHERE table_name = 'meetings' AND column_name = 'lead'"
        assert "half of what home's score is above away's" in str(live.execute(lead).fetchall())


def test_a_question_about_comments_is_answered_with_files_and_settings_locked(run):
    comments = storage.query(run, "SELECT comment FROM duckdb_columns() WHERE table_name = 'seats'")
    assert "0 is best; tied seats share the lower number" in comments["comment"].to_pylist()
