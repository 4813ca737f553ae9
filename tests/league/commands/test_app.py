"""The command, run as a user runs it: a process with arguments, output and an exit code."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import duckdb
import psutil
import pyarrow.parquet
import pytest

from league.commands import app as cli
from storage.archive import open_reader
from storage.upkeep.exports import read_export
from tests.steps import flip_bit

pytestmark = pytest.mark.slow

# make test-long: what is said wherever players learn is said by runners, too
RUNNERS = [0, *([pytest.param(1, marks=pytest.mark.alone)] if os.environ.get("LEAGUE_LONG") else [])]
GAME = """
from league.envs.games.tic_tac_toe import TicTacToe

class Mine(TicTacToe):
    id = "mine"
"""
SLOW = "SELECT count(*) FROM range(1_000_000) a, range(1_000_000) b WHERE a.range + b.range = 3"


def listing(folder):
    """Every file below and its bytes, but for the lock, which an attempt to resume takes and releases."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "LOCK"
    }


def refused(done, *words):  # the words that matter, not the whole wording
    """It was the user's mistake, said in one line, with nothing on standard output."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("league: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def rows(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def copied(trained, tmp_path):
    """The finished run, to be spoiled."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


# ---------------------------------------------------------------- train


def test_training_says_what_it_did_and_what_to_do_next(league_command, tiny_config, tmp_path):
    done = league_command("train", tiny_config, "--set", "stop.env_steps=1500", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "env steps" in done.stdout
    best, last = done.stdout.splitlines()[-2:]
    assert best.startswith("Best: main-0")
    assert last.endswith("or live: league serve runs/tiny")
    assert (tmp_path / "runs" / "tiny" / "config.yaml").is_file()


def test_a_run_that_exists_is_not_touched_without_resume(league_here, tiny_config, trained):
    before = listing(trained)
    refused(league_here("train", tiny_config, "--run", trained), "--resume to go on with it", str(trained))
    assert listing(trained) == before


@pytest.mark.long
def test_resuming_with_another_seed_is_refused_and_changes_nothing(league_here, tiny_config, copied):
    before = listing(copied)
    done = league_here("train", tiny_config, "--run", copied, "--resume", "--set", "seed=4")
    refused(done, "a run keeps its seed")
    assert listing(copied) == before


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([], "of 8,000 env steps; raise stop.env_steps"),
        (["stop.env_steps=null", "stop.minutes=0.001"], "of 0.06 s; raise stop.minutes"),
    ],
)
def test_a_finished_run_that_is_resumed_is_refused_and_unchanged(
    league_command, tiny_config, copied, overrides, words
):
    before = listing(copied)
    more = [each for override in overrides for each in ("--set", override)]
    done = league_command("train", tiny_config, "--run", copied, "--resume", *more)
    refused(done, "already trained for", words)
    assert listing(copied) == before


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stop.env_steps=500", "learner.batch_steps=10000"], "env steps were played, fewer than a batch"),
        (["stop.env_steps=null", "stop.minutes=0.000001"], "no match ended before the `stop`"),
    ],
)
def test_a_run_that_learned_nothing_is_not_trained(league_command, tiny_config, tmp_path, overrides, words):
    more = [each for override in overrides for each in ("--set", override)]
    done = league_command("train", tiny_config, "--run", tmp_path / "run", *more)
    assert done.returncode == 2, done.stderr
    assert "Learned nothing" in done.stdout
    assert words in done.stdout
    assert "Trained" not in done.stdout
    (run,) = json.loads(league_command("runs", tmp_path, "--json").stdout)
    assert "learned nothing" in run["state"].lower()


# ---------------------------------------------------------------- Ctrl-C and locks


