"""`league tournament` and `league compare`, as a person and a machine of CI see them."""

import json
import shlex
import shutil

import pandas as pd
import pytest
import yaml

from league.commands.console import print_rows
from league.tournament.settings import load
from storage.errors import Mistake
from tests.steps import flip_bit

pytestmark = pytest.mark.slow

FAST = ("--pairs", 4, "--runners", 0, "--set", "rollout.slots=64")


@pytest.fixture(scope="module")
def run(make_run, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("field") / "field", snapshots=3)


@pytest.fixture
def tournament(league_here, run, tmp_path):
    """Plays one into a fresh folder."""

    def play(*arguments, source=run, out=tmp_path / "out"):
        return league_here("tournament", *([] if source is None else [source]), "--run", out, *arguments)

    return play


def test_its_ratings_are_those_of_its_verdict(tournament, league_here, tmp_path):
    """They were of a league's posterior, which knows no pairs: another probability of the same games."""
    told = json.loads(tournament(*FAST, "--bot", "perfect", "--json").stdout)
    assert (told["run"], told["games"], len(told["pairings"])) == (str(tmp_path / "out"), 48, 6)
    assert [row["rank"] for row in told["table"]] == [1, 2, 3, 4]
    rated = json.loads(league_here("ratings", tmp_path / "out", "--json").stdout)
    for name in ("competitor", "elo", "elo_low", "elo_high", "p_best"):
        assert [row[name] for row in rated] == [row[name] for row in told["table"]]
    assert "perfect is best with probability" in league_here("ratings", tmp_path / "out").stdout


def test_several_anchors_may_be_given_and_replaced(tournament, tmp_path):
    done = tournament(
        *FAST, "--bot", "perfect", "--anchor", "main-0@0=100", "--anchor", "main-0@1=130+-20", "--json"
    )
    told = json.loads(done.stdout)
    assert told["anchors"] == {
        "main-0@0": {"elo": 100.0, "error": 0.0},
        "main-0@1": {"elo": 130.0, "error": 20.0},
    }
    assert {row["elo"] for row in told["table"] if row["competitor"] == "main-0@0"} == {100.0}
    assert told["agreement"]["p_value"] > 0.0
    recorded = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert recorded["anchors"]["main-0@1"] == {"elo": 130.0, "error": 20.0}
    again = json.loads(tournament("--resume", "--anchor", "perfect", "--json", source=None).stdout)
    assert again["anchor"] == "perfect"


def test_settings_take_anchors_as_numbers_or_with_errors():
    settings = load(
        {"competitors": [{"bots": ["a", "b"]}], "anchors": {"a": 1320, "b": {"elo": 0, "error": 30}}}
    )
    assert {name: (one.elo, one.error) for name, one in settings.anchors.items()} == {
        "a": (1320, 0),
        "b": (0, 30),
    }
    assert list(load({"competitors": [{"bots": ["a"]}], "anchor": "a"}).anchors) == ["a"]
    with pytest.raises(Mistake, match="anchors"):
        load({"competitors": [{"bots": ["a"]}], "anchors": {"a": "high"}})


def test_a_gate_that_holds_lets_pass_and_another_does_not(tournament, tmp_path):
    passed = tournament(
        *FAST, "--pairs", 30, "--bot", "perfect", "--gate", "perfect score > 50% against main-0@0"
    )
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "passed" in passed.stdout
    failed = tournament("--resume", "--gate", "perfect score < 50% against main-0@0", source=None)
    assert failed.returncode == 1
    assert "gate 'perfect score < 50% against main-0@0' failed" in failed.stdout
    told = tournament("--resume", "--gate", "games > 1000", "--json", source=None)
    assert told.returncode == 1
    assert json.loads(told.stdout)["gates"][0]["passed"] is False


def test_a_gate_that_is_not_sure_yet_gives_the_command_that_goes_on(tournament, league_here):
    unsure = tournament(*FAST, "--gate", "main-0@0 elo > 0 against main-0@1")
    assert unsure.returncode == 1, unsure.stderr
    assert "is not sure yet" in unsure.stdout
    (line,) = [line for line in unsure.stdout.splitlines() if line.startswith("To play more pairs: ")]
    more = league_here(*shlex.split(line.partition(": ")[2])[1:], "--json")
    assert more.returncode in (0, 1), more.stderr
    assert json.loads(more.stdout)["games"] == 48


