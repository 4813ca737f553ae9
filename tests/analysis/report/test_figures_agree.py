"""One number for one thing: figures of report, `ratings`, `runs`, `standing()` and SQL of one run agree.

Runs that were really trained (with exploiters, resumed, in fragments), a planted one, and a tournament.
"""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import analysis
import league
from analysis.report import report_page
from analysis.report.comparison import several_page
from analysis.report.phrases import short, span
from league.commands.ratings import ratings
from league.commands.runs import HEADER, row_of
from tests.analysis.report.test_report_page import Page

pytestmark = pytest.mark.slow

torch.set_num_threads(1)
LEAGUES = ("trained", "resumed", "in fragments", "planted")
TRAINED = LEAGUES[:3]


def settings(env_steps: int, **rollout: int) -> dict:
    return {
        "name": "small",
        "seed": 1,
        "env": {"id": "tic_tac_toe"},
        "policy": {"hidden": [16]},
        "league": {"freeze_every": 3000, "players": {"main": 1, "main_exploiter": 1}},
        "rollout": {"slots": 64, "matches_per_request": 64, **rollout},
        "learner": {"batch_steps": 256, "lr": 3e-3},
        "evaluation": {"placing": 0.05},
        "runners": 0,
        "stop": {"env_steps": env_steps},
    }


def plain(text: str) -> str:
    """`text` with one space for each stretch of white space."""
    return " ".join(text.split())


class Told:
    """What each place says of one run."""

    def __init__(self, run):
        self.run = run
        with analysis.open_run(run) as history:
            self.order = history.order()
            self.standing = history.standing().set_index("competitor")
            self.board = history.leaderboard().set_index("competitor")
            self.payoff = history.payoff()
            self.frozen = history.snapshots()
            self.counts = history.sql(
                "SELECT sum(matches) FILTER (NOT is_placing) AS matches,"
                " coalesce(sum(matches) FILTER (is_placing), 0) AS placing,"
                " sum(env_steps) FILTER (NOT is_placing) AS env_steps FROM played"
            ).iloc[0]
            self.curves = history.curves()
            self.ends = history.sql("SELECT env_steps, seconds FROM ends ORDER BY ended_at")
            self.page = Page(report_page(history))
        self.listed = dict(zip(HEADER, row_of(run, plain=True), strict=True))
        self.rows = self.page.tables["leaderboard-table"]
        self.said = plain(self.page.said)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, planted, tournament):
    folder = tmp_path_factory.mktemp("agree")
    trained = league.train(settings(9_000), folder / "trained")
    resumed = folder / "resumed"
    shutil.copytree(trained, resumed)
    league.train(settings(15_000), resumed, resume=True)
    fragments = league.train(settings(9_000, fragment_steps=3), folder / "fragments")
    return {
        "trained": trained,
        "resumed": resumed,
        "in fragments": fragments,
        "planted": planted,
        "tournament": tournament,
    }


@pytest.fixture(scope="module")
def told(runs):
    made: dict[str, Told] = {}

    def of(name: str) -> Told:
        if name not in made:
            made[name] = Told(runs[name])
        return made[name]

    return of


@pytest.mark.parametrize("name", [*LEAGUES, "tournament"])
def test_games_and_win_rates_are_of_one_set_of_games_in_every_table(name, runs, told, capsys):
    run = told(name)
    for competitor, row in run.board.iterrows():
        own = run.payoff[run.payoff["home"] == competitor]
        assert row["games"] == own["games"].sum()
        won = own["wins"].sum() + 0.5 * own["draws"].sum()
        assert row["win_rate"] * row["games"] == pytest.approx(won)
        assert row["points"] == pytest.approx(row["win_rate"])
        parts = [row[f"{purpose}_games"] for purpose in ("training", "evaluation")]
        assert sum(parts) == (0 if name == "tournament" else row["games"])
        rates = [
            row[f"{p}_win_rate"] * n for p, n in zip(("training", "evaluation"), parts, strict=True) if n
        ]
        assert name == "tournament" or sum(rates) == pytest.approx(won)
    ratings(runs[name], as_json=True)
    for row in json.loads(capsys.readouterr().out):
        assert row["games"] == run.board.loc[row["competitor"], "games"]
        assert row["win_rate"] == pytest.approx(run.board.loc[row["competitor"], "win_rate"])
    header = run.rows[0]
    for shown in run.rows[1:]:
        row = run.board.loc[shown[header.index("competitor")]]
        assert shown[header.index("games")] == f"{row['games']:,}"
        if name == "tournament":
            assert shown[header.index("score")] == f"{row['win_rate']:.2f}"
        else:
            assert shown[header.index("win rate")] == f"{row['win_rate']:.2f}"


