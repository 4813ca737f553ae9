"""`league ratings` reads a run once, and says what its history says."""

import json

import numpy as np
import pytest

import analysis
from league.commands.ratings import best_of, ratings
from league.commands.runs import HEADER, row_of
from tests.analysis.planted_runs import Plan, plant


@pytest.mark.slow
@pytest.mark.parametrize("moment", [None, "4000"])
def test_the_order_and_its_figures_are_those_of_the_history(moment, tmp_path, capsys):
    run = plant(tmp_path / "run", np.random.default_rng(0), Plan(snapshots=4, batches=2, matches=120))
    ratings(run, as_json=True, as_of=moment)
    found = json.loads(capsys.readouterr().out)
    with analysis.open_run(run) as history:
        known = (history if moment is None else history.as_of(int(moment))).standing()
    assert [row["competitor"] for row in found] == known["competitor"].tolist()
    for column in ("mu", "sigma", "elo", "elo_low", "elo_high", "win_rate"):
        mine = [np.nan if row[column] is None else row[column] for row in found]
        np.testing.assert_allclose(mine, known[column].to_numpy(dtype=float), rtol=1e-9, err_msg=column)
    assert [row["games"] for row in found] == known["games"].tolist()


@pytest.mark.slow
def test_whoever_is_asked_names_the_same_best(tmp_path, capsys):
    run = plant(tmp_path / "run", np.random.default_rng(0), Plan(snapshots=4, batches=2, matches=120))
    ratings(run)
    best = dict(zip(HEADER, row_of(run), strict=True))["best"]
    with analysis.open_run(run) as history:
        assert best == history.order().best.competitor
    assert capsys.readouterr().out.startswith(best_of(run))
    assert best_of(run).startswith(f"Best: {best}, the best with probability")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "{{", "- 1"])
def test_a_damaged_config_of_a_run_leaves_its_ratings(text, tmp_path, capsys):
    run = plant(tmp_path / "run", np.random.default_rng(0), Plan(snapshots=2, batches=1, matches=20))
    ratings(run, as_json=True)
    whole = capsys.readouterr().out
    (run / "config.yaml").write_text(text)
    ratings(run, as_json=True)
    assert capsys.readouterr().out == whole