def test_it_says_which_is_best_and_the_same_command_a_second_time_plays_nothing_and_ends_alike(tournament):
    given = (*FAST, "--bot", "perfect", "--gate", "perfect games > 20")
    first, second = tournament(*given), tournament(*given)
    assert second.returncode == first.returncode == 0, second.stderr
    for name in ("main-0@0", "main-0@1", "main-0@2", "perfect is best with probability"):
        assert name in first.stdout
    assert "24 of 24 pairs  48 games" in first.stderr
    assert second.stdout == first.stdout
    assert "a tournament is there and goes on" in second.stderr
    assert "join" not in second.stderr


def test_a_bot_joins_a_tournament_that_ended(tournament, league_here, tmp_path):
    tournament(*FAST)
    done = league_here("tournament", "--out", tmp_path / "out", "--resume", "--bot", "perfect")
    assert done.returncode == 0, done.stderr
    assert "1 join the 3 of before: perfect" in done.stderr
    assert "perfect is best with probability" in done.stdout


def test_what_cannot_change_is_one_message(tournament):
    tournament(*FAST)
    for changes in (("--seed", 4), ("--opening-plies", 1)):
        done = tournament(*FAST, *changes)
        assert done.returncode == 2
        assert "start a new one with another --run" in done.stderr.splitlines()[-1]


def test_tables_and_matches_are_written_for_others(tournament, tmp_path):
    table, matches = tmp_path / "table.csv", tmp_path / "matches.parquet"
    done = tournament(*FAST, "--set", "rollout.record=1", "--export", table, "--export-matches", matches)
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(table).competitor.nunique() == 3
    records = pd.read_parquet(matches)
    assert len(records) == 24
    assert records.moves.map(len).min() >= 5
    assert records.groupby("seed").size().unique().tolist() == [2]


def test_modes_make_competitors_of_their_own(tournament):
    done = tournament(*FAST, "--mode", "sample", "--mode", "greedy", "--name", "main-0", "--json")
    names = {row["competitor"] for row in json.loads(done.stdout)["table"]}
    assert names == {"main-0@2", "main-0@2:greedy"}


def test_a_search_for_the_best_says_whether_it_found_it(tournament, tmp_path):
    search = ("--schedule", "top_k", "--runners", 0, "--bot", "perfect")
    found = tournament(*search, "--pairs", 200, "--set", "rollout.matches_per_request=64")
    assert "the 1 best, with a confidence of 0.95: perfect" in found.stderr
    tired = tournament(*search, "--set", "schedule.budget=4", out=tmp_path / "tired")
    assert "not known with a confidence of 0.95 when the budget of 4 pairs was used up" in tired.stderr


def test_a_config_may_be_changed_from_the_command_line(tournament, run, tmp_path):
    config = tmp_path / "some.yaml"
    fields = {
        "competitors": [{"run": str(run)}],
        "schedule": {"kind": "swiss", "pairs": 2, "rounds": 3},
        "runners": 0,
    }
    config.write_text(yaml.safe_dump(fields))
    done = tournament("--pairs", 3, "--set", "schedule.rounds=1", "--json", source=config)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["pairs"] == 3
    assert load(tmp_path / "out" / "config.yaml").schedule.pairs == 3


def test_a_bot_that_fails_while_it_plays_loses_and_is_named_with_what_it_raised(tournament, own_module):
    class Failing:
        def __init__(self, env_id):
            pass

        def act(self, observation, mask, rng, greedy):
            raise RuntimeError("out of\ntea")

    own_module("tea_bots", Failing=Failing)
    done = tournament(*FAST, "--bot", "tea_bots:Failing")
    assert done.returncode == 0
    assert "tea_bots:Failing" in done.stderr
    assert "RuntimeError: out of tea" in done.stderr


def test_names_are_shown_as_they_are(capsys):
    print_rows(("name",), [("[red]x[/red]",)], as_json=False)
    assert "[red]x[/red]" in capsys.readouterr().out


