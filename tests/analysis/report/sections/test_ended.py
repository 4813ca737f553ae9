"""The summary and the head of a page say how training ended, or that it goes on."""

import pytest

from analysis.history.history import History
from analysis.report.page import as_of
from analysis.report.sections.overview import overview
from analysis.report.story import Story
from storage.archive import Archive
from storage.ends import End

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
        (ended("trained"), "Trained for 45 s, 900 env steps", "trained"),
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
    assert ("--resume" in html) == (head != "trained")


@pytest.mark.slow
def test_a_page_says_that_a_run_is_running(tmp_path):
    with Archive.create(tmp_path / "new", "name: new", ROW):
        html, beside = told(tmp_path / "new")
    assert "running now" in html
    assert ", running now" in beside
