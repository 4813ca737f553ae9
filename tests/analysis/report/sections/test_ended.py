"""The summary and the head of a page say how training ended, or that it goes on."""

import math

import pytest

from analysis.history.history import History
from analysis.report.page import as_of
from analysis.report.sections.overview import overview
from analysis.report.story import Story
from analysis.report.time_left import seconds_left, seconds_spent
from storage.archive import Archive
from storage.ends import End
from tests.analysis.history.test_history import played

ROW = {"name": "new", "env": "tic_tac_toe", "seed": 0, "most_lead": None}


def ended(state, **changes):
    return End(state=state, seconds=45.0, of_seconds=600.0, env_steps=900, ended_at=4e9, **changes)


def told(run):
    with History(run) as history:
        story = Story(history)
        return overview(story).html, as_of(story)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "summary", "head"),
    [
        (ended("stopped"), "Stopped after 45 s of 10 min", "stopped"),
        (ended("failed", reason="its <game> crashed"), "10 min: its &lt;game&gt; crashed", "failed"),
        (ended("trained"), "Trained for 45 s, 900 env steps", "finished"),
        (None, "Training was killed", "killed"),
    ],
)
def test_a_page_says_how_training_ended(end, summary, head, tmp_path):
    with Archive.create(tmp_path / "new", "name: new", ROW) as archive:
        if end is not None:
            archive.append_end(end)
    html, beside = told(tmp_path / "new")
    assert summary in html
    assert f", {head}" in beside
    assert ("--resume" in html) == (head != "finished")


@pytest.mark.slow
def test_a_page_says_that_a_run_is_running(tmp_path):
    with Archive.create(tmp_path / "new", "name: new", ROW):
        html, beside = told(tmp_path / "new")
    assert "running now" in html
    assert ", running now" in beside
    assert "left" not in html + beside


@pytest.mark.slow
def test_a_page_says_how_much_time_is_left_of_a_run_that_is_running(tmp_path):
    config = "name: new\nstop: {minutes: 100, env_steps: null}\n"
    with Archive.create(tmp_path / "new", config, ROW) as archive:
        archive.append_results(played((0, 1)), [])
        html, beside = told(tmp_path / "new")
    assert "with about 100 minutes left: this page" in html
    assert ", running now, 100 min left" in beside
    assert "left" not in "".join(told(tmp_path / "new"))  # it was killed


def test_earlier_sessions_count_by_their_ends_and_killed_ones_until_their_last_match():
    assert seconds_spent([(100.0, math.nan)], [], 130.0) == 30.0
    assert seconds_spent([(100.0, 150.0), (200.0, 220.0)], [(160.0, 57.0)], 230.0) == 57.0 + 30.0
    assert seconds_spent([(100.0, 150.0), (200.0, 220.0)], [], 230.0) == 50.0 + 30.0
    assert seconds_spent([(100.0, math.nan), (200.0, math.nan)], [], 230.0) == 30.0


@pytest.mark.slow
def test_what_is_left_of_env_steps_follows_from_the_speed_of_the_last_minutes(tmp_path):
    with Archive.create(tmp_path / "new", "name: new", ROW) as archive:
        archive.append_results(played(*[(0, 1)] * 50), [])
    with History(tmp_path / "new") as history:
        ((steps, began, last),) = history.sql(
            "SELECT sum(env_steps), epoch(min(started_at)), epoch(max(started_at)) FROM matches"
        ).itertuples(index=False)
        limited = {"stop": {"env_steps": int(3 * steps), "minutes": None}}
        assert seconds_left(history, limited) == pytest.approx(2 * (last - began))
        assert seconds_left(history, {"stop": {"env_steps": 1, "minutes": None}}) == 0.0
        assert seconds_left(history, {}) is None
