"""`league yardstick`, as a person and a script see it."""

import json

import pytest

import analysis
from storage import query
from storage.snapshots.figures import files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def c4(make_run, tmp_path_factory):
    """A run of Connect Four with five snapshots that nobody has measured. Copies of it are measured."""
    return make_run(tmp_path_factory.mktemp("field") / "c4", env="connect_four", snapshots=5)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "found no ID"),
        (("mian-0",), "nearest: main-0"),
        (("main-0:greedy",), "found a mode"),
        (("main-0", "--player", "main-0"), "found --player beside 'main-0'"),
        (("--player", "mian-0"), "'mian-0' has no snapshots; nearest players: main-0"),
        (("main-0", "--positions", "nowhere.txt"), "cannot be read"),
        (("main-0", "--against", "one_pli"), "'one_pli' is no snapshot"),
    ],
)
def test_a_mistake_is_one_message_and_nothing_is_stored(league_here, c4, arguments, message):
    done = league_here("yardstick", c4, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert files(c4) == []


def test_a_game_without_stored_positions_is_one_message(league_here, tictac):
    done = league_here("yardstick", tictac, "main-0")
    assert done.returncode == 2
    assert "none are stored for 'tic_tac_toe'" in done.stderr


def test_what_is_no_run_is_a_mistake(league_here, tmp_path):
    done = league_here("yardstick", tmp_path / "nothing", "main-0")
    assert done.returncode == 2
    assert "expected a run folder" in done.stderr
