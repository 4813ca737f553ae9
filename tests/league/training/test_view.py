"""What people see of a run is what the session knows, on any terminal and off it."""

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from league.config.loading import load
from league.learning.learner.learner import Learner
from league.training.freeze_yardsticks import ShownFigure
from league.training.incidents.incident_log import IncidentLog
from league.training.loop import train
from league.training.reporting import Rates
from league.training.view import (
    LEADERBOARD_ROWS,
    Lately,
    LiveView,
    News,
    PlainView,
    _incidents,
    _precision_of_learning,
    _yardsticks,
    summary,
)
from storage.archive import Archive
from storage.incidents import Incident
from storage.records import MAIN, Snapshot, UpdateRecord, YardstickRecord

CONFIG = {
    "name": "shown",
    "env": {"id": "tic_tac_toe"},
    "policy": {"hidden": [8]},
    "league": {"freeze_every": 600, "players": {"main": 1, "main_exploiter": 1, "league_exploiter": 1}},
    "rollout": {"slots": 64, "matches_per_request": 64},
    "learner": {"batch_steps": 128},
    "stop": {"env_steps": 6000},
}


class Witness:
    """Wraps a view and keeps the session it was shown last."""

    def __init__(self, view):
        self.view, self.session, self.shown = view, None, 0

    def show(self, session):
        self.view.show(session)
        self.shown += 1

    def close(self, session):
        self.view.close(session)
        self.session = session


def watch(tmp_path, make_view):
    """Train a small league under a view; returns its witness."""
    witnesses = []

    def make():
        witnesses.append(Witness(make_view()))
        return witnesses[-1]

    train(load(CONFIG), tmp_path / "run", make_view=make)
    return witnesses[0]


def live(tmp_path, width):
    console = Console(force_terminal=True, record=True, width=width, height=60, file=io.StringIO())
    return watch(tmp_path, lambda: LiveView(console)).session, console.export_text()


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """(session, everything drawn) on a terminal of 160 columns."""
    return live(tmp_path_factory.mktemp("view"), 160)


@pytest.fixture(scope="module")
def page(wide):
    """The page as it stood at the end."""
    return wide[1][wide[1].rindex("╭") :]


@pytest.mark.slow
def test_without_a_terminal_there_is_one_line_per_interval_with_the_figures(tmp_path):
    out = io.StringIO()
    console = Console(file=out, width=80)
    witness = watch(tmp_path, lambda: PlainView(console, every_seconds=3600.0))
    precision, plan, *lines = out.getvalue().splitlines()
    assert precision == "policies play in float32"
    assert plan.startswith("shard 0: main-0, main_exploiter-0, league_exploiter-0 on the CPU")
    assert witness.shown > 2
    lines, courses = lines[:2], lines[2:]  # the first turn and the end, whatever the width
    assert [line.split(": ")[0] for line in courses] == [
        f"{name} at last" for name in witness.session.members
    ]
    assert re.search(r"score -?[\d.]+.*, steps of a match [5-9]", courses[0])
    session = witness.session
    assert f"{session.totals.env_steps:,} env steps" in lines[1]
    assert f"{len(session.roster.snapshots())} snapshots" in lines[1]
    assert re.search(r"  TrueSkill of main-0 -?\d+\.\d  ", lines[1])
    assert "best" not in lines[1], "an order by strength takes a second: the command ends with it"
    assert re.search(r"  \d+ s left$", lines[1])
    assert re.search(r"  \w+ against (past )?\w+ \d+ %  ", lines[1])
    assert re.search(r"trained +[\d,]+ /s +[\d,]+ matches/s +lag +\d", lines[1])


@pytest.mark.slow
def test_a_game_for_one_shows_what_it_scores_and_no_rating(tmp_path):
    out = io.StringIO()
    alone = {"env": {"id": "gymnasium:CartPole-v1"}, "league": {"preset": "none"}, "runners": 0}
    made = load({**alone, "policy": {"hidden": [8]}, "stop": {"env_steps": 20_000}})
    train(
        made, tmp_path / "run", make_view=lambda: PlainView(Console(file=out, width=80), every_seconds=3600.0)
    )
    assert "TrueSkill" not in out.getvalue()
    assert re.search(r"main-0 score [\d.]+", out.getvalue())


