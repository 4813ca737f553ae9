"""Searches: their spaces, what is chosen, and which trials are stopped early."""

import json
import sys

import pytest

from league.training.searches import Axis, Score, Search, Trial, make_search, parse_space, surely_worse
from league.training.sweeps import Planned, begin, read_plan, save, state_in
from storage.errors import Mistake

SPACE = "learner.lr=log(1e-4, 1e-2), learner.epochs=int(1,3), learner.loss=choice(appo,impala)"


def test_a_space_is_read_as_it_is_written():
    assert parse_space(SPACE) == (
        Axis("learner.lr", "log", ("1e-4", "1e-2")),
        Axis("learner.epochs", "int", ("1", "3")),
        Axis("learner.loss", "choice", ("appo", "impala")),
    )
    (hidden,) = parse_space("policy.hidden=choice([64, 64], [128])")
    assert hidden.values == ("[64, 64]", "[128]")


def test_numbers_have_three_digits_within_the_ends():
    axis = Axis("learner.lr", "log", ("1.2345e-4", "1e-2"))
    assert [axis.text(x) for x in (1.2346e-4, 0.00345678, 0.01)] == ["0.00012345", "0.00346", "0.01"]


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ("", "found no setting, expected such as"),
        ("learner.lr", r"found 'learner.lr', expected A.B=log\(low,high\)"),
        ("learner.lr=lgo(1,2)", r"found 'lgo\(...\)'; did you mean 'log'\?"),
        ("learner.lr=log(0,1)", "a logarithm has no end at 0; raise it above 0"),
        ("learner.lr=linear(2,1)", "expected two numbers, the lower one first"),
        ("learner.lr=linear(1,nan)", "expected two numbers, the lower one first"),
        ("learner.epochs=int(1,2.5)", "expected two whole numbers"),
        ("learner.loss=choice(appo,appo)", "expected two values or more, each once"),
        ("learner.lr=log(1,2),learner.lr=log(1,2)", "the setting is given twice"),
        ("learner.entropi=log(1e-3,1)", r"unknown key 'learner.entropi'; did you mean 'entropy'\?"),
        ("learner.epochs=int(0,3)", "learner.epochs: .*greater than or equal to 1"),
        ("learner.epochs=log(1,64)", "found 1.37; .*searched by: learner.epochs=int"),
        ("seed=int(1,5)", "--search seed: found no setting that games could tell"),
        ("name=choice(a,b)", "--search name: found no setting"),
    ],
)
def test_a_space_that_is_none_is_one_line_before_anything_is_trained(tiny_config, space, said):
    with pytest.raises(Mistake, match=said) as found:
        make_search(tiny_config, (), space, 5)
    assert "\n" not in str(found.value)


def test_a_setting_is_searched_or_set(tiny_config):
    with pytest.raises(Mistake, match=r"--set learner.lr: the setting is searched"):
        make_search(tiny_config, ["learner.lr=1e-3"], SPACE, 5)


def test_without_optuna_the_message_says_how_to_install_it(tiny_config, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(Mistake, match=r"Optuna is not installed; pip install '.\[search\]'"):
        make_search(tiny_config, (), SPACE, 5)


def trial(*scores, ended="trained"):
    return Trial(
        Planned("t", "", 0, ()), (), tuple(Score(s, v, v - 0.02, v + 0.02) for s, v in scores), ended
    )


def test_a_trial_is_stopped_once_most_others_were_surely_better_by_then():
    others = [trial((0, 0.2), (100, value), (200, 0.9)) for value in (0.5, 0.52, 0.55, 0.3)]
    assert "surely below 3 of 4 others there" in surely_worse(trial((0, 0.2), (100, 0.4)), others)
    assert surely_worse(trial((100, 0.49)), others) == ""  # within their intervals
    assert surely_worse(trial((50, 0.1)), others) == ""  # nobody else was measured there
    assert surely_worse(trial((0, 0.0)), others) == ""  # before any training
    assert surely_worse(trial((100, 0.4)), others[:3]) == ""  # too few
    assert surely_worse(trial((150, 0.4)), others) != ""


def begun(config, folder, trials=12):
    begin(make_search(config, (), SPACE, trials), folder)
    return Search(read_plan(folder), folder)


def test_a_game_may_be_in_place_of_a_config(tmp_path):
    begin(make_search("kuhn_poker", (), "learner.lr=log(1e-4,1e-2)", 2), tmp_path / "s")
    assert Search(read_plan(tmp_path / "s"), tmp_path / "s").next().overrides[0].startswith("learner.lr=")


@pytest.mark.slow
def test_a_search_goes_on_with_the_trials_that_it_would_have_had(tiny_config, tmp_path):
    search = begun(tiny_config, tmp_path / "s")
    for n in range(6):  # as if each had been trained
        run = search.next()
        lr = float(search.trials[n].chosen[0])
        result = {"ended": "stopped" if n == 2 else "trained", "scores": [[100, lr, lr - 0.01, lr + 0.01]]}
        search.plan.results[run.name] = result
    save(search.plan, tmp_path / "s")
    again = Search(read_plan(tmp_path / "s"), tmp_path / "s")
    assert again.done == 6
    assert again.trials == search.trials
    assert again.next() == search.next()
    assert len({each.setting for each in again.plan.runs}) == 7
    assert sum(again.importance().values()) == 0  # too few


@pytest.mark.slow
def test_what_differs_is_told_from_what_does_not(tiny_config, tmp_path):
    search = begun(tiny_config, tmp_path / "s")
    for n in range(12):
        run = search.next()
        epochs = float(search.trials[n].chosen[1])
        search.plan.results[run.name] = {"ended": "trained", "scores": [[100, epochs, epochs, epochs]]}
    assert search.next() is None
    importance = search.importance()
    assert max(importance, key=importance.get) == "learner.epochs"


@pytest.mark.long
def test_a_search_that_was_killed_goes_on_and_writes_its_page(tiny_config, league_here, tmp_path):
    folder = tmp_path / "s"
    command = ["sweep", tiny_config, "--search", "learner.lr=log(1e-4,1e-2)", "--run", folder]
    search = begun(tiny_config, folder, 2)
    first = search.next()  # a kill came before its process
    refused = league_here(*command, "--trials", 2)
    assert refused.returncode == 2
    assert "another sweep is there" in refused.stderr
    done = league_here("sweep", folder, "--json", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    plan = read_plan(folder)
    assert plan.runs[0] == first
    assert [state_in(folder, run).kind for run in plan.runs] == ["trained"] * 2
    found = json.loads(done.stdout)
    assert {row["trial"] for row in found["trials"]} == {"trial-0", "trial-1"}
    assert all(0 <= row["low"] <= row["score"] <= row["high"] <= 1 for row in found["trials"])
    page = (folder / "report.html").read_text()
    assert "Score over the settings" in page
    assert page.count("<svg") == 1
