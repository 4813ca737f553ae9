"""`as_of` against runs that were really stopped: trained in one process, so that they repeat themselves."""

import shutil

import pandas as pd
import pytest
import torch

import analysis
import league
from analysis.history.history import History
from storage.tables import schema

torch.set_num_threads(1)
STOP = 4_000  # env steps
FRAMES = [
    name for name, function in vars(History).items() if "`run`" in (function.__doc__ or "") and name != "sql"
]
# what no two runs share
CLOCKS = {
    *("started_at", "ended_at", "added_at", "created_at", "decided_at", "recorded_at"),
    *("config", "seconds", "metrics", "minutes", "minute"),
}


def settings(env_steps):
    return {
        "name": "tiny",
        "seed": 3,
        "env": {"id": "tic_tac_toe"},
        "policy": {"hidden": [16]},
        "league": {"freeze_every": 500, "players": {"main": 2, "main_exploiter": 1}},
        "rollout": {"slots": 64, "matches_per_request": 64, "record": 0.1},
        "learner": {"batch_steps": 256, "lr": 1e-3},
        "evaluation": {"placing": 0},  # an end plays some that else come later
        "log": {"seconds": 1e6},  # only freezes, resets and the end report
        "runners": 0,
        "stop": {"env_steps": env_steps},
    }


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return league.train(settings(STOP), tmp_path_factory.mktemp("stopped") / "run")


@pytest.fixture(scope="module")
def resumed(stopped, tmp_path_factory):
    """A copy that went on."""
    run = tmp_path_factory.mktemp("resumed") / "run"
    shutil.copytree(stopped, run)
    return league.train(settings(2 * STOP), run, resume=True)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return league.train(settings(2 * STOP), tmp_path_factory.mktemp("uninterrupted") / "run")


def tables_of(history):
    return {name: history.sql(f"FROM {name} ORDER BY ALL") for name in (*schema.TABLES, *schema.VIEWS)}


@pytest.mark.slow
def test_a_run_that_was_stopped_and_went_on_shows_tables_views_and_frames_as_of_then(stopped, resumed):
    with analysis.open_run(resumed) as whole, analysis.open_run(stopped) as then:
        past, there = whole.as_of(STOP), tables_of(then)
        for name, table in tables_of(past).items():
            pd.testing.assert_frame_equal(table, there[name])
        for name in FRAMES:
            pd.testing.assert_frame_equal(getattr(past, name)(), getattr(then, name)())
        assert past.config() == then.config() != whole.config()
        assert len(whole.matches()) > len(past.matches()) > 500
        end = then.decisions()["decided_at"].max()
        at_that_time = whole.as_of(end + pd.Timedelta(milliseconds=1))
        assert at_that_time.snapshots().equals(then.snapshots())


@pytest.mark.slow
def test_a_run_never_stopped_had_the_same_but_for_clocks_and_what_an_end_writes(stopped, uninterrupted):
    """At its end a run freezes its mains, and reports: what it would else have done later. All of that is
    numbered behind the first of these decisions."""
    with analysis.open_run(uninterrupted) as whole, analysis.open_run(stopped) as then:
        past, there = tables_of(whole.as_of(STOP)), tables_of(then)
        decisions = there["decisions"]
        ending = decisions[decisions["reason"] == "end of training"]
        assert len(ending) >= 1
        names = {"snapshots": "snapshot_id", "competitors": "competitor", "leaderboard": "competitor"}
        for name in ("matches", "seats", "meetings", "recordings", "payoff", "match_mix", "learned_from"):
            assert len(past[name]) > 0
        for name, table in there.items():
            kept = table
            if name in (*schema.TABLES, "met", "rated", "decided") and "seq" in table:
                kept = table[table["seq"] < ending["seq"].min()]
            if name in (*names, "lineage"):
                kept = table[~table[names.get(name, "snapshot_id")].isin(ending["snapshot_id"])]
            compared = [column for column in kept if column not in CLOCKS]
            by = [column for column in compared if column != "actions"]
            if name == "match_mix_over_time":  # by the clock
                by, kept = (
                    ["player", "match_type"],
                    kept.groupby(["player", "match_type"], as_index=False).sum(),
                )
                past[name] = past[name].groupby(["player", "match_type"], as_index=False).sum()
                compared = [*by, "matches"]
            pd.testing.assert_frame_equal(
                past[name][compared].sort_values(by, ignore_index=True),
                kept[compared].sort_values(by, ignore_index=True),
                check_dtype=False,
                obj=name,
            )


@pytest.mark.slow
def test_before_the_first_frame_there_is_nothing_and_after_the_last_there_is_all(stopped):
    with analysis.open_run(stopped) as history:
        nothing, beginning = history.as_of("1999-12-31"), history.as_of(0)
        assert all(len(getattr(nothing, name)()) == 0 for name in FRAMES)
        assert nothing.config() == {}
        assert len(beginning.matches()) == 0
        assert set(beginning.snapshots()["reason"]) == {"initial weights"}
        now = tables_of(history)
        for later in (10**12, "2999-12-31"):
            for name, table in tables_of(history.as_of(later)).items():
                pd.testing.assert_frame_equal(table, now[name])


@pytest.mark.slow
def test_the_env_steps_of_a_fact_are_a_moment_at_which_it_was_there(uninterrupted):
    with analysis.open_run(uninterrupted) as history:
        snapshots = history.snapshots()
        some = snapshots.iloc[len(snapshots) // 2]
        past = history.as_of(int(some["league_env_steps"]))
        assert past.snapshots()["snapshot_id"].tolist()[-1] == some["snapshot_id"]
        assert past.matches()["env_steps"].sum() == some["league_env_steps"]


@pytest.mark.slow
def test_several_runs_are_each_shown_as_they_were(stopped, uninterrupted):
    with analysis.open_run(stopped, uninterrupted) as both, analysis.open_run(uninterrupted) as one:
        past = both.as_of(STOP // 2).sql("SELECT run, sum(env_steps) AS steps FROM matches GROUP BY run")
        assert past["steps"].nunique() == 1
        assert past["steps"][0] == one.as_of(STOP // 2).matches()["env_steps"].sum() >= STOP // 2
