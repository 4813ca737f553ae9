"""Curves on yardsticks: what was measured, beside what bots score."""

import numpy as np
import pandas as pd
import pytest

from analysis import plots
from tests.analysis.plots.drawn import labelled, segments, words
from tests.analysis.plots.leagues import league

PANELS = ["best", "kept", "points per game"]


def panel(figure, label):
    return next(axes for axes in figure.axes if axes.get_ylabel() == label)


def test_each_measure_on_positions_has_a_panel_and_all_games_share_one():
    figure = plots.yardsticks(league(60)["yardsticks"])
    assert sorted(axes.get_ylabel() for axes in figure.axes) == sorted(PANELS)


def test_curves_pass_through_what_was_measured_with_intervals():
    of = league(60)["yardsticks"]
    rows = of[(of["measure"] == "best") & (of["mode"] == "greedy")]
    axes = panel(plots.yardsticks(of), "best")
    (line,) = axes.findobj(lambda artist: artist.get_label() == "greedy main-0")
    np.testing.assert_array_equal(np.column_stack(line.get_data()), rows[["league_env_steps", "value"]])
    (bars,) = axes.findobj(lambda artist: artist.get_label() == "interval greedy main-0")
    np.testing.assert_array_equal([piece[:, 1] for piece in segments(bars)], rows[["low", "high"]])


@pytest.mark.slow
def test_bots_are_level_lines_beside_the_curves_they_can_be_compared_with():
    figure = plots.yardsticks(league(60)["yardsticks"])
    heights = {
        axes.get_ylabel(): [line.get_ydata()[0] for line in axes.lines if line.get_label() == "bot random"]
        for axes in figure.axes
    }
    assert heights == {"best": [0.25], "kept": [0.25], "points per game": []}


def test_names_of_bots_with_nearly_equal_figures_are_kept_apart():
    axes = panel(plots.yardsticks(league(60)["yardsticks"]), "best")
    low, high = sorted(text.xy[1] for text in axes.texts)
    assert (high - low) * axes.get_window_extent().height > 10


@pytest.mark.slow
def test_of_many_snapshots_some_are_drawn_and_the_newest_among_them():
    of = league(1000)["yardsticks"]
    (line,) = labelled(plots.yardsticks(of), "sample main-0 against random")
    steps = of.loc[of["player"].notna(), "league_env_steps"]
    assert 50 < len(line.get_xdata()) <= 100
    assert line.get_xdata()[-1] == steps.max()


@pytest.mark.slow
def test_of_two_measurements_the_newer_one_is_drawn_and_parts_are_not():
    of = league(3)["yardsticks"]
    again = of.assign(value=of["value"] + 0.01, created_at=of["created_at"] + pd.Timedelta("1h"))
    parts = of.assign(part="decisive", value=0.9)
    figure = plots.yardsticks(pd.concat([again, parts, of], ignore_index=True))
    assert plots.svg(figure) == plots.svg(plots.yardsticks(again))


@pytest.mark.slow
def test_the_title_names_the_newest_snapshot():
    of = league(60)["yardsticks"]
    best = of[(of["measure"] == "best") & (of["mode"] == "greedy")]
    top = best.loc[best["league_env_steps"].idxmax()]
    title = words(plots.yardsticks(of), "title")
    assert (
        title == f"{top['competitor']} chooses a best move in {100 * top['value']:.0f} % of 1,000 positions"
    )
    games = words(plots.yardsticks(of[of["kind"] == "games"]), "title")
    assert "points per game against" in games
