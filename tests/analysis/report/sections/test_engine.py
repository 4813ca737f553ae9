"""Where the time of a run went is added up from its rows of `updates`."""

from types import SimpleNamespace

import pandas as pd

from analysis.report.sections.engine import _seconds


def test_seconds_are_summed_by_player_and_older_runs_have_no_table():
    metrics = [{"seconds_playing": 1.5, "seconds_waiting": 0.25}, {"seconds_playing": 2.0}, {}]
    updates = pd.DataFrame({"player": ["a", "a", "b"], "metrics": metrics})
    shown = str(_seconds(SimpleNamespace(updates=updates)))
    assert '<th scope="row">a</th><td class="n">3.5</td><td class="n">0.0</td>' in shown
    assert _seconds(SimpleNamespace(updates=updates.assign(metrics=[{}, {}, {}]))) is None
    assert _seconds(SimpleNamespace(updates=updates[:0])) is None
