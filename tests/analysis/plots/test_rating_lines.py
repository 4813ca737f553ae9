"""The plot of ratings: every number drawn is one that was recorded."""

import numpy as np
import pytest

from analysis import plots
from analysis.plots.names import short_names
from analysis.plots.rating_lines import POINTS, last_of_spans
from tests.analysis.plots.drawn import labelled, words
from tests.analysis.plots.leagues import BOTS, PLAYERS, league


def test_a_players_line_passes_through_what_was_recorded_and_ends_at_the_last():
    of = league(12)
    figure = plots.ratings(of["ratings"], of["leaderboard"])
    for player in PLAYERS:
        (line,) = labelled(figure, f"player {player}")
        x, mu = line.get_data()
        recorded = of["ratings"][of["ratings"]["competitor"] == player].set_index("league_env_steps")["mu"]
        assert 2 < len(x) <= POINTS + 1 < len(recorded)
        np.testing.assert_array_equal(mu, recorded[x])
        assert (x[0], x[-1]) == (recorded.index[0], recorded.index[-1])


@pytest.mark.slow
def test_snapshots_stand_where_they_were_frozen_at_the_rating_they_have_now():
    of = league(30)
    figure = plots.ratings(of["ratings"], of["leaderboard"])
    now = of["leaderboard"].set_index("competitor")["mu"]
    for role, frozen in of["snapshots"].groupby("role"):
        (points,) = labelled(figure, f"snapshots {role}")
        drawn = sorted(zip(*points.get_data(), strict=True))
        expected = zip(frozen["league_env_steps"], now[frozen["snapshot_id"]], strict=True)
        np.testing.assert_allclose(drawn, sorted(expected))


def test_bots_are_dashed_lines_at_their_rating():
    of = league(12)
    figure = plots.ratings(of["ratings"], of["leaderboard"])
    for bot, mu in BOTS.items():
        (line,) = labelled(figure, f"bot {bot}")
        assert set(line.get_ydata()) == {mu}
        assert line.is_dashed()


def test_the_title_names_the_best_of_the_leaderboard():
    of = league(12)
    best = of["leaderboard"].iloc[0]
    title = words(plots.ratings(of["ratings"], of["leaderboard"]), "title")
    (shown,) = short_names([best["competitor"]]).values()
    assert title.startswith(f"{shown} is rated best: μ = {best['mu']:.1f}")


def test_the_title_of_a_board_by_strength_says_that_the_points_are_trueskills():
    of = league(12)
    board = of["leaderboard"].assign(p_best=np.nan)
    board.loc[3, "p_best"] = 0.63
    title = words(plots.ratings(of["ratings"], board), "title")
    (shown,) = short_names([board["competitor"][3]]).values()
    assert title == f"{shown} is rated best by all games (0.63); TrueSkill's ratings are below"


def test_where_nobody_has_played_a_game_nobody_is_called_the_best():
    of = league(12)
    board = of["leaderboard"].assign(games=0)
    assert words(plots.ratings(of["ratings"], board), "title") == "No competitor is rated yet"
    assert "best" not in words(plots.lineage_tree(of["snapshots"], board), "title")


def test_a_newcomers_doubt_does_not_press_everybody_elses_ratings_together():
    of = league(12)
    heights = {}
    for sigma in (0.8, 25.0):
        board = of["leaderboard"].copy()
        board.loc[board["competitor"] == of["snapshots"]["snapshot_id"].iloc[-1], "sigma"] = sigma
        low, high = plots.ratings(of["ratings"], board).axes[0].get_ylim()
        heights[sigma] = high - low
    assert heights[25.0] < 1.01 * heights[0.8]


def test_of_each_span_the_last_is_kept():
    x = np.array([0.0, 1.0, 2.0, 9.0, 11.0, 50.0, 99.0, 100.0])
    assert last_of_spans(x, 10).tolist() == [0, 3, 4, 5, 7]
    assert last_of_spans(np.array([7.0, 7.0]), 10).tolist() == [0, 1]
    assert last_of_spans(np.zeros(0), 10).tolist() == []
