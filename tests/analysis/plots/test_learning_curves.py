"""Learning curves: scores, win rates, ends of matches and seats, reports of learners."""

import numpy as np
import pandas as pd
import pytest

from analysis import plots
from tests.analysis.plots.drawn import labelled, texts, words
from tests.analysis.plots.leagues import BOTS, PLAYERS, curves_of


@pytest.fixture(scope="module")
def curves():
    return curves_of(np.random.default_rng(0), points=12)


def rows_of(curves, measure, player, series=None):
    found = curves[(curves["measure"] == measure) & (curves["player"] == player)]
    return found if series is None else found[found["series"] == series]


def test_each_player_has_a_line_through_its_mean_scores_and_one_through_the_lengths(curves):
    figure = plots.scores(curves)
    for measure, label in (("score", "score per match"), ("length", "env steps per match")):
        for player in PLAYERS:
            (line,) = labelled(figure, f"{label}: {player}")
            own = rows_of(curves, measure, player)
            np.testing.assert_allclose(line.get_xdata(), own["league_env_steps"])
            np.testing.assert_allclose(line.get_ydata(), own["value"])
    assert words(figure, "title").startswith("main-0 scored ")
    assert "env steps of the league" in [text for text, _, _ in texts(figure)]


def test_win_rates_have_a_panel_for_each_player_and_a_line_for_each_opponent(curves):
    figure = plots.win_rates(curves)
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(PLAYERS)
    for place, player in enumerate(PLAYERS):
        for bot in BOTS:
            line = labelled(figure, f"points per game: {bot}")[place]
            np.testing.assert_allclose(line.get_ydata(), rows_of(curves, "win_rate", player, bot)["value"])


def test_ends_are_shares_of_the_matches_of_all_players(curves):
    frame = curves[curves["measure"] == "end"].iloc[:0]
    rows = [("main-0", "finished", 1.0, 300), ("main-1", "finished", 0.5, 100), ("main-1", "crash", 0.5, 100)]
    frame = pd.DataFrame(
        [{"measure": "end", "player": p, "series": r, "value": v, "samples": n} for p, r, v, n in rows]
    ).assign(run="planted", league_env_steps=100, minutes=1.0, low=np.nan, high=np.nan)
    figure = plots.ends(frame)
    (finished,), (crash,) = (labelled(figure, f"share of matches: {r}") for r in ("finished", "crash"))
    assert finished.get_ydata() == pytest.approx([350 / 400])
    assert crash.get_ydata() == pytest.approx([50 / 400])
    assert words(figure, "title") == "88 % of the last matches were finished"
    assert len(figure.axes) == 1  # the game has one seat


def test_a_player_has_one_colour_in_all_figures(curves):
    scored, learned = plots.scores(curves), plots.learning(curves)
    for player in PLAYERS:
        (one,), (other,) = (
            labelled(scored, f"score per match: {player}"),
            labelled(learned, f"lag, updates: {player}"),
        )
        assert one.get_color() == other.get_color()


def test_a_player_has_the_colour_of_its_role_and_an_opponent_one_in_all_panels(curves):
    colours = {"main": "#0072b2", "main_exploiter": "#d55e00", "league_exploiter": "#009e73"}
    times = curves["player"].map({player: 10**place for place, player in enumerate(PLAYERS)}).fillna(1)
    least_first = curves.assign(samples=curves["samples"] * times)  # the last player comes first
    figure = plots.scores(least_first, roles=PLAYERS)
    for player, role in PLAYERS.items():
        (line,) = labelled(figure, f"score per match: {player}")
        assert line.get_color() == colours[role]
    first = next(iter(PLAYERS))
    panels = plots.win_rates(curves[(curves["player"] != first) | (curves["series"] != "random")]).axes
    of_panel = [{line.get_label(): line.get_color() for line in axes.get_lines()} for axes in panels]
    assert set(of_panel[0]) != set(of_panel[1])
    for name in set(of_panel[0]) & set(of_panel[1]):
        assert of_panel[0][name] == of_panel[1][name]
    assert all(len(set(own.values())) == len(own) for own in of_panel)


def test_the_axis_of_shares_of_ends_is_whole(curves):
    low, high = plots.ends(curves).axes[0].get_ylim()
    assert low <= 0.0
    assert high >= 1.0


def test_seats_of_one_team_are_one_line(curves):
    own = curves[curves["measure"] == "seat"]
    partners = own.assign(series=own["series"].map({"0": "2", "1": "3"}))
    figure = plots.ends(pd.concat([curves, partners]))
    shown = [line.get_label() for line in figure.axes[1].get_lines()]
    assert sorted(shown) == ["points per game: seats 0, 2", "points per game: seats 1, 3"]


def test_over_time_the_axis_has_minutes_or_hours(curves):
    def axis(frame):
        return plots.learning(frame, "time").axes[-1].get_xlabel()

    assert axis(curves) == "minutes since the first match"
    longer = curves.assign(minutes=curves["minutes"] * 10)
    assert axis(longer) == "hours since the first match"
    (line,) = labelled(plots.scores(longer, "time"), "score per match: main-0")
    np.testing.assert_allclose(line.get_xdata(), rows_of(longer, "score", "main-0")["minutes"] / 60)


def strengths_of(*rows):
    """A frame of `History.strengths` of one run: (snapshot, player, role, env steps, strength) each."""
    frame = pd.DataFrame(rows, columns=["snapshot_id", "player", "role", "league_env_steps", "strength"])
    return frame.assign(
        run="a",
        minutes=frame["league_env_steps"] / 60.0,
        low=frame["strength"] - 40.0,
        high=frame["strength"] + 40.0,
        unit="Elo",
        yardstick="random",
        main=frame["role"] == "main",
    )


def test_strength_without_a_yardstick_is_above_the_mean():
    frame = strengths_of(("main-0@0", "main-0", "main", 0, 0.0), ("main-0@9", "main-0", "main", 900, 210.0))
    assert "Elo above the mean of all." in words(plots.strengths(frame.assign(yardstick=None)), "subtitle")


def test_strength_of_mains_is_a_line_of_exploiters_points_and_of_bots_a_level():
    frame = strengths_of(
        ("main-0@0", "main-0", "main", 0, 0.0),
        ("main-0@9", "main-0", "main", 900, 210.0),
        ("main_exploiter-0@5", "main_exploiter-0", "main_exploiter", 500, 90.0),
        ("one_ply", None, None, 0, 300.0),
    )
    figure = plots.strengths(frame)
    assert words(figure, "title") == "main-0 went from +0 to +210 Elo"
    (line,) = labelled(figure, "strength, Elo: main-0")
    assert list(line.get_ydata()) == [0.0, 210.0]
    alone = [line for line in figure.axes[0].lines if line.get_marker() == "^"]
    assert [list(line.get_xydata()[0]) for line in alone] == [[500.0, 90.0]]
    assert "one_ply" in [text.get_text() for text in figure.axes[0].texts]
    assert figure.axes[0].get_ylim()[1] > 300.0
    assert "snapshots of main exploiter" in [text for text, _, _ in texts(figure)]
