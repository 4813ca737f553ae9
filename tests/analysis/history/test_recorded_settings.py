"""Settings that a run recorded may be a stranger's: what asks for them takes nothing for granted."""

import numpy as np
import pytest

import analysis
from analysis.diagnostics import diagnose
from analysis.history.frames import number_setting, setting, settings_of
from analysis.report import sections
from tests.analysis import planted_runs
from tests.analysis.planted_runs import Plan, plant
from tests.parameters import mostly_long

WRONG = [
    "[1, 2]",
    "a: [}",
    "!!python/object/apply:os.system ['true']",
    "league: 5\nstop: 3\nratings: x\nrunners: 0\n",
    "ratings: {beta: abc, draw_probability: 7, anchor: [1], anchor_sigma: {}}\nleague: {preset: {a: 1}}\n",
    "ratings: {beta: .nan}\nleague: &a [*a]\n",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", [*WRONG, "", None, "[" * 1500])
def test_whatever_was_recorded_as_settings_is_read_as_a_mapping(text):
    assert isinstance(settings_of(text), dict)


def test_a_number_is_one_or_its_default():
    config = {"a": {"b": 2, "c": float("nan"), "d": True, "e": -1.0, "f": "x"}}
    assert number_setting(config, "a", "b", default=5.0) == 2.0
    assert number_setting(config, "a", "e", default=5.0, above=0.0) == 5.0
    assert {number_setting(config, "a", key, default=5.0) for key in "cdfg"} == {5.0}
    assert setting(config, "a", "b", "c") is None


@pytest.mark.slow
@pytest.mark.parametrize("text", mostly_long(WRONG, 2))
def test_a_run_whose_settings_make_no_sense_is_told_of_all_the_same(tmp_path, monkeypatch, text):
    monkeypatch.setattr(planted_runs, "CONFIG", text)
    plan = Plan(snapshots=2, batches=1, matches=40, exploiter_every=2)
    run = plant(tmp_path / "run", np.random.default_rng(0), plan)
    with analysis.open_run(run) as history:
        assert isinstance(history.config(), dict)
        diagnose(history)
        shown = sections(history, only=["overview", "reproduce"])
    assert "leads the leaderboard" in shown[0].html
