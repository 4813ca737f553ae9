"""Verdicts on settings."""

import pytest

from analysis.sweeps import verdict
from storage.errors import Mistake


def runs(*scores, figure="strength"):
    return [{figure: score} for score in scores]


def test_a_setting_that_chance_cannot_put_ahead_is_called_worse():
    lines = verdict({"lr=1": runs(10.0, 11.0, 12.0), "lr=2": runs(1.0, 2.0, 3.0)})
    assert [line.setting for line in lines] == ["lr=1", "lr=2"]
    # means 11 and 2, deviations 1: 9 -+ 2.776 sqrt(2 / 3) with 4 degrees of freedom
    assert lines[1].behind.low == pytest.approx(9 - 2.7764451 * (2 / 3) ** 0.5)
    assert lines[1].sentence == (
        "lr=2: strength 2 [-0.4841, 4.484], mean of 3 seeds; 9 [6.733, 11.27] behind lr=1: worse"
    )


def test_settings_that_chance_may_have_ordered_are_not_called_worse():
    (_, second) = verdict({"a": runs(1.0, 5.0), "b": runs(2.0, 3.0)})
    assert second.sentence.endswith("these seeds do not show which is better")


def test_less_exploitable_is_better():
    lines = verdict({"a": runs(0.5, figure="exploitability"), "b": runs(0.1, figure="exploitability")})
    assert [line.setting for line in lines] == ["b", "a"]
    assert "one seed says nothing of chance" in lines[1].sentence


def test_with_more_settings_each_difference_is_held_to_more():
    two = verdict({"a": runs(10.0, 11.0), "b": runs(1.0, 2.0)})
    three = verdict({"a": runs(10.0, 11.0), "b": runs(1.0, 2.0), "c": runs(1.0, 2.0)})
    assert three[1].behind.high > two[1].behind.high


def test_a_figure_that_some_run_lacks_is_refused():
    with pytest.raises(Mistake, match=r"--by 'score': not every run has this figure; .* 'strength'"):
        verdict({"a": runs(1.0)}, "score")
