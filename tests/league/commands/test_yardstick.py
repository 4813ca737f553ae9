"""`league yardstick`, as a person and a script see it."""

import json

import pytest

import analysis
from storage import query

pytestmark = pytest.mark.slow


@pytest.fixture
def own(make_run, tmp_path):
    return make_run(tmp_path / "own", env="connect_four", snapshots=3)


@pytest.fixture
def tictac(make_run, tmp_path):
    return make_run(tmp_path / "tictac", snapshots=2)


def test_a_snapshot_and_a_bot_are_a_table_of_all_measures_and_parts(league_here, own):
    done = league_here("yardstick", own, "main-0", "one_ply")
    assert done.returncode == 0, done.stderr
    for word in ("main-0@2", "one_ply", "best", "kept", "greedy", "decisive", "plies 1-7", "1000"):
        assert word in done.stdout
    one_ply = query(own, "FROM yardsticks WHERE competitor = 'one_ply' AND part = 'all' ORDER BY measure")
    assert [(row["mode"], round(row["value"], 3)) for row in one_ply.to_pylist()] == [
        ("sample", 0.578),
        ("sample", 0.77),
    ]


def test_json_has_a_row_for_each_figure_and_a_curve_takes_every_kth(league_here, own):
    done = league_here("yardstick", own, "--every", 2, "--json")
    rows = json.loads(done.stdout)
    assert {row["competitor"] for row in rows} == {"main-0@0", "main-0@2"}
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    with analysis.open_run(own) as history:
        frame = history.yardsticks()
        assert history.exploitability().empty  # the two are never mixed up
    assert len(frame) == len(rows)
    assert frame["player"].unique().tolist() == ["main-0"]
    assert frame["env_steps"].tolist() == [0] * (len(rows) // 2) + [2] * (len(rows) // 2)


def test_games_against_a_snapshot_or_a_bot_come_on_top(league_here, tictac):
    arguments = ("--against", "perfect", "--against", "main-0@0:greedy", "--games", 20, "--json")
    done = league_here("yardstick", tictac, "main-0@1", "random", *arguments)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    found = [(row["competitor"], row["yardstick"], row["samples"]) for row in rows]
    assert found == [
        ("main-0@1", "perfect", 20),
        ("main-0@1", "main-0@0:greedy", 20),
        ("random", "perfect", 20),
        ("random", "main-0@0:greedy", 20),
    ]
    assert max(row["value"] for row in rows if row["yardstick"] == "perfect") < 0.5


def test_positions_of_ones_own_do_for_any_game_of_turns(league_here, tictac, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("# only one move prevents the loss\n0 4 8 2 : . -1 . -1 . -1 0 -1 .\n")
    done = league_here("yardstick", tictac, "perfect", "main-0", "--positions", mine, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    perfect = [row["value"] for row in rows if row["competitor"] == "perfect"]
    assert perfect == [1.0] * len(perfect)
    assert {row["yardstick"] for row in rows} == {"mine.txt"}
