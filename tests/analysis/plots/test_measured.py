"""What was measured of snapshots is drawn: exploitability, and scores on yardsticks beside those of bots."""

import numpy as np
import pandas as pd
import pytest

from analysis import plots
from analysis.plots.names import short_names
from tests.analysis.plots.drawn import labelled, segments, words
from tests.analysis.plots.leagues import league


def test_curves_pass_through_what_was_measured():
    of = league(60)["exploitability"]
    figure = plots.exploitability(of)
    for kind, rows in of.groupby("kind"):
        (line,) = labelled(figure, f"{kind} main-0")
        x, value = line.get_data()
        np.testing.assert_array_equal(x, rows["league_env_steps"])
        np.testing.assert_array_equal(value, rows["value"])


def test_lower_bounds_have_their_intervals_and_look_otherwise():
    of = league(60)["exploitability"]
    figure = plots.exploitability(of)
    bound, exact = (labelled(figure, f"{kind} main-0")[0] for kind in ("lower_bound", "exact"))
    assert bound.get_marker() != exact.get_marker()
    assert bound.is_dashed()
    assert not exact.is_dashed()
    (bars,) = labelled(figure, "interval lower_bound main-0")
    rows = of[of["kind"] == "lower_bound"]
    np.testing.assert_array_equal([piece[:, 1] for piece in segments(bars)], rows[["low", "high"]])
    assert not labelled(figure, "interval exact main-0")


def measured(*values, **columns):
    frame = pd.DataFrame({"value": values, "low": values, "high": values}).assign(
        kind="exact", unit="chips", player="p", created_at=pd.Timestamp("2024-01-01")
    )
    frame["snapshot_id"] = [f"p@{place}" for place in range(len(frame))]
    frame["league_env_steps"] = range(len(frame))
    return frame.assign(**columns)


def test_the_axis_is_logarithmic_only_where_positive_values_span_far():
    scale = {
        name: plots.exploitability(measured(*values)).axes[0].get_yscale()
        for name, values in {"far": (1.0, 0.01), "near": (0.9, 0.5), "with zero": (1.0, 0.0)}.items()
    }
    assert scale == {"far": "log", "near": "linear", "with zero": "linear"}


def test_of_several_measurements_the_newest_exact_and_the_greatest_bound_are_drawn():
    days = pd.to_datetime(["2024-01-03", "2024-01-01", "2024-01-02"])
    again = measured(0.2, 0.4, 0.3, snapshot_id="p@0", league_env_steps=5, created_at=days)
    (exact,) = labelled(plots.exploitability(again), "exact p")
    (bound,) = labelled(plots.exploitability(again.assign(kind="lower_bound")), "lower_bound p")
    assert exact.get_ydata().tolist() == [0.2]
    assert bound.get_ydata().tolist() == [0.4]


def test_each_unit_has_a_panel():
    frame = pd.concat([measured(0.5, 0.4), measured(0.1, 0.05, unit="wins")])
    labels = [axes.get_ylabel() for axes in plots.exploitability(frame).axes]
    assert labels == ["exploitability, chips", "exploitability, wins"]


def test_the_title_names_the_least_exploitable():
    title = words(plots.exploitability(measured(0.5, 0.125, 0.25)), "title")
    assert title == "p · 1 is least exploitable, by 0.125 chips"
    one = words(plots.exploitability(measured(0.5, kind="lower_bound")), "title")
    assert one == "p · 0 is exploitable by at least 0.5 chips"


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
    (shown,) = short_names([top["competitor"]]).values()
    assert title == f"{shown} chooses a best move in {100 * top['value']:.0f} % of 1,000 positions"
    games = words(plots.yardsticks(of[of["kind"] == "games"]), "title")
    assert "points per game against" in games
