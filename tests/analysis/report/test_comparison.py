"""A page on several runs: names with their runs in front, settings that differ, commands that go on."""

import numpy as np
import pytest

import analysis
from analysis import plots
from analysis.report.comparison import several_page
from tests.analysis.planted_runs import Plan, plant
from tests.analysis.plots.drawn import labelled, words
from tests.analysis.report.test_report_page import Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """Another league by the same settings."""
    folder = tmp_path_factory.mktemp("several") / "later"
    plant(folder, np.random.default_rng(4), Plan(snapshots=3, batches=2, matches=120))
    return folder


def test_a_page_on_two_runs_names_all_by_run_and_competitor(planted, later):
    with analysis.open_run(planted, later) as history:
        whole = several_page(history)
        strengths = history.strengths()
    found = Page(whole)
    rows = {row[0]: row for row in found.tables["runs"][1:]}
    assert rows.keys() == {"planted", "later"}
    for name, run in (("planted", planted), ("later", later)):
        with analysis.open_run(run) as own:
            best = own.order().best
        assert f"{name}/{best.competitor}" in rows[name]
        assert f"{best.elo:+.0f} [{best.low:+.0f}, {best.high:+.0f}]" in rows[name]
    assert "All settings of the runs are the same." in whole
    assert f"league compare {planted}:main-0 {later}:main-0" in whole
    assert len(found.ids) == len(set(found.ids))
    assert set(strengths["run"]) == {"planted", "later"}
    assert not strengths.duplicated(["run", "snapshot_id"]).any()


def test_strengths_of_runs_are_those_of_their_own_orders(planted, later):
    with analysis.open_run(planted, later) as history:
        frame = history.strengths()
    with analysis.open_run(later) as own:
        places = {place.competitor: place for place in own.order().places}
        frozen = own.snapshots().set_index("snapshot_id")["league_env_steps"]
    mine = frame[frame["run"] == "later"].set_index("snapshot_id")
    assert list(mine.index) == [name for name in frozen.index if name.startswith("main-0")]
    for name, row in mine.iterrows():
        assert (row["strength"], row["low"], row["high"]) == pytest.approx(
            (places[name].elo, places[name].low, places[name].high)
        )
        assert row["league_env_steps"] == frozen[name]
    figure = plots.strengths(frame)
    (line,) = labelled(figure, "strength, Elo: later/main-0")
    np.testing.assert_allclose(line.get_ydata(), mine["strength"])
    np.testing.assert_allclose(line.get_xdata(), mine["league_env_steps"])
    assert "Elo above main-0 · 0 of the same run" in words(figure, "subtitle")
    assert "main-0 ·" not in words(figure, "title"), "the larger number is no verdict between runs"


def test_settings_that_differ_are_a_table_and_games_are_only_for_runs_of_one_game(planted, begun):
    with analysis.open_run(planted, begun) as history:
        whole = several_page(history)
    rows = {row[0]: row[1:] for row in Page(whole).tables["differing"][1:]}
    assert rows["env.id"] == ["tic_tac_toe", ""]
    assert rows["ratings.anchor"] == ["null", ""]
    assert "name" not in rows


def test_what_a_stranger_named_is_text_and_a_run_of_another_game_is_not_compared(planted, hostile):
    with analysis.open_run(planted, hostile) as history:
        whole = several_page(history)
    assert "The runs are of different games." in whole
    assert "<script>hacked" not in whole
