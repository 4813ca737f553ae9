"""`league rate`: sixty damaged files, and runs of games that were played elsewhere."""

import json
import re

import pytest

from tests.analysis.tournaments.test_files import CSV, ROWS, pgn

SEATS = "game,seat,player,score\n1,0,a,3\n1,1,b,2\n1,2,c,1\n2,0,b,3\n2,1,c,3\n2,2,a,1\n"
LINES = "".join(json.dumps(dict(zip(("home", "away", "result"), row, strict=True))) + "\n" for row in ROWS)
DAMAGED: dict[str, tuple[str | bytes, str]] = {
    "empty.csv": ("", "empty file"),
    "empty.jsonl": ("", "empty file"),
    "empty.pgn": ("", "empty file"),
    "empty.parquet": ("", "empty file"),
    "blank.csv": ("\n\n\n", "found no column home and away"),
    "header.csv": ("home,away,result\n", "found no game"),
    "prose.pgn": ("Once upon a time\nthere was a game.\n", "found no game"),
    "prose.jsonl": ("Once upon a time\n", "line 1: no JSON"),
    "unknown.txt": (CSV, "ends with '.txt', expected a file of games: .csv"),
    "games.xlsx": (b"PK\x03\x04", "ends with '.xlsx'"),
    "no_result.csv": ("home,away,elo\na,b,3\n", "found no column result or winner among home, away, elo"),
    "no_away.csv": ("home,result\na,1\n", "no column home and away"),
    "no_score.csv": ("game,player,elo\n1,a,3\n", "no column score or rank"),
    "twice.csv": ("home,away,home,result\na,b,c,1\n", "column 'home' comes twice"),
    "half.csv": (CSV + "a,c,half\n", "line 5: result is 'half', expected 1-0"),
    "nan.csv": (CSV + "a,c,nan\n", "line 5: result is 'nan'"),
    "no_value.csv": (CSV + "a,c,\n", "line 5: result is ''"),
    "itself.csv": (CSV + "a,a,1-0\n", "line 5: 'a' plays against itself"),
    "no_name.csv": (CSV + ",a,1-0\n", "line 5: home is empty"),
    "short_row.csv": (CSV + "a,c\n", "line 5: found 2 columns, expected 3"),
    "long_row.csv": (CSV + "a,c,1-0,x\n", "line 5: found 4 columns, expected 3"),
    "behind_blank_lines.csv": (CSV + "\n\na,c,x\n", "line 7: result is 'x'"),
    "behind_a_long_name.csv": (CSV + '"a\nb",c,1-0\na,c,x\n', "line 7: result is 'x'"),
    "late.csv": (CSV + "a,b,1-0\n" * 40_000 + "a,b,oh\n", "line 40005: result is 'oh'"),
    "nothing_finished.csv": ("home,away,result\na,b,*\n", "found no game with a result"),
    "binary.csv": (b"home,away,result\na,b,1-0\n\xff\xfe\x00,b,1-0\n", "cannot be read"),
    "latin.csv": ("home,away,result\nmüller,b,1-0\n".encode("latin-1"), "cannot be read"),
    "utf16.csv": (CSV.encode("utf-16"), "cannot be read"),
    "winner.csv": (
        "model_a,model_b,winner\na,b,model_a\na,b,c\n",
        "line 3: winner is 'c', expected a competitor",
    ),
    "winner_number.csv": ("model_a,model_b,winner\na,b,1\n", "line 2: winner is '1'"),
    "other_winner.csv": ("model_a,model_b,winner\na,b,a\nb,c,a2\n", "line 3: winner is 'a2'"),
    "count.csv": ("home,away,result,count\na,b,1,2\na,b,1,x\n", "line 3: count is 'x', expected a number"),
    "part_count.csv": (
        "home,away,result,count\na,b,1,1.5\n",
        "line 2: count is 1.5, expected a whole number",
    ),
    "huge_count.csv": ("home,away,result,count\na,b,1,1e12\n", "line 2: count is 1e\\+12"),
    "many_games.csv": ("home,away,result,count\n" + "a,b,1,199999999\n" * 2, "found 399,999,998 games"),
    "no_games.csv": ("home,away,result,count\na,b,1,0\n", "found 0 games"),
    "date.csv": ("home,away,result,date\na,b,1,yesterday\n", "line 2: date is 'yesterday'"),
    "seats.csv": (SEATS + "3,0,a,1\n", "line 8: game '3' has 1 seats, expected 3"),
    "alone.csv": ("game,player,score\n1,a,1\n", "game '1' has 1 seats, expected from 2"),
    "named_twice.csv": (SEATS + "3,0,a,1\n3,1,b,2\n3,2,a,0\n", "line 8: game '3' names a competitor twice"),
    "seat_twice.csv": (SEATS + "3,0,a,1\n3,0,b,2\n3,2,c,0\n", "line 9: seat '0' comes twice in game '3'"),
    "score.csv": (SEATS + "3,0,a,1\n3,1,b,good\n3,2,c,0\n", "line 9: score is 'good', expected a number"),
    "no_score_there.csv": (SEATS + "3,0,a,1\n3,1,b,\n3,2,c,0\n", "line 9: score is ''"),
    "infinite_score.csv": (SEATS + "3,0,a,1\n3,1,b,inf\n3,2,c,0\n", "line 9: score is 'inf'"),
    "no_game_id.csv": (SEATS + ",0,a,1\n", "line 8: game is empty"),
    "no_player.csv": (SEATS + "3,0,,1\n3,1,b,2\n3,2,c,0\n", "line 8: competitor is empty"),
    "cut.jsonl": (LINES + '{"home": "a", "aw', "line 4: no JSON"),
    "list_line.jsonl": (LINES + "[1, 2]\n", "line 4: found '\\[1, 2\\]', expected an object"),
    "result.jsonl": (LINES + '\n{"home": "a", "away": "c", "result": "?!"}\n', "line 5: result is '\\?!'"),
    "missing_key.jsonl": (LINES + '{"home": "a", "result": "1-0"}\n', "line 4: away is empty"),
    "cut.json": ('[{"home": "a"', "no JSON"),
    "list.json": ("[1, 2]", "entry 0: found '1', expected an object"),
    "empty_list.json": ("[]", "no column home and away"),
    "result.json": ('[{"home": "a", "away": "c", "result": "?!"}]', "result is '\\?!'"),
    "cut.parquet": (b"PAR1\x00\x00\x00", "cannot be read"),
    "no_black.pgn": (
        pgn(("a", "b", "1-0", "1")) + '[White "a"]\n[Result "1-0"]\n\n1-0\n',
        "line 10: .* no tag Black",
    ),
    "no_result.pgn": ('[White "a"]\n[Black "b"]\n\n*\n', "line 1: this game has no tag Result"),
    "result.pgn": (
        pgn(("a", "b", "1-0", "1"), ("a", "b", "won", "2"), ("a", "b", "x", "3")),
        "line 19: Result is 'x'",
    ),
    "itself.pgn": (pgn(("a", "a", "1-0", "1")), "line 1: 'a' plays against itself"),
    "unfinished.pgn": (pgn(("a", "b", "*", "1")), "found no game with a result"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_line_that_names_it(league_here, tmp_path, name):
    content, expected = DAMAGED[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = league_here("rate", path, "--run", tmp_path / "run")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"league: {path}: ")
    assert re.search(expected, line), line
    assert not (tmp_path / "run").exists()


@pytest.fixture
def games(tmp_path):
    path = tmp_path / "games.csv"
    path.write_text(CSV * 1 + "".join(",".join(row) + "\n" for row in ROWS * 9))
    return path


def told(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_file_has_the_verdict_of_a_tournament(league_here, games, tmp_path):
    found = told(league_here("rate", games, "--anchor", "b", "--json", "--export", tmp_path / "table.csv"))
    assert (found["run"], found["games"], found["anchor"]) == (None, 30, "b")
    assert [row["competitor"] for row in found["table"]] == ["c", "a", "b"]
    assert {row["elo"] for row in found["table"] if row["competitor"] == "b"} == {0.0}
    shown = league_here("rate", games, "--columns", "home=away,away=home").stdout
    assert "30 games, each by itself" in shown
    assert "b is best with probability" in shown
    assert (tmp_path / "table.csv").read_text().startswith("rank,competitor,")


@pytest.mark.slow
def test_gates_check_a_file(league_here, games):
    passed = league_here("rate", games, "--gate", "a rating > 0 against b")
    assert passed.returncode == 0
    assert "gate 'a rating > 0 against b' passed" in passed.stdout
    failed = league_here("rate", games, "--gate", "b score > 0.5 against a")
    assert failed.returncode == 1
    assert "gate 'b score > 0.5 against a' failed" in failed.stdout


@pytest.mark.slow
def test_several_anchors_give_the_scale(league_here, games, tmp_path):
    options = ("--anchor", "a=1500", "--anchor", "b=1300+-40", "--run", tmp_path / "run")
    found = told(league_here("rate", games, *options, "--json"))
    assert {row["elo"] for row in found["table"] if row["competitor"] == "a"} == {1500.0}
    assert found["anchors"] == {"a": {"elo": 1500.0, "error": 0.0}, "b": {"elo": 1300.0, "error": 40.0}}
    assert [row["competitor"] for row in found["agreement"]["anchors"]] == ["a", "b"]
    again = told(league_here("rate", "--run", tmp_path / "run", "--json"))
    assert again["table"] == found["table"]
    gate = league_here("rate", "--run", tmp_path / "run", "--gate", "a rating > 1400").stdout
    assert "a is rated +1500 Elo [+1500, +1500] (95 %) over the zero of a (1500), b (1300+-40)" in gate


@pytest.mark.slow
def test_anchors_that_the_games_contradict_are_a_warning(league_here, games):
    found = league_here("rate", games, "--anchor", "a=0", "--anchor", "b=3000", "--anchor", "c=0").stdout
    assert "the anchors do not agree with one another (p under 0.01)" in found


@pytest.mark.slow
def test_a_run_folder_of_games_is_read_like_that_of_a_tournament(league_here, games, tmp_path):
    run = tmp_path / "run"
    whole = told(league_here("rate", games, "--run", run, "--json"))
    assert whole["table"][0]["mu"] > 25.0, "TrueSkill is recorded, too"
    assert told(league_here("rate", "--run", run, "--json")) == whole
    assert [row["elo"] for row in told(league_here("ratings", run, "--json"))] == [
        row["elo"] for row in whole["table"]
    ]
    counted = league_here("sql", run, "SELECT count(*) AS n FROM matches", "--format", "json")
    assert told(counted) == [{"n": 30}]
    page = tmp_path / "report.html"
    assert league_here("report", run, "-o", page).returncode == 0
    assert f"league rate {games} --run" in page.read_text()
    assert league_here("plot", run, "payoff", "-o", tmp_path / "payoff.svg").returncode == 0
    assert "each by itself" in league_here("rate", "--run", run).stdout


@pytest.mark.slow
def test_games_are_added_to_a_run_and_never_twice(league_here, games, tmp_path):
    run, more = tmp_path / "run", tmp_path / "more.pgn"
    more.write_text(pgn(("c", "d", "1-0", "1"), ("d", "c", "1-0", "1")))
    league_here("rate", games, "--run", run)
    added = told(league_here("rate", more, "--run", run, "--json"))
    together = told(league_here("rate", games, more, "--json"))
    known = ("competitor", "elo", "games", "pairs", "wins")
    assert [[row[name] for name in known] for row in added["table"]] == [
        [row[name] for name in known] for row in together["table"]
    ]
    assert (added["games"], added["pairs"]) == (32, 31)
    games.write_text(games.read_text() + "a,d,1-0\n")
    again = league_here("rate", games, "--run", run)
    assert again.returncode == 2
    assert "begins with the games of" in again.stderr
    assert told(league_here("rate", "--run", run, "--json")) == added
    for beside in (more, run):  # a file that the run holds, and the run once more
        joined = league_here("rate", run, beside, "--run", tmp_path / "joined")
        assert joined.returncode == 2
        assert re.search("begins with the games of|twice", joined.stderr)
    assert not (tmp_path / "joined").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--export", "FILE"), "--export: found .*, whose games are rated"),
        (("FILE",), "rate: found .* twice"),
    ],
)
def test_a_file_is_read_once_and_never_written(league_here, games, options, said):
    before = games.read_text()
    done = league_here("rate", games, *(games if word == "FILE" else word for word in options))
    assert done.returncode == 2
    assert re.search(said, done.stderr)
    assert games.read_text() == before


@pytest.mark.slow
def test_games_of_other_numbers_of_seats_are_refused_before_they_are_recorded(league_here, games, tmp_path):
    run, more = tmp_path / "run", tmp_path / "more.csv"
    before = told(league_here("rate", games, "--run", run, "--json"))
    more.write_text(SEATS)
    done = league_here("rate", more, "--run", run)
    assert done.returncode == 2
    assert f"{more}: games of 3 seats, expected 2 as in {run}" in done.stderr
    assert told(league_here("rate", "--run", run, "--json")) == before


@pytest.mark.slow
def test_games_whose_recording_was_cut_off_are_refused(league_here, games, tmp_path):
    run = tmp_path / "run"
    league_here("rate", games, "--run", run)
    settings = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(settings.replace("games: 30\n", "games: 99\n"))
    done = league_here("rate", "--run", run)
    assert done.returncode == 2
    assert "recording its games was cut off after 30 of 99" in done.stderr


@pytest.mark.slow
def test_games_are_joined_with_those_of_a_tournament(league_here, make_run, tmp_path):
    field, cup, file = make_run(tmp_path / "field", snapshots=2), tmp_path / "cup", tmp_path / "games.csv"
    done = league_here("tournament", field, "--bot", "random", "--run", cup, "--pairs", 3, "--runners", 0)
    assert done.returncode == 0, done.stderr
    file.write_text("white,black,result\nrandom,outsider,1-0\noutsider,random,1/2-1/2\n")
    joined = tmp_path / "joined"
    found = told(league_here("rate", cup, file, "--run", joined, "--json"))
    assert (found["games"], found["pairs"]) == (20, 11)
    assert {row["competitor"]: row["games"] for row in found["table"]} == {
        "main-0@0": 12,
        "main-0@1": 12,
        "random": 14,
        "outsider": 2,
    }
    refused = league_here("rate", file, "--run", cup)
    assert refused.returncode == 2
    assert f"to join its games: league rate FILE {cup}" in refused.stderr


@pytest.mark.slow
def test_competitors_of_a_run_of_games_cannot_play(league_here, games, tmp_path):
    run = tmp_path / "run"
    league_here("rate", games, "--run", run)
    for command in (
        ("tournament", "--run", run, "--resume"),
        ("tournament", run),
        ("compare", run, "a", "b"),
        ("clone", run, tmp_path / "clone"),
    ):
        done = league_here(*command)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
    assert "played elsewhere" in league_here("tournament", "--run", run, "--resume").stderr