@pytest.mark.parametrize("name", LEAGUES)
def test_the_best_the_leader_and_the_first_are_one(name, runs, told, capsys):
    run = told(name)
    best = run.order.best.competitor
    assert run.order.names[0] == run.standing.index[0] == run.listed["best"] == best
    assert run.rows[1][:2] == ["1", best]
    assert f"{best}, leads the leaderboard" in run.said
    learn = run.standing[run.standing["kind"] == "player"]
    assert learn["apart"].all()
    assert all(not row[0].isdigit() for row in run.rows[1:] if row[1] in learn.index)
    ratings(runs[name])
    assert capsys.readouterr().out.startswith(f"Best: {best}, ")
    ratings(runs[name], as_json=True)
    assert json.loads(capsys.readouterr().out)[0]["competitor"] == best
    one, other = re.search(r"league compare \S+ (\S+) (\S+)", run.said).groups()
    assert one == best
    assert other not in (best, *learn.index)


@pytest.mark.parametrize("name", LEAGUES)
def test_one_clock_counts_env_steps_and_placing_games_are_apart_and_said(name, told):
    run = told(name)
    total, matches = run.listed["env_steps"], run.listed["matches"]
    assert matches == run.counts["matches"]
    assert plain(f"{matches:,} matches with {short(total)} env steps") in run.said
    assert run.counts["env_steps"] <= total
    assert run.frozen["league_env_steps"].max() <= total
    assert run.curves["league_env_steps"].max() <= total
    if name in TRAINED:
        assert total == run.ends["env_steps"].iloc[-1]
        assert f"{total:,} env steps" in run.listed["state"]
        assert run.counts["placing"] > 0
        assert f"{run.counts['placing']:,.0f} placing games" in run.said
        assert f"in {span(run.ends['seconds'].iloc[-1] / 60)} of training" in run.said
    else:
        assert "placing game" not in run.said


@pytest.mark.parametrize("name", TRAINED)
def test_the_last_snapshot_is_never_without_a_result(name, told):
    run = told(name)
    last = run.frozen.iloc[-1]
    assert last["reason"] == "end of training"
    assert run.standing.loc[last["snapshot_id"], "evaluation_games"] >= 16
    assert np.isfinite(run.standing.loc[last["snapshot_id"], "elo_low"])


def test_what_the_run_was_at_a_number_of_env_steps_is_counted_by_the_same_clock(runs, told):
    steps = told("trained").listed["env_steps"]
    with analysis.open_run(runs["resumed"]) as history, analysis.open_run(runs["trained"]) as stopped:
        past = history.as_of(steps)
        pd.testing.assert_frame_equal(past.snapshots().iloc[:, 1:], stopped.snapshots().iloc[:, 1:])
        assert len(past.matches()) == len(stopped.matches())


def test_runs_beside_each_other_were_trained_as_long_as_each_says(runs, told):
    with analysis.open_run(runs["resumed"], runs["trained"]) as history:
        header, *rows = Page(several_page(history)).tables["runs"]
    for row, name in zip(rows, ("resumed", "trained"), strict=True):
        run = told(name)
        assert row[header.index("trained for")] == span(run.ends["seconds"].iloc[-1] / 60.0)
        assert row[header.index("env steps")] == short(run.listed["env_steps"])
        assert row[header.index("matches")] == f"{run.listed['matches']:,}"
