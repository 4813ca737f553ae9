"""Named queries: each is asked of a run that was trained."""

import re
import shutil
from importlib.resources import files

import pytest
import torch

import analysis
import league
from analysis.history.named_queries import answers, expand, named_queries
from storage.errors import Mistake

pytestmark = pytest.mark.slow

torch.set_num_threads(1)
MAY_BE_EMPTY = {"caches", "forfeits"}  # a run without Ray in a game that nobody can forfeit


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    run = league.train(
        {
            "env": {"id": "tic_tac_toe"},
            "policy": {"hidden": [16]},
            "league": {"freeze_every": 600, "players": {"main": 1, "main_exploiter": 1}},
            "rollout": {"slots": 64, "matches_per_request": 64},
            "learner": {"batch_steps": 256},
            "runners": 0,
            "stop": {"env_steps": 6_000},
        },
        tmp_path_factory.mktemp("queries") / "run",
    )
    with analysis.open_run(run) as opened:
        yield opened


def test_there_is_a_query_for_each_of_these_questions():
    wanted = """leaderboard payoff rating_history match_mix match_mix_over_time learned_from lineage freezes
        worst_opponents recent_form reasons seat_advantage throughput learning caches forfeits
        decisions win_rate_by_age roles_by_hour exploits seats_over_time"""
    assert set(wanted.split()) <= set(named_queries())
    assert "strengths" in answers()


@pytest.mark.parametrize("name", sorted(named_queries()))
def test_a_query_says_what_it_answers_and_gives_the_columns_that_it_documents(name, history):
    first, *rest = named_queries()[name].splitlines()
    assert re.fullmatch(r"-- .+\?.*\.", first)
    comment = " ".join(line.removeprefix("-- ") for line in rest if line.startswith("--"))
    told = re.sub(r"\([^()]*\)", "", comment)
    documented = [column.strip() for part in told.split(";") for column in part.split(",")]
    frame = history.sql(f"@{name}")
    assert frame.columns.tolist() == documented
    assert len(frame) > 0 or name in MAY_BE_EMPTY


def test_answers_agree_with_the_frames(history):
    mix, reasons, seats = (history.sql(f"@{name}") for name in ("throughput", "reasons", "seat_advantage"))
    matches = history.matches()
    assert mix["matches"].sum() == reasons["matches"].sum() == len(matches)
    assert mix["env_steps"].sum() == matches["env_steps"].sum()
    assert seats.groupby("seat")["games"].sum().tolist() == [len(matches)] * 2
    assert seats.groupby("purpose")["win_rate"].sum().tolist() == pytest.approx([1.0, 1.0])
    rated = history.sql("@rating_history")
    frame = history.ratings()
    assert rated["league_env_steps"].tolist() == frame["league_env_steps"].tolist()
    assert len(history.sql("@freezes")) == (history.decisions()["kind"] == "freeze").sum()


def test_age_and_hour_count_the_games_that_met_has_and_decisions_have_the_clock_of_matches(history):
    met = history.sql("SELECT * FROM met JOIN competitors c ON away = competitor WHERE c.kind = 'snapshot'")
    players = set(history.sql("SELECT competitor FROM competitors WHERE kind = 'player'")["competitor"])
    aged = history.sql("@win_rate_by_age")
    assert aged["games"].sum() == met[met["home"].isin(players)]["games"].sum() > 0
    assert aged["age"].between(0, 9).all()
    assert (
        history.sql("@roles_by_hour")["games"].sum()
        == history.sql("SELECT sum(games) / 2 AS n FROM met")["n"][0]
    )
    decided, matches = history.sql("@decisions"), history.matches()
    assert history.decisions()["league_env_steps"].tolist() == decided["league_env_steps"].tolist()
    for row in decided.itertuples():
        before = matches[(matches["seq"] <= row.seq) & (matches["match_type"] != "round_robin")]
        assert row.league_env_steps == before["env_steps"].sum()


def test_seats_over_time_are_all_seats_and_an_exploiter_beat_what_its_games_say(history):
    seats = history.sql("@seats_over_time")
    assert seats.groupby("seat")["games"].sum().tolist() == [len(history.matches())] * 2
    assert seats.groupby("stretch")["win_rate"].sum().tolist() == pytest.approx([1.0] * 20)
    assert seats["league_env_steps"].max() == history.decisions()["league_env_steps"].max()
    assert seats["win_rate"].between(seats["low"], seats["high"]).all()
    exploits = history.sql("@exploits")
    frozen = history.snapshots().query("role == 'main_exploiter' and env_steps > 0")["snapshot_id"]
    assert set(exploits["exploiter"]) == set(frozen)
    assert (exploits["beaten"] == (exploits["low"] > 0.5)).all()


def test_strength_over_time_is_asked_as_a_query(history):
    frame = history.strengths(everyone=True)
    assert history.sql(" @strengths; ").equals(frame.drop(columns="run"))


def test_recent_form_is_that_of_the_last_tenth(history):
    form = history.sql("@recent_form").set_index(["home", "away"])
    last = history.matches()["seq"].max()
    seats = history.seats()
    # batches count whole: by the seq of their last match
    batch = history.matches().groupby("batch")["seq"].agg(["min", "max"])
    since = batch[batch["max"] > 0.9 * last]["min"].min()
    late = seats[seats["seq"] >= since].groupby("seq")["competitor"].agg(tuple).value_counts()
    for (home, away), games in form["games"].items():
        assert games == late.get((home, away), 0) + late.get((away, home), 0)


def test_a_named_query_is_asked_of_each_of_several_runs(history, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(history.runs[0], other)
    with analysis.open_run(history.runs[0], other) as both:
        alone, together = history.sql("@throughput"), both.sql("@throughput")
        assert together.columns.tolist() == ["run", *alone.columns]
        assert together["run"].tolist() == ["run"] * len(alone) + ["other"] * len(alone)
        assert together["matches"].tolist() == 2 * alone["matches"].tolist()


def test_an_unknown_name_is_a_mistake_that_lists_every_file(history):
    names = [
        file.name.removesuffix(".sql") for file in files("analysis.history").joinpath("queries").iterdir()
    ] + ["strengths"]
    for asked in ("@", "@leaderbord", " @nothing_like_it ; "):
        with pytest.raises(Mistake) as refused:
            history.sql(asked)
        for name in names:
            assert f"@{name}: {answers()[name]}" in str(refused.value)
    with pytest.raises(Mistake, match="did you mean '@leaderboard'"):
        expand("@leaderbord")
    assert expand("SELECT 1") == "SELECT 1"
