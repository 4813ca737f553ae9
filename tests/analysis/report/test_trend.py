"""Changes in strength of a player, by its snapshots in an order."""

import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.report.trend import Trend, held, trend_of
from analysis.statistics.strength.order import Order


def league(*elo: float, spread: float = 5.0) -> tuple[Order, pd.DataFrame]:
    """Snapshots of main-0, one after each 100 env steps, of these strengths."""
    rng = np.random.default_rng(0)
    names = [f"main-0@{i}" for i in range(len(elo))]
    draws = {
        name: value + spread * rng.standard_normal(2_000) for name, value in zip(names, elo, strict=True)
    }
    steps = [100 * i for i in range(len(elo))]
    frame = pd.DataFrame({"snapshot_id": names, "player": "main-0", "league_env_steps": steps})
    return Order((), None, draws=draws), frame


@pytest.mark.parametrize(("last", "says"), [(60.0, "improving"), (-60.0, "declining"), (5.0, "unclear")])
def test_a_trend_is_told_where_the_difference_of_two_snapshots_allows_it(last, says):
    trend = trend_of(*league(0.0, 0.0, 0.0, 0.0, last), "main-0", 400.0)
    assert trend is not None
    assert trend.says == says
    assert (trend.now, trend.before) == ("main-0@4", "main-0@3")
    assert trend.change == pytest.approx(last, abs=1.0)
    assert trend.low < last < trend.high


def test_of_one_snapshot_or_a_game_for_one_there_is_no_trend():
    assert trend_of(*league(0.0), "main-0", 100.0) is None
    order, frame = league(0.0, 9.0)
    assert trend_of(order, frame, "main-1", 100.0) is None
    assert trend_of(Order((), None, unit="score", draws=order.draws), frame, "main-0", 100.0) is None


def test_what_was_frozen_before_the_last_quarter_is_what_it_is_compared_with():
    trend = trend_of(*league(0.0, 10.0, 20.0, 30.0, 90.0, 95.0, 100.0), "main-0", 600.0)
    assert trend is not None
    assert trend.before == "main-0@4"


def trend(change, half=30.0):
    return Trend("main-0", "main-0@2", "main-0@1", change, change - half, change + half)


def verdicts(changes):
    found = [None]
    for change in changes:
        found.append(held(found[-1], trend(change)))
    return found[1:]


def test_a_verdict_stays_while_the_difference_is_near_the_threshold():
    near = 30.0 + 4.0 * np.cos(np.arange(40))
    plain = [trend(change).says for change in near]
    assert sum(one != other for one, other in itertools.pairwise(plain)) > 10
    assert verdicts(near) == ["improving"] * 40
    assert verdicts(-near) == ["declining"] * 40


def test_a_verdict_ends_when_an_interval_of_80_percent_holds_0_and_begins_at_95():
    assert verdicts([25.0, 31.0, 25.0, 20.0, 19.0, 25.0, 31.0]) == [
        "unclear", "improving", "improving", "improving", "unclear", "unclear", "improving",
    ]  # fmt: skip
    assert verdicts([31.0, -31.0, -25.0, 25.0]) == ["improving", "declining", "declining", "unclear"]
