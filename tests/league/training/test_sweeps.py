"""Plans of sweeps: the grid, its order and its mistakes."""

import os
import signal
import subprocess
import sys
import time

import pytest

from league.training.sweeps import Grid, begin, make_plan, read_plan, state_in, train_all, values_of
from storage.errors import Mistake


def test_the_grid_goes_seed_by_seed(tiny_config):
    plan = make_plan(tiny_config, ["learner.lr=1e-3,1e-4", "log.seconds=5"], 2)
    assert [run.name for run in plan.runs] == [
        "lr=1e-3+seed=3",
        "lr=1e-4+seed=3",
        "lr=1e-3+seed=4",
        "lr=1e-4+seed=4",
    ]
    assert plan.settings == ["learner.lr=1e-3", "learner.lr=1e-4"]
    assert plan.runs[3].overrides == ("log.seconds=5", "learner.lr=1e-4", "seed=4")


@pytest.mark.parametrize(
    ("text", "values"),
    [("1e-3, 1e-4", ["1e-3", "1e-4"]), ("[64, 64]", ["[64, 64]"]), ("[64],[32, 8]", ["[64]", "[32, 8]"])],
)
def test_commas_in_brackets_separate_nothing(text, values):
    assert values_of(text) == values


@pytest.mark.slow
def test_a_plan_is_read_as_it_was_written_and_another_one_is_refused(tiny_config, tmp_path):
    plan = make_plan(tiny_config, ["learner.lr=1e-3,1e-4"], 2)
    begin(plan, tmp_path / "s")
    assert read_plan(tmp_path / "s") == plan
    begin(plan, tmp_path / "s")
    with pytest.raises(Mistake, match="another sweep is there, of 4 runs"):
        begin(make_plan(tiny_config, ["learner.lr=1e-3,1e-4"], 3), tmp_path / "s")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(Mistake, match="is there and no sweep"):
        begin(plan, tmp_path / "other")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["learner.lr=1,2", "learner.lr=3,4"], "is given twice, expected once, with commas"),
        (["learner.lr=1", "learner.lr=2"], "is given twice, expected once, with commas: learner.lr=V1,V2"),
        (["learner.lt=1e-3,1e-4"], "unknown key 'learner.lt'"),
    ],
)
def test_mistakes_in_a_grid_are_found_before_anything_is_trained(tiny_config, overrides, said):
    with pytest.raises(Mistake, match=said):
        make_plan(tiny_config, overrides, 2)


def test_a_place_that_cannot_hold_a_sweep_and_a_folder_that_is_none_are_mistakes(tiny_config, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        Mistake, match="file/x/configs: cannot be made: Not a directory; choose another folder"
    ):
        begin(make_plan(tiny_config, (), 1), tmp_path / "file" / "x")
    with pytest.raises(Mistake, match=r"found no sweep\.json in it, expected the folder of a sweep"):
        read_plan(tmp_path)


@pytest.mark.long
def test_a_sweep_that_was_killed_goes_on_without_training_anything_twice(tiny_config, league_here, tmp_path):
    folder = tmp_path / "s"
    command = [sys.executable, "-m", "league.commands.app", "sweep", str(tiny_config), "--seeds", "2"]
    process = subprocess.Popen([*command, "--out", str(folder)], start_new_session=True)
    first, second = folder / "seed=3", folder / "seed=4"
    deadline = time.monotonic() + 400
    while not (second / "FORMAT").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    plan = read_plan(folder)
    assert [state_in(folder, run).kind for run in plan.runs] == ["trained", "killed"]
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.is_file()}
    done = league_here("sweep", folder)
    assert done.returncode == 0, done.stderr
    assert "seed=3: is there. Trained" in done.stdout
    assert "seed=4: goes on" in done.stdout
    assert "mean of 2 seeds" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert state_in(folder, plan.runs[1]).kind == "trained"


class Impatient(Grid):
    """Stops the first run as soon as it is there."""

    def __init__(self, plan, folder):
        super().__init__(plan)
        self.first, self.folder, self.over = plan.runs[0], folder, []

    def look(self, run):
        return "too bad" if run == self.first and (self.folder / run.name / "FORMAT").exists() else ""

    def ended(self, run, state, stopped):
        self.over.append((run, state.kind, stopped))
        return bool(stopped) or super().ended(run, state, stopped)


@pytest.mark.long
def test_a_run_that_its_source_gives_up_is_ended_and_the_next_one_begins(tiny_config, tmp_path):
    plan = make_plan(tiny_config, ["stop.env_steps=10_000_000,1_000"], 1)
    begin(plan, tmp_path / "s")
    source, said = Impatient(plan, tmp_path / "s"), []
    first, second = plan.runs
    assert train_all(source, tmp_path / "s", 1, said.append) == []
    assert source.over == [(first, "stopped", "too bad"), (second, "trained", "")]
    assert f"[1/2] {first.name}: stopped early: too bad" in said