@pytest.fixture
def training(league_command, tiny_config, tmp_path):
    """Starts a training process of its own process group; returns it once it has frozen snapshots."""
    started = []

    def start(run, *arguments, seconds=180):
        endless = ["--set", "stop={minutes: 5}", "--set", "storage.save_seconds=300"]
        process = subprocess.Popen(
            [*league_command.command, "train", str(tiny_config), "--run", str(run), *endless, *arguments],
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        give_up = time.monotonic() + seconds
        while not list((run / "manifests").glob("main-0@*[1-9]*.json")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < give_up, "no snapshot was frozen"
            time.sleep(0.05)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def to_the_group(process, number):
    """As a terminal and `timeout` do: to all processes in the foreground; `timeout` sends it twice."""
    os.killpg(process.pid, number)
    if number != signal.SIGINT:
        time.sleep(0.01)
        os.killpg(process.pid, number)


def to_each(process, number):
    """As systemd and SLURM do: to all processes that were started, in whichever groups they are."""
    for each in [*psutil.Process(process.pid).children(recursive=True), process]:
        each.send_signal(number)


def _counters(run):
    return {path.stem: json.loads(path.read_text())["meta"] for path in (run / "learners").glob("*.json")}


@pytest.mark.parametrize(
    ("runners", "number", "send"),
    [
        pytest.param(0, signal.SIGINT, to_the_group, id="ctrl-c"),
        pytest.param(
            *(1, signal.SIGINT, to_the_group),
            marks=[pytest.mark.long, pytest.mark.alone, pytest.mark.variant],
        ),
        pytest.param(0, signal.SIGTERM, to_the_group, id="sigterm"),
        # Ray's processes died of it, too, and what was learned was lost
        pytest.param(2, signal.SIGTERM, to_each, marks=pytest.mark.alone),
    ],
)
def test_a_signal_stops_cleanly_and_resume_goes_on(
    league_command, tiny_config, training, tmp_path, runners, number, send
):
    run, arguments = tmp_path / "run", ["--set", f"runners={runners}"]
    process = training(run, *arguments)
    started = psutil.Process(process.pid).children(recursive=True)
    send(process, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err  # it was asked to train for five minutes
    give_up = time.monotonic() + 60
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in started):
        assert time.monotonic() < give_up, "processes outlive the one that started them"
        time.sleep(0.1)
    assert err.strip().startswith("league: stopping; what was learned is saved")
    assert err.count("league: ") == 1
    assert " of 5 min: " in out
    assert f"Next: league train {run} --resume" in out
    stopped = _counters(run)
    newest = {snapshot.player: snapshot.env_steps for snapshot in open_reader(run).snapshots()}
    assert stopped["main-0"]["env_steps"] == newest["main-0"] > 0  # frozen and saved as it was at the end
    steps = sum(player["env_steps"] for player in stopped.values())
    go_on = ["--set", f"stop={{env_steps: {3 * steps}, minutes: 1}}", *arguments]
    done = league_command("train", tiny_config, "--run", run, "--resume", *go_on)
    assert done.returncode == 0, done.stderr
    for player, counters in _counters(run).items():
        assert counters["env_steps"] >= stopped[player]["env_steps"]
        assert counters["updates"] >= stopped[player]["updates"]
        assert counters["seconds"] >= stopped[player]["seconds"]
    assert league_command("snapshots", run, "verify").returncode == 0


@pytest.mark.long
def test_a_run_that_trains_can_be_read_but_not_trained_by_another(
    league_command, tiny_config, training, tmp_path
):
    run = tmp_path / "run"
    process = training(run)
    refused(
        league_command("train", tiny_config, "--run", run, "--resume"),
        "another process is writing",
        str(process.pid),
    )
    (count,) = rows(league_command("sql", run, "SELECT count(*) AS n FROM matches", "--format", "json"))
    assert count["n"] > 0
    assert league_command("ratings", run).returncode == 0
    assert process.poll() is None


# ---------------------------------------------------------------- ratings, compare


def test_ratings_are_ordered_by_strength_and_name_everyone(league_command, trained):
    board = rows(league_command("ratings", trained, "--json"))
    assert set(board[0]) >= {"competitor", "role", "elo", "p_best", "mu", "sigma", "games", "win_rate"}
    known = [row["elo"] for row in board if not row["apart"] and row["elo"] is not None]
    assert known == sorted(known, reverse=True)
    assert [row["apart"] for row in board] == sorted(row["apart"] for row in board)
    assert {row["competitor"] for row in board if row["apart"]} >= {"main-0@0", "main-1@0"}
    best = rows(league_command("compare", trained, "best", "main-0@0", "--pairs", 2, "--json"))
    named = max((row for row in board if row["p_best"] is not None), key=lambda row: row["elo"])
    assert best["a"] == named["competitor"]
    ids = {snapshot.snapshot_id for snapshot in open_reader(trained).snapshots()}
    assert ids <= {row["competitor"] for row in board}
    table = league_command("ratings", trained).stdout
    assert all(row["competitor"] in table for row in board)


def test_comparison_has_the_keys_of_the_contract_and_adds_up(league_command, trained):
    answer = rows(league_command("compare", trained, "random", "random", "--pairs", 400, "--json"))
    keys = ["a", "b", "pairs", "games", "wins", "draws", "losses", "score"]
    keys += ["elo", "elo_low", "elo_high", "los"]
    assert list(answer)[: len(keys)] == keys
    assert answer["games"] == 2 * answer["pairs"] == 800
    assert answer["wins"] + answer["draws"] + answer["losses"] == answer["games"]
    assert answer["score"] == pytest.approx((answer["wins"] + answer["draws"] / 2) / 800)
    assert answer["score"] == pytest.approx(0.5, abs=0.06)  # moving first wins 58 %: seats were swapped
    assert answer["elo_low"] < answer["elo"] < answer["elo_high"]
    assert sum(answer["pentanomial"]) == 400


def test_a_comparison_without_a_draw_or_loss_is_valid_json(league_command, trained):
    done = league_command("compare", trained, "perfect", "random", "--pairs", 1, "--seed", 5, "--json")
    for word in ("Infinity", "NaN"):
        assert word not in done.stdout
    assert rows(done)["pairs"] == 1


def test_a_comparison_for_people_says_the_same_as_the_one_for_machines(league_command, trained):
    names = ["main-0", "main-0@0", "--pairs", 50]
    answer = rows(league_command("compare", trained, *names, "--json"))
    text = league_command("compare", trained, *names).stdout
    assert "{a} against {b}: {pairs} pairs, {games} games".format(**answer) in text
    assert "W-D-L {wins}-{draws}-{losses}, score {score:.4f}".format(**answer) in text


def test_comparing_a_damaged_snapshot_fails(league_command, copied):
    newest = [s for s in open_reader(copied).snapshots() if s.player == "main-0"][-1]
    flip_bit(open_reader(copied).blob_path(newest))
    done = league_command("compare", copied, "main-0", "random", "--pairs", 2)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert newest.blob_hash in done.stderr


# ---------------------------------------------------------------- sql


def test_a_trained_run_has_its_tables_in_a_file_and_sql_saves_them_at_any_time(
    league_command, trained, tmp_path
):
    question = "SELECT count(*) FROM matches"
    (asked,) = rows(league_command("sql", trained, question, "--format", "json"))
    saved = league_command("sql", trained, "--save", tmp_path / "all.duckdb")
    assert (saved.returncode, saved.stdout) == (0, "")
    assert f"{tmp_path}/all.duckdb: all tables of {trained}" in saved.stderr
    for file in (trained / "league.duckdb", tmp_path / "all.duckdb"):
        with duckdb.connect(str(file), read_only=True) as copy:
            assert copy.execute(question).fetchone() == tuple(asked.values())
            assert copy.execute("SELECT state FROM ends").fetchall()[-1:] == [("trained",)]
    both = league_command("sql", trained, question, "--save", tmp_path / "all.duckdb", "--format", "csv")
    assert both.stdout.split()[1:] == [str(*asked.values())]
    (tmp_path / "text").write_text("mine")
    refused(league_command("sql", trained, "--save", tmp_path / "text"), "no DuckDB database", "a new name")
    refused(league_command("sql", trained), "found no statement")


def test_sql_answers_in_all_formats_alike(league_command, trained, tmp_path):
    question = "SELECT player, count(*) AS n, max(env_steps) AS steps FROM snapshots GROUP BY 1 ORDER BY 1"
    asked = rows(league_command("sql", trained, question, "--format", "json"))
    assert [row["player"] for row in asked] == ["main-0", "main-1", "main_exploiter-0"]
    assert asked[0]["n"] > 2
    table = league_command("sql", trained, question).stdout
    assert all(str(value) in table for row in asked for value in row.values())
    read = list(
        csv.DictReader(io.StringIO(league_command("sql", trained, question, "--format", "csv").stdout))
    )
    assert [{k: str(v) for k, v in row.items()} for row in asked] == read
    parquet = league_command("sql", trained, question, "--format", "parquet", text=False)
    assert parquet.returncode == 0
    assert pyarrow.parquet.read_table(io.BytesIO(parquet.stdout)).to_pylist() == asked


def test_every_table_of_the_contract_can_be_asked_and_is_not_empty(league_command, trained):
    names = "runs players snapshots competitors matches seats ratings decisions updates payoff leaderboard"
    tables = [*names.split(), "match_mix", "lineage"]
    counts = ", ".join(f"(SELECT count(*) FROM {table}) AS {table}" for table in tables)
    (answer,) = rows(league_command("sql", trained, f"SELECT {counts}", "--format", "json"))
    assert list(answer) == tables
    assert all(answer.values()), answer


def test_times_and_nothing_are_printed_in_json(league_command, trained):
    query = "SELECT created_at, NULL AS nothing FROM snapshots LIMIT 1"
    (row,) = rows(league_command("sql", trained, query, "--format", "json"))
    assert row["nothing"] is None
    assert str(row["created_at"]).startswith("2")


# ---------------------------------------------------------------- snapshots


def test_snapshots_are_listed_for_people_and_machines(league_command, trained):
    listed = rows(league_command("snapshots", trained, "list", "--json"))
    stored = open_reader(trained).snapshots()
    assert [row["snapshot_id"] for row in listed] == [snapshot.snapshot_id for snapshot in stored]
    assert [row["blob_hash"] for row in listed] == [snapshot.blob_hash for snapshot in stored]
    table = league_command("snapshots", trained).stdout
    assert all(row["snapshot_id"] in table and row["blob_hash"][:12] in table for row in listed)
    assert max(map(len, table.splitlines())) <= 160


def test_a_snapshot_is_shown_by_any_unique_prefix_and_the_newest_by_its_player(league_command, trained):
    snapshot = open_reader(trained).snapshots()[-1]
    whole = league_command("snapshots", trained, "show", snapshot.snapshot_id)
    manifest = json.loads(whole.stdout)
    assert manifest["snapshot_id"] == snapshot.snapshot_id
    assert manifest["spec"]["settings"]["hidden"] == [16]
    assert league_command("snapshots", trained, "show", snapshot.snapshot_id[:-1]).stdout == whole.stdout
    newest = [s for s in open_reader(trained).snapshots() if s.player == "main-0"][-1]
    for words in ((trained, "show"), ("show", trained)):  # the action may come before the run
        shown = json.loads(league_command("snapshots", *words, "main-0").stdout)
        assert shown["snapshot_id"] == newest.snapshot_id


def test_verifying_names_every_snapshot_that_is_damaged_or_missing(league_command, copied):
    done = league_command("snapshots", copied, "verify")
    stored = open_reader(copied).snapshots()
    assert (done.returncode, done.stdout) == (0, f"{len(stored)} snapshots verified\n")
    flip_bit(open_reader(copied).blob_path(stored[1]))
    open_reader(copied).blob_path(stored[2]).unlink()
    done = league_command("snapshots", copied, "verify")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"2 of {len(stored)} snapshots are damaged" in done.stderr
    told = done.stdout.splitlines()
    assert [line.partition(": ")[0] for line in told] == [stored[1].snapshot_id, stored[2].snapshot_id]
    assert stored[1].blob_hash in told[0]


# ---------------------------------------------------------------- config, envs


def test_the_schema_is_json_and_names_the_parts(league_command):
    schema = json.loads(league_command("config", "schema").stdout)
    assert {"env", "league", "learner", "stop"} <= set(schema["properties"])


def test_a_config_is_shown_with_every_default_and_can_be_loaded_again(league_command, tiny_config, tmp_path):
    shown = league_command("config", "show", tiny_config, "--set", "seed=9")
    assert shown.returncode == 0
    assert "seed: 9" in shown.stdout
    assert "save_seconds: " in shown.stdout
    (tmp_path / "tiny.yaml").write_text(shown.stdout)
    assert league_command("config", "show", tmp_path / "tiny.yaml").stdout == shown.stdout
    refused(league_command("config", "show", tiny_config, "--set", "sed=9"), "did you mean 'seed'?")


def test_envs_are_listed_with_their_spaces_and_bots(league_command, league_here):
    envs = {row["env"]: row for row in rows(league_command("envs", "list", "--json"))}
    assert {"connect_four", "kuhn_poker", "rock_paper_scissors", "tic_tac_toe"} <= set(envs)
    assert envs["tic_tac_toe"]["seats"] == 2
    assert "perfect" in envs["tic_tac_toe"]["bots"]
    assert (envs["connect_four"]["observation"], envs["connect_four"]["actions"]) == (
        "[2, 7, 6] int8",
        "one of 7",
    )
    assert envs["tic_tac_toe"]["observation"] == "[2, 3, 3] int8"
    (own,) = rows(league_command("envs", "list", "gymnasium:Pendulum-v1", "--json"))
    assert (own["observation"], own["actions"]) == ("[3] float32", "1 real number")
    refused(league_here("envs", "list", "conect_four"), "did you mean connect_four?")
    assert "connect_four" in league_command("envs", "list").stdout


def test_a_native_game_passes_its_checks(league_command):
    checks = rows(league_command("envs", "check", "rock_paper_scissors", "--json"))
    assert len(checks) > 5
    assert {check["result"] for check in checks} == {"passed"}


def test_a_game_that_breaks_its_promises_fails_its_check(league_command, tmp_path):
    (tmp_path / "broken.py").write_text(
        GAME + "    def legal(self, slot, seat):\n        return super().legal(slot, seat) & False\n"
    )
    done = league_command("envs", "check", "broken:Mine", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "FAILED" in {check["result"] for check in json.loads(done.stdout)}
    assert "trial: seat 0: it must act, and its mask has no legal action" in done.stderr  # the first cause
    assert "broken.py, line 6, in legal)" in done.stderr


def test_a_broken_game_is_refused_before_it_trains_and_nothing_is_written(
    league_command, tiny_config, tmp_path
):
    (tmp_path / "broken.py").write_text(
        GAME + "    def _play(self, slot, seat, action):\n        self.board[slot] = seat\n"
    )
    began = time.monotonic()
    done = league_command("train", tiny_config, "--set", "env.id=broken:Mine", cwd=tmp_path)
    assert time.monotonic() - began < 10
    refused(
        done, "'broken:Mine': seat 0: AttributeError", "broken.py, line 7, in _play)", "Nothing was trained"
    )
    assert not (tmp_path / "runs").exists()


def without_torch(*arguments):
    code = "import sys; sys.modules['torch'] = None; from league.commands.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def test_help_names_every_command_and_loads_no_torch():
    done = without_torch("--help")
    assert done.returncode == 0, done.stderr
    for command in ("train", "ratings", "compare", "sql", "rules", "snapshots", "config", "envs"):
        assert command in done.stdout


@pytest.mark.slow
def test_a_mistake_in_a_config_is_answered_before_torch_is_imported(tiny_config):
    """So it takes under a second, where the imports of training take three."""
    done = without_torch("train", str(tiny_config), "--set", "learner.entropie=1")
    assert done.returncode == 2, done.stderr
    assert "unknown key 'learner.entropie'" in done.stderr


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("runners", RUNNERS)
def test_a_loss_that_is_no_number_is_one_line(league_command, tiny_config, tmp_path, runners):
    """The same sentence, wherever the learner lives; with runners 8,000 steps may be too few."""
    wild = ["learner.lr=1e30", "learner.loss=impala", "learner.gradient_norm=1e30", f"runners={runners}"]
    wild += ["stop.env_steps=1000000"]
    arguments = [part for override in wild for part in ("--set", override)]
    done = league_command("train", tiny_config, "--run", tmp_path / "run", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("league: no player is left that learns. player main")
    assert "lower learner.lr" in done.stderr
    assert done.stderr.count("\n") == 1


# ---------------------------------------------------------------- networks of one's own


@pytest.mark.parametrize("runners", RUNNERS)
def test_a_network_of_ones_own_trains_and_is_built_from_a_snapshot_only_on_trust(
    league_command, tmp_path, runners
):
    (tmp_path / "ownnet.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, observation, num_parameters, width):\n"
        "        super().__init__()\n"
        "        self.torso = nn.Linear(observation.size, width)\n"
        "        self.heads = nn.Linear(width, num_parameters + 1)\n"
        "    def forward(self, observation):\n"
        "        out = self.heads(self.torso(observation.flatten(1).float()).relu())\n"
        "        return out[:, :-1], out[:, -1]\n"
    )
    (tmp_path / "own.yaml").write_text(
        "env: {id: tic_tac_toe}\n"
        "policy: {torso: {use: 'ownnet:Net', width: 16}}\n"
        "league: {freeze_every: 600, players: {main: 1}}\n"
        "rollout: {slots: 64, matches_per_request: 64}\n"
        "learner: {batch_steps: 256}\n"
        "stop: {env_steps: 4_000}\n"
    )
    done = league_command("train", "own.yaml", "--set", f"runners={runners}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pair = ("compare", "runs/own", "main-0", "random", "--pairs", "5")
    field = ("tournament", "runs/own", "--pairs", "1", "--runners", runners, "--out", "runs/field")
    for words in (pair, field):
        strange = league_command(*words, cwd=tmp_path)
        assert strange.returncode == 2
        assert "--trust ownnet:Net" in strange.stderr
        trusted = league_command(*words, "--trust", "ownnet:Net", cwd=tmp_path)
        assert trusted.returncode == 0, trusted.stderr


def test_a_snapshot_is_exported_to_a_folder_of_its_own(league_command, trained, tmp_path):
    newest = open_reader(trained).snapshots()[-1].snapshot_id
    done = league_command("snapshots", trained, "export", newest, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert read_export(tmp_path / "out")[0]["snapshot_id"] == newest
    again = league_command("snapshots", trained, "export", newest, tmp_path / "out")
    assert again.returncode == 2
    assert "expected a new place to export to" in again.stderr


def test_what_a_crash_left_is_found_and_removed_only_when_asked(league_command, copied):
    stray = copied / "objects" / "ab" / f"{'ab' * 32}.safetensors"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"half a snapshot")
    (found,) = rows(league_command("snapshots", copied, "gc", "--json"))
    assert (found["path"], found["bytes"]) == (str(stray), 15)
    assert stray.exists()
    done = league_command("snapshots", copied, "gc", "--delete")
    assert done.stdout.endswith("1 files, 15 bytes removed\n")
    assert not stray.exists()
    assert league_command("snapshots", copied, "verify").returncode == 0


def test_snapshots_are_listed_by_any_condition(league_command, trained):
    listed = rows(league_command("snapshots", trained, "list", "--where", "env_steps = 0", "--json"))
    assert {row["env_steps"] for row in listed} == {0}
    refused(league_command("snapshots", trained, "list", "--where", "colour = 1"), "colour")


def test_an_answer_is_cut_at_the_limit_and_says_so(league_command, trained):
    done = league_command("sql", trained, "FROM range(20)", "--limit", 5, "--format", "json")
    assert len(json.loads(done.stdout)) == 5
    assert "only the first 5 rows" in done.stderr
    refused(league_command("sql", trained, SLOW, "--timeout", 0.5), "longer than 0.5 seconds")


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize(
    "giant",
    [
        "SELECT levenshtein(repeat('ab', 200_000), repeat('ba', 200_000))",
        pytest.param("SELECT range(400_000_000)", marks=pytest.mark.variant),
    ],
)
def test_a_question_that_duckdb_would_not_stop_ends_all_the_same(league_command, trained, giant):
    began = time.monotonic()
    refused(league_command("sql", trained, giant, "--timeout", 0.5))
    assert time.monotonic() - began < 60.0  # it would take several minutes, or all memory


@pytest.mark.parametrize(
    "raised",
    [KeyboardInterrupt(), RuntimeError("Query interrupted"), ValueError("failed: KeyboardInterrupt: ")],
)
def test_what_ctrl_c_ends_ends_without_a_traceback(monkeypatch, raised):
    def app(**_):
        raise raised

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130


# ---------------------------------------------------------------- rules


def test_other_rules_are_replayed_over_a_run_and_printed_side_by_side(league_command, trained):
    told = league_command("rules", trained, "--preset", "fictitious", "--json")
    assert (told.returncode, told.stderr) == (0, "")
    found = json.loads(told.stdout)
    assert (found["recorded"], found["preset"]) == ("alphastar_paper", "fictitious")
    assert found["left_out"] == ["main_exploiter-0"]
    window = [row for row in found["draws"] if row["match_type"] == "window"]
    assert {row["player"] for row in window} == {"main-0", "main-1"}
    assert all(row["preset"] > 0.9 and row["recorded"] == 0.0 for row in window)
    assert {row["source"] for row in found["decisions"]} == {"recorded", "preset"}
    table = league_command("rules", trained, "--preset", "fictitious")
    assert "main_exploiter-0" in table.stdout
    unknown = league_command("rules", trained, "--preset", "fictitous")
    assert unknown.returncode == 2
    assert "did you mean 'fictitious'?" in unknown.stderr
