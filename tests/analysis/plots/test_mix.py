"""The match mix over time: shares are of what was played, and add up."""

import numpy as np
import pandas as pd

from analysis import plots
from analysis.plots.mix import OTHER, SPANS, TYPES
from tests.analysis.plots.drawn import texts, words
from tests.analysis.plots.leagues import PLAYERS, league


def panels(figure):
    """For each panel its title and the shares [spans] of each type."""
    found = {}
    for axes in figure.axes:
        shares = {}
        for patch in axes.patches:
            data = patch.get_data()
            shares[patch.get_label()] = data.values - data.baseline
        found[axes.get_title(loc="left").split(":")[0]] = shares
    return found


def test_shares_are_those_of_the_frame_and_sum_to_one_where_anything_was_played():
    of = league(3)["match_mix"]
    drawn = panels(plots.match_mix(of))
    assert set(drawn) == set(PLAYERS)
    for player, shares in drawn.items():
        np.testing.assert_allclose(sum(shares.values()), [1, 0, 1])  # nothing was played in the second minute
        for row in of[of["player"] == player].itertuples():
            np.testing.assert_allclose(shares[row.match_type][row.minute], row.share)


def test_a_long_run_is_counted_in_spans_of_several_minutes():
    minutes = np.arange(1_000)
    frame = pd.DataFrame({"player": "main-0", "purpose": "training", "minute": np.repeat(minutes, 2)})
    frame["match_type"] = np.tile(["pfsp", "self_play"], len(minutes))
    frame["league_env_steps"] = 1_000 * (frame["minute"] + 1)
    frame["matches"] = np.where(frame["match_type"] == "pfsp", frame["minute"] + 1, 500)
    figure = plots.match_mix(frame)
    shares = panels(figure)["main-0"]
    assert len(shares["pfsp"]) <= SPANS
    width = -(-1_000 // SPANS)
    assert f"each {width} minutes" in words(figure, "subtitle")
    expected = sum(range(width + 1, 2 * width + 1))
    np.testing.assert_allclose(shares["pfsp"][1], expected / (expected + 500 * width))


def test_types_beyond_those_with_a_band_count_together():
    frame = pd.DataFrame({"match_type": [f"type-{i:02}" for i in range(20)], "matches": range(100, 120)})
    frame = frame.assign(player="main-0", purpose="training", minute=0, league_env_steps=9)
    shares = panels(plots.match_mix(frame))["main-0"]
    assert len(shares) == TYPES
    np.testing.assert_allclose(shares[OTHER], sum(range(100, 120 - TYPES + 1)) / sum(range(100, 120)))


def test_only_training_counts_and_the_title_says_what_was_learned_from_most():
    of = league(3)["match_mix"]
    training = of[of["purpose"] == "training"]
    most = training.groupby("match_type")["matches"].sum()
    title = words(plots.match_mix(of), "title")
    share = 100 * most.max() / most.sum()
    assert title == f"Players learned most from {most.idxmax()} matches: {share:.0f} % of {most.sum():,}"


def test_speed_is_drawn_over_env_steps_and_a_standstill_has_no_width():
    frame = pd.DataFrame({"league_env_steps": [100, 100, 400], "env_steps_a_second": [50.0, 0.0, 150.0]})
    figure = plots.speed(frame)
    bars = figure.axes[0].patches[0]
    assert bars.get_data().edges.tolist() == [0, 100, 400]
    assert bars.get_data().values.tolist() == [50, 150]
    assert {"env steps a second", "env steps of the league"} <= {text for text, _, _ in texts(figure)}


def test_without_a_match_it_is_a_sentence():
    assert words(plots.speed(pd.DataFrame()), "message").endswith(".")