@pytest.mark.slow
def test_plain_lines_come_as_often_as_asked(tmp_path):
    out = io.StringIO()
    witness = watch(tmp_path, lambda: PlainView(Console(file=out), every_seconds=1e-9))
    courses = len(witness.session.members)  # behind the end; precision and plan are before
    assert len(out.getvalue().splitlines()) == 2 + witness.shown + 1 + courses


@pytest.mark.slow
def test_the_page_shows_what_was_counted(wide, page):
    session, _ = wide
    assert "shown: tic_tac_toe" in page
    assert f"{session.totals.env_steps:,} env steps" in page
    assert "env steps/s" in page
    assert "trained/s" in page
    assert "matches/s" in page


@pytest.mark.slow
def test_the_page_shows_the_leaderboard_in_order_and_no_name_is_cut(wide, page):
    session, _ = wide
    assert "Leaderboard" in page
    names = [row.competitor for row in session.standings.leaderboard()[:LEADERBOARD_ROWS]]
    lines = [line.split()[0] for line in page.splitlines() if line.strip() and line.split()[0] in names]
    assert lines[: len(names)] == names  # below them, the next column may begin
    assert "…" not in page


def test_the_page_shows_learners_the_match_mix_decisions_and_who_learned_from_whom(wide, page):
    session, _ = wide
    for title in ("Learners", "Match mix", "Latest decisions", "Learned most from", "Played by role"):
        assert title in page
    for name, record in session.log.newest.items():
        assert re.search(rf"{name} +{record.updates:,} +\d", page)
    assert "Seconds, lately" in page
    spent = session.log.spent["main-0"]
    assert re.search(rf"main-0 +{spent['seconds_playing']:.1f} +{spent['seconds_learning']:.1f} +0\.\d", page)
    total = sum(session.state.match_mix.values())
    for match_type, count in session.state.match_mix.items():
        assert re.search(rf"{match_type} +{count / total:.1%} +[\d.]+%", page)
    by_role = session.state.tally.by_role(session.roster)
    assert by_role.total() == session.state.tally.opponents.total()
    for (role, opponent), seats in by_role.most_common(3):
        assert re.search(rf"{role} +{seats:,} +{seats / by_role.total():.1%} +{opponent}", page)
    newest = session.state.newest[0]
    assert re.search(rf"freeze {newest.snapshot_id} +{newest.reason}", page)
    assert len(session.state.news) == 8
    for what, why in session.state.news:
        assert re.search(rf"{what} +{why[:20]}", page)
    for (player, opponent), games in session.state.tally.opponents.most_common(3):
        assert re.search(rf"{player} +{games:,} +{'itself' if opponent == player else opponent}", page)


@pytest.mark.slow
def test_the_page_fits_the_terminal_it_is_on(page, tmp_path):
    assert max(map(len, page.splitlines())) <= 160
    session, text = live(tmp_path, 100)
    narrow = text[text.rindex("╭") :]
    assert max(map(len, narrow.splitlines())) <= 100
    for title in ("Leaderboard", "Learners", "Match mix"):
        assert title in narrow
    assert session.state.newest[0].snapshot_id in narrow


@pytest.mark.slow
def test_a_view_is_finished_even_if_the_run_is_over_at_once(tmp_path, monkeypatch):
    watch(tmp_path, lambda: PlainView(Console(file=io.StringIO()), 1.0))
    console = Console(force_terminal=True, record=True, width=160, file=io.StringIO())
    monkeypatch.setattr("league.training.resume._check_stop", lambda *_: None)
    train(load(CONFIG), tmp_path / "run", resume=True, make_view=lambda: LiveView(console))
    assert "Leaderboard" in console.export_text()


