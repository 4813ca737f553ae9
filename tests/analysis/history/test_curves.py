"""`History.curves` beside the same figures by pandas, on a small league that is in the repository."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import analysis
from analysis.history import curves
from storage.errors import Mistake

RUN = Path(analysis.__file__).parent / "examples" / "kuhn_league"
POINTS = 7
KEYS = ["player", "league_env_steps"]


@pytest.fixture(scope="module")
def facts():
    """The frames, and of each match the env steps of the league at the end of its stretch."""
    with analysis.open_run(RUN) as history:
        matches, seats = history.matches(), history.seats()
        found = history.curves(POINTS)
        meetings = history.sql("FROM meetings")
        updates = history.updates()
    by_batch = matches.groupby("batch").agg(seq=("seq", "max"), steps=("env_steps", "sum")).sort_values("seq")
    reached = by_batch["steps"].cumsum().to_numpy()
    part = np.ceil(POINTS * reached / reached[-1])
    ends = pd.Series(reached).groupby(part).max()
    stretch = ends.loc[part].to_numpy()

    def placed(frame):
        at = np.searchsorted(by_batch["seq"].to_numpy(), frame["seq"].to_numpy())
        return frame.assign(league_env_steps=stretch[np.minimum(at, len(stretch) - 1)])

    return found, placed(matches), placed(seats), placed(meetings), placed(updates)


def measured(found, measure, keys=KEYS, column="value"):
    return found[found["measure"] == measure].set_index(keys)[column].sort_index().astype(float)


def same(found, expected):
    assert len(found) >= POINTS - 1
    pd.testing.assert_series_equal(
        found, expected.sort_index().astype(float), check_names=False, check_index_type=False, rtol=1e-6
    )


def test_scores_and_lengths_are_means_over_stretches_of_env_steps(facts):
    found, matches, seats, _, _ = facts
    scores = seats[seats["learning"]].rename(columns={"competitor": "player"})
    scores = scores.astype({"player": str, "score": float}).groupby(KEYS)["score"]
    same(measured(found, "score"), scores.mean())
    same(measured(found, "score", column="samples"), scores.count())
    error = 1.96 * scores.sem()
    np.testing.assert_allclose(
        measured(found, "score", column="high"), scores.mean() + error, rtol=1e-3, atol=1e-3
    )
    learned = matches[matches["player"].notna()].astype({"player": str})
    same(measured(found, "length"), learned.groupby(KEYS)["env_steps"].mean())


def test_win_rates_are_by_opponent_and_those_of_seats_by_seat(facts):
    found, _, seats, meetings, _ = facts
    against_bots = meetings[(meetings["home"] == "main-0") & meetings["away"].str.startswith("main-0@")]
    sums = against_bots.groupby("league_env_steps")[["wins", "draws", "games"]].sum()
    rate = (sums["wins"] + sums["draws"] / 2) / sums["games"]
    own = found[(found["player"] == "main-0") & (found["series"] == "snapshots of main-0")]
    same(measured(own, "win_rate", "league_env_steps"), rate)
    points = seats.assign(points=seats["outcome"].astype(str).map({"win": 1.0, "draw": 0.5}).fillna(0.0))
    points = points.astype({"seat": str}).groupby(["seat", "league_env_steps"])["points"].mean()
    same(measured(found, "seat", ["series", "league_env_steps"]), points)


def test_reports_of_learners_are_means_and_ends_are_shares(facts):
    found, matches, _, _, updates = facts
    for measure in curves.REPORTED:
        same(measured(found, measure), updates.astype({"player": str}).groupby(KEYS)[measure].mean())
    assert set(measured(found, "end")) == {1.0}
    assert measured(found, "end", column="samples").sum() == matches["player"].notna().sum()
    bounded = found[found["low"].notna()]
    assert ((bounded["low"] <= bounded["value"] + 1e-9) & (bounded["value"] <= bounded["high"] + 1e-9)).all()


def test_too_few_points_and_too_many_are_refused():
    with analysis.open_run(RUN) as history:
        for points in (1, 1001):
            with pytest.raises(Mistake, match=f"points={points}, expected from 2 to 1000"):
                history.curves(points)
