"""What is drawn, when, and what of it is sent."""

import asyncio
import json
import shutil
import time

import numpy as np
import pytest

from analysis.server import run_watch
from analysis.server.app import _events
from analysis.server.run_watch import RunWatch
from storage.archive import Archive
from storage.ends import End
from storage.errors import NotARun
from tests.analysis.history.test_history import played
from tests.analysis.planted_runs import Plan, plant
from tests.steps import wait_for

ROW = {"name": "new", "env": "tic_tac_toe", "seed": 0, "most_lead": None}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    plan = Plan(snapshots=2, batches=1, matches=40)
    return plant(tmp_path_factory.mktemp("watched") / "small", np.random.default_rng(2), plan)


@pytest.fixture
def run(planted, tmp_path):
    return shutil.copytree(planted, tmp_path / "small")


@pytest.fixture
def watch(run):
    watch = RunWatch(run, every_seconds=0.05)
    watch.begin()
    yield watch
    watch.close()


@pytest.mark.slow
def test_a_run_that_has_just_begun_is_drawn(tmp_path):
    with Archive.create(tmp_path / "new", "name: new", ROW):
        watch = RunWatch(tmp_path / "new")
        watch.begin()
        watch.close()
    assert "only just begun" in watch.drawn.page


def grow(run, first):
    with Archive.open(run) as archive:
        archive.append_results(played((0, 1), first=first), [])


def first_event(watch, seen):
    """The first that is sent to a page that shows drawing `seen`; comments keep the line alive."""

    async def read():
        stream = _events(watch, seen, asyncio.Event())
        async for message in stream:
            if not message.startswith(":"):
                break
        await stream.aclose()
        return message

    id_, data = asyncio.run(read()).strip().split("\n")
    return int(id_.removeprefix("id: ")), json.loads(data.removeprefix("data: "))


@pytest.mark.long
def test_it_draws_again_when_the_run_has_said_more_and_only_then(run, watch):
    first = watch.drawn
    grow(run, 1_000_000)
    wait_for(lambda: watch.drawn.number > first.number)
    second = watch.drawn
    changed = {name for name, part in second.parts.items() if part != first.parts[name]}
    assert "overview" in changed
    assert "lineage" not in changed  # nobody was frozen
    time.sleep(0.5)
    assert watch.drawn is second


@pytest.mark.long
def test_a_page_that_is_behind_gets_everything_and_one_that_is_not_what_has_changed(run, watch):
    number, everything = first_event(watch, 0)
    assert [part["id"] for part in everything["sections"]] == everything["order"] == list(watch.drawn.parts)
    grow(run, 1_000_000)
    _, changes = first_event(watch, number)
    sent = {part["id"] for part in changes["sections"]}
    assert "overview" in sent
    assert sent < set(everything["order"])


@pytest.mark.long
def test_a_run_that_is_taken_away_leaves_the_page_and_is_said_until_it_is_back(run, watch, tmp_path):
    run.rename(tmp_path / "elsewhere")
    wait_for(lambda: watch.drawn.trouble)
    assert str(run) in watch.drawn.trouble
    assert watch.drawn.parts
    (tmp_path / "elsewhere").rename(run)
    wait_for(lambda: not watch.drawn.trouble)


@pytest.mark.variant
@pytest.mark.long
def test_an_open_page_says_that_a_run_ended_or_was_killed(tmp_path):
    """A kill is no fact of the run: only its lock is free."""
    archive = Archive.create(tmp_path / "new", "name: new", ROW)
    watch = RunWatch(tmp_path / "new", every_seconds=0.05)
    watch.begin()
    assert "running now" in watch.drawn.as_of
    archive.close()
    wait_for(lambda: "killed" in watch.drawn.as_of)
    assert not watch.drawn.ended
    with Archive.open(tmp_path / "new") as archive:
        archive.append_end(End(state="stopped", seconds=45.0, env_steps=9, ended_at=4e9))
        wait_for(lambda: "stopped" in watch.drawn.as_of)
        assert watch.drawn.ended
        assert " data-ended" in watch.drawn.page
    watch.close()


@pytest.mark.slow
def test_until_a_long_run_is_read_its_page_says_so_and_its_summary_comes_first(run, monkeypatch):
    drawings = []
    show = RunWatch._show
    monkeypatch.setattr(RunWatch, "_show", lambda self, *of: drawings.append(len(of[1])) or show(self, *of))
    monkeypatch.setattr(run_watch, "MANY_MATCHES", 10)
    watch = RunWatch(run, patience=0.0)
    assert "Reading the run" in watch.drawn.page
    watch.begin()
    number, everything = first_event(watch, 0)
    assert everything["order"][0] == "overview"  # so that the page, which has no section, loads the drawing
    watch.close()
    assert number in (1, 2)
    assert [drawings[0], drawings[1] > 10] == [1, True]


def test_what_is_no_run_is_refused_at_once(tmp_path):
    with pytest.raises(NotARun):
        RunWatch(tmp_path).begin()