def test_figures_on_yardsticks_are_a_table_on_the_page_and_lines_at_the_end():
    def shown(name, value, measure="best", mode="greedy"):
        given = {"competitor": name, "yardstick": "positions", "kind": "positions", "part": "all"}
        record = YardstickRecord(
            **given, measure=measure, mode=mode, value=value, low=value - 0.1, high=value + 0.1, samples=100
        )
        return ShownFigure(Snapshot(name, "main-0", MAIN, 0, 0, None, "", 0, "mlp", 0.0, ""), record)

    name = "positions/best_greedy"
    measuring = SimpleNamespace(
        first={"main-0": {name: shown("main-0@0", 0.25)}, "main-1": {name: shown("main-1@0", 0.3)}},
        newest={"main-0": {name: shown("main-0@9", 0.5)}, "main-1": {name: shown("main-1@0", 0.3)}},
    )
    measuring.first["main-1"] = measuring.newest["main-1"]
    out = io.StringIO()
    Console(file=out, width=100).print(*_yardsticks(SimpleNamespace(yardsticks=measuring)))
    assert re.search(r"measure +main-0 +main-1", out.getvalue())
    assert re.search(r"positions/best greedy +0.50 +0.30", out.getvalue())
    assert summary(measuring) == [
        "main-0 on positions: best, greedy 0.50 [0.40, 0.60], main-0@9, main-0@0 0.25",
        "main-1 on positions: best, greedy 0.30 [0.20, 0.40], main-1@0",
    ]
    assert _yardsticks(SimpleNamespace(yardsticks=SimpleNamespace(newest={}))) == []


@pytest.mark.slow
def test_a_stopped_player_is_said_once_with_the_reason(tmp_path, monkeypatch):
    learn = Learner.learn_from

    def spoiled(self, episodes, *progress):
        if self.player == "main_exploiter-0":
            episodes.reward[:] = float("nan")
        return learn(self, episodes, *progress)

    monkeypatch.setattr(Learner, "learn_from", spoiled)
    out = io.StringIO()
    watch(tmp_path, lambda: PlainView(Console(file=out), every_seconds=1e-9))
    (line,) = [line for line in out.getvalue().splitlines() if "has stopped" in line]
    assert line.startswith("main_exploiter-0 has stopped. player main_exploiter-0, update 1: the loss is nan")
    assert "the batch is kept in" in line


def test_the_mix_lately_is_what_was_played_since_the_window_began(wide):
    session, _ = wide
    lately = Lately()
    assert lately.mix(session) == {}
    session.state.match_mix["pfsp"] += 30
    assert lately.mix(session) == {"pfsp": 30}


def test_rates_are_differences_over_the_window(wide):
    session, _ = wide
    rates = Rates()
    assert rates.update(session) == (0.0, 0.0, 0.0)
    session.totals.env_steps += 1000
    env_steps, trained, matches = rates.update(session)
    assert env_steps > 0
    assert trained == matches == 0.0


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"bfloat16": 1.0, "bfloat16_speedup": 1.73}, "learn in bfloat16: bfloat16 is 1.7 times as fast as"),
        ({"bfloat16": 0.0, "bfloat16_speedup": 0.9}, "learn in float32: bfloat16 is 0.9 times as fast as"),
        ({"bfloat16": 0.0, "bfloat16_speedup": 0.0}, ""),  # the processor has none
        ({}, ""),
    ],
)
def test_a_line_says_in_which_precision_policies_learn_where_that_was_tried(metrics, said):
    line = _precision_of_learning(UpdateRecord("main-0", 1, 64, 0.0, metrics))
    assert line == (f"policies {said} float32 there" if said else "")


def test_incidents_are_lines_once_and_a_table_of_the_page(tmp_path):
    """Each death is told when it happens, two alike both times."""
    died = Incident(kind="evaluation_runner", who="evaluation runner 0", cause="killed", happened_at=1.0)
    run_row = {"name": "x", "env": "tic_tac_toe", "seed": 0}
    with Archive.create(tmp_path / "run", "seed: 0\n", run_row) as archive:
        log = IncidentLog(archive)
        session = SimpleNamespace(
            settings=load(CONFIG),
            incidents=log,
            members={},
            uploader=None,
            changed=[],
            learners=SimpleNamespace(plan=lambda: []),
            matches=SimpleNamespace(pace=SimpleNamespace(sentences=list)),
            log=SimpleNamespace(newest={}),
        )
        out = io.StringIO()
        news = News(Console(file=out, width=60))
        news.print_new(session)
        assert _incidents(session) == []
        for _ in range(2):
            log.record(died)
        news.print_new(session)
        news.print_new(session)
        _precision, *lines = out.getvalue().splitlines()
        assert lines == ["evaluation runner 0 died (killed): cost nothing"] * 2
        assert archive.incidents() == [died, died]
        (table,) = _incidents(session)
        shown = io.StringIO()
        Console(file=shown, width=60).print(table)
        assert re.search(r"evaluation runner +2", shown.getvalue())