def test_damaged_snapshots_are_named_and_left_out_only_when_that_was_asked(tournament, make_run, tmp_path):
    from storage.archive import open_reader

    field = make_run(tmp_path / "field", snapshots=4)
    reader = open_reader(field)
    path = reader.blob_path(reader.resolve("main-0@2"))
    flip_bit(path, -3)
    refused = tournament(*FAST, source=field)
    assert refused.returncode in (1, 2)
    assert "main-0@2" in refused.stderr
    assert not (tmp_path / "out").exists()
    done = tournament(*FAST, "--leave-out-damaged", source=field)
    assert done.returncode == 0, done.stderr
    assert "left out: main-0@2" in done.stderr
    assert "main-0@2" not in done.stdout


# ---------------------------------------------------------------- compare


def test_compare_stops_by_its_test_and_says_what_it_accepted(league_here, run):
    done = league_here("compare", run, "perfect", "random", "--sprt", 0, 100, "--pairs", 5000)
    assert done.returncode == 0, done.stderr
    assert "SPRT accepted H1: at least 100 Elo" in done.stdout
    told = json.loads(league_here("compare", run, "random", "perfect", "--sprt", 0, 100, "--json").stdout)
    assert told["sprt"]["answer"] == "H0"
    assert told["pairs"] < 500


def test_compare_takes_the_rates_and_the_unit_of_its_test(league_here, run):
    options = ("--elo0", 0, "--elo1", 100, "--alpha", 0.01, "--beta", 0.1, "--normalized")
    told = json.loads(league_here("compare", run, "perfect", "random", *options, "--json").stdout)["sprt"]
    assert (told["alpha"], told["beta"], told["model"], told["answer"]) == (0.01, 0.1, "normalized", "H1")


def test_compare_stops_at_an_interval(league_here, run):
    told = json.loads(league_here("compare", run, "main-0@0", "main-0@1", "--until", 50, "--json").stdout)
    assert told["until"] == {"elo": 50.0, "reached": True}
    assert told["elo_high"] - told["elo_low"] <= 100.0
    few = league_here("compare", run, "main-0@0", "main-0@1", "--until", 5, "--pairs", 20)
    assert "the interval is wider than +-5 Elo after 20 pairs" in few.stdout


def test_compare_of_players_that_repeat_their_games_says_what_draws_at_random(league_here, run):
    for rule in (("--sprt", 0, 10), ("--until", 20)):
        done = league_here("compare", run, "main-0@0:greedy", "main-0@1:greedy", *rule)
        assert done.returncode == 0, done.stderr
        assert "48 pairs, 96 games" in done.stdout, "the second batch repeats the first one"
        assert "To draw something at random: --opening-plies 4" in done.stdout
        assert "play more" not in done.stdout
    assert (
        "no answer, and more pairs would bring none"
        in league_here("compare", run, "main-0@0:greedy", "main-0@1:greedy", "--sprt", 0, 10).stdout
    )


def test_compare_counts_what_greedy_players_repeat_once(league_here, run):
    asked = ("compare", run, "main-0@0:greedy", "main-0@1:greedy", "--pairs", 20)
    assert "19 pairs repeat an earlier one" in league_here(*asked).stdout
    varied = json.loads(league_here(*asked, "--opening-plies", 2, "--json").stdout)
    assert (varied["pairs"], sum(varied["pentanomial"]) > 10) == (20, True)


@pytest.fixture(scope="module")
def other(run, tmp_path_factory):
    """The same run under another name."""
    return shutil.copytree(run, tmp_path_factory.mktemp("other") / "later:1")


def test_competitors_of_two_runs_meet_under_names_with_their_runs(league_here, run, other):
    done = league_here("compare", f"{run}:main-0@0", f"{other}:main-0@1:greedy", "--pairs", 20, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["a"], told["b"]) == ("field/main-0@0", "later:1/main-0@1:greedy")
    alone = league_here("compare", run, "main-0@0", "main-0@1:greedy", "--pairs", 20, "--json")
    assert told | {"a": "main-0@0", "b": "main-0@1:greedy"} == json.loads(alone.stdout)
    text = league_here("compare", f"{run}:main-0", f"{other}:main-0", "--pairs", 2).stdout
    assert text.startswith("field/main-0@2 against later:1/main-0@2: 2 pairs")
