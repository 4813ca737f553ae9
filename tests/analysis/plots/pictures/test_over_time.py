"""Scores and speed over the league's env steps."""

import numpy as np
import pandas as pd

from analysis import plots
from tests.analysis.plots.drawn import labelled, texts, words


def scores_of(players):
    steps = np.arange(1, 6) * 1_000
    rows = [
        {"competitor": player, "league_env_steps": step, "mean": place + step / 1e4, "matches": 10}
        for place, player in enumerate(players)
        for step in steps
    ]
    frame = pd.DataFrame(rows, columns=["competitor", "league_env_steps", "mean", "matches"])
    return frame.assign(low=frame["mean"] - 0.1, high=frame["mean"] + 0.1)


def test_each_player_has_a_line_through_its_mean_scores():
    frame = scores_of(["main-0", "main-1"])
    figure = plots.scores(frame)
    for player in ("main-0", "main-1"):
        (line,) = labelled(figure, f"scores {player}")
        own = frame[frame["competitor"] == player]
        np.testing.assert_allclose(line.get_xdata(), own["league_env_steps"])
        np.testing.assert_allclose(line.get_ydata(), own["mean"])
    assert words(figure, "title") == "main-0 scored 0.5 [0.4, 0.6] at last"
    assert "env steps of the league" in [text for text, _, _ in texts(figure)]


def test_speed_is_drawn_over_env_steps_and_a_standstill_has_no_width():
    frame = pd.DataFrame({"league_env_steps": [100, 100, 400], "env_steps_a_second": [50.0, 0.0, 150.0]})
    figure = plots.speed(frame)
    bars = figure.axes[0].patches[0]
    assert bars.get_data().edges.tolist() == [0, 100, 400]
    assert bars.get_data().values.tolist() == [50, 150]
    assert {"env steps a second", "env steps of the league"} <= {text for text, _, _ in texts(figure)}


def test_without_a_match_both_are_a_sentence():
    for figure in (plots.scores(scores_of([])), plots.speed(pd.DataFrame())):
        assert words(figure, "message").endswith(".")
