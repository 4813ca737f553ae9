"""Speed over the league's env steps."""

import pandas as pd

from analysis import plots
from tests.analysis.plots.drawn import texts, words


def test_speed_is_drawn_over_env_steps_and_a_standstill_has_no_width():
    frame = pd.DataFrame({"league_env_steps": [100, 100, 400], "env_steps_a_second": [50.0, 0.0, 150.0]})
    figure = plots.speed(frame)
    bars = figure.axes[0].patches[0]
    assert bars.get_data().edges.tolist() == [0, 100, 400]
    assert bars.get_data().values.tolist() == [50, 150]
    assert {"env steps a second", "env steps of the league"} <= {text for text, _, _ in texts(figure)}


def test_without_a_match_it_is_a_sentence():
    assert words(plots.speed(pd.DataFrame()), "message").endswith(".")
