import json

import numpy as np
import pytest
from scipy.special import ndtr

import analysis
from analysis.diagnostics import diagnose
from storage.archive import Archive
from tests.analysis.diagnostics.remembered import Remembered
from tests.analysis.planted_runs import BETA, CONFIG, Plan, cycle, forgetting, plant
from tests.analysis.played_tournaments import place, snapshot, store
from tests.parameters import mostly_long


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(5), 2, variant=True))
def test_nothing_is_found_in_a_clean_run(seed):
    """It improves, wobbles, draws who is hard, has snapshots that hardly played and an exploiter that starts
    over: all of that is natural."""
    assert diagnose(Remembered(np.random.default_rng(seed))) == []


@pytest.mark.slow
def test_a_run_folder_gives_the_findings_of_the_same_facts_in_memory(tmp_path):
    plan = Plan(advantage=forgetting(Plan()), dropped=lambda progress: 0.2)
    run = plant(tmp_path / "planted", np.random.default_rng(0), plan)
    with analysis.open_run(run) as history:
        found = diagnose(history)
    assert found == diagnose(Remembered(np.random.default_rng(0), plan))
    assert {"forgetting", "starvation"} <= {f.kind for f in found}
    assert [f.severity for f in found] == sorted((f.severity for f in found), reverse=True)  # warnings first
    assert json.loads(json.dumps([f.to_json() for f in found]))[0]["sentence"] == found[0].sentence


@pytest.mark.long
def test_of_several_runs_each_finding_says_whose_it_is(tmp_path):
    bad = plant(tmp_path / "bad", np.random.default_rng(0), Plan(advantage=forgetting(Plan())))
    good = plant(tmp_path / "good", np.random.default_rng(1))
    with analysis.open_run(bad, good) as both, analysis.open_run(bad) as alone:
        found, expected = diagnose(both), diagnose(alone)
    assert [f.evidence["run"] for f in found] == ["bad"] * len(expected)
    assert [f.sentence for f in found] == [f"bad: {f.sentence}" for f in expected]


@pytest.mark.slow
def test_before_it_happened_nothing_is_found(tmp_path):
    plan = Plan(advantage=forgetting(Plan()))
    run = plant(tmp_path / "planted", np.random.default_rng(0), plan)
    with analysis.open_run(run) as history:
        played = history.sql("SELECT sum(env_steps) AS steps FROM matches")["steps"].item()
        assert not [f for f in diagnose(history.as_of(int(0.55 * played))) if f.kind == "forgetting"]
        assert [f for f in diagnose(history) if f.kind == "forgetting"]


def test_a_run_that_has_not_begun_has_nothing_wrong(tmp_path):
    Archive.create(tmp_path / "new", CONFIG, {"name": "new", "env": "tic_tac_toe", "seed": 0}).close()
    with analysis.open_run(tmp_path / "new") as history:
        assert diagnose(history) == []


@pytest.mark.slow
@pytest.mark.parametrize("table", mostly_long(["updates", "ratings", "decisions", "snapshots"], 2))
def test_a_run_that_lacks_facts_is_judged_by_the_others(table):
    run = Remembered(np.random.default_rng(0), Plan(advantage=cycle(Plan())))
    run.sql(f"DELETE FROM {table}")
    for finding in diagnose(run):
        assert json.loads(json.dumps(finding.to_json()))["severity"] in ("note", "warning")


def tournament(folder, snapshots, score_of):
    """Snapshots 0 to n - 1 of main-0 against `old@0`, 200 games each."""
    field = [snapshot(f"main-0@{10 * i}") for i in range(snapshots)]
    won = np.random.default_rng(0).random((snapshots, 200)) < score_of(np.arange(snapshots))[:, None]
    names = [(entrant.competitor, "old@0") for entrant in field for _ in range(200)]
    results = place(np.stack([won, ~won], axis=2).reshape(-1, 2), names)
    return store(folder, [*field, snapshot("old@0")], [results])


@pytest.mark.slow
def test_a_tournament_tells_which_snapshots_forgot(tmp_path):
    run = tournament(tmp_path / "t", 24, lambda i: np.where(i < 15, 0.75, 0.35))
    with analysis.open_run(run) as history:
        found = diagnose(history)
    (forgot,) = [f for f in found if f.kind == "forgetting"]
    assert (forgot.subject, forgot.evidence["opponent"]) == ("main-0", "old@0")
    earlier, later = (int(name.split("@")[1]) for name in forgot.evidence["between"])
    assert earlier <= 140 < 150 <= later + 10
    assert later - earlier <= 20


@pytest.mark.slow
def test_a_clean_tournament_has_nothing_wrong(tmp_path):
    run = tournament(tmp_path / "t", 24, lambda i: 0.4 + i / 60)
    with analysis.open_run(run) as history:
        assert diagnose(history) == []


@pytest.mark.slow
def test_the_planted_league_is_rated_by_the_model_that_it_plays_by():
    """Or a clean run would not be clean: 10 mu of lead score what TrueSkill says."""
    run = Remembered(
        np.random.default_rng(0), Plan(batches=6, wobble=0.0, skill=lambda progress: 25.0 + 20.0 * progress)
    )
    first = Plan(batches=6).snapshot(0)
    rows = run.sql(
        f"""SELECT sum(wins + draws / 2) AS points, sum(games) AS games FROM meetings
        WHERE home = 'main-0' AND away = '{first}' AND seq < 0.1 * (SELECT max(seq) FROM meetings)"""
    )
    assert rows["points"].item() / rows["games"].item() == pytest.approx(
        float(ndtr(1.0 / (2**0.5 * BETA))), abs=0.03
    )
