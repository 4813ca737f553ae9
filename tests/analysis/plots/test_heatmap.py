"""The payoff heatmap: a cell's colour is its win rate's, and its place is its competitors'."""

import numpy as np
import pytest

from analysis import plots
from analysis.plots.heatmap import CELLS, blocks
from analysis.plots.style import WIN_RATES
from tests.analysis.plots.drawn import labelled, words
from tests.analysis.plots.leagues import board_of, league, payoff_of


def cells(figure):
    """The colours [rows, columns, 4] of the cells, in [0, 1]."""
    (image,) = labelled(figure, "cells")
    return np.asarray(image.get_array()) / 255


@pytest.mark.slow
def test_each_cell_has_the_colour_of_its_win_rate_and_unmet_pairings_have_none():
    of = league(40)
    colors = cells(plots.payoff_heatmap(of["payoff"], of["leaderboard"]))
    place = {name: i for i, name in enumerate(of["leaderboard"]["competitor"])}
    assert len(colors) == len(place)
    met = np.zeros(colors.shape[:2], dtype=bool)
    for row in of["payoff"].itertuples():
        here = place[row.home], place[row.away]
        met[here] = True
        np.testing.assert_allclose(colors[here], WIN_RATES(row.win_rate), atol=0.5 / 255 + 1e-9)
    assert (colors[~met][:, 3] == 0).all()
    assert (colors[met][:, 3] == 1).all()


def test_few_competitors_have_their_numbers_in_the_cells():
    names = ["a", "b", "c"]
    score = np.array([[0.5, 0.75, 0.9], [0.25, 0.5, 1.0], [0.1, 0.0, 0.5]])
    figure = plots.payoff_heatmap(payoff_of(names, score), board_of(names))
    drawn = {text.get_position()[::-1]: text.get_text() for text in labelled(figure, "cell")}
    assert drawn == {(0, 1): "75", (0, 2): "90", (1, 0): "25", (1, 2): "100", (2, 0): "10", (2, 1): "0"}


def test_the_title_names_the_hardest_opponent_of_the_best_rated():
    names = ["a", "b", "c"]
    score = np.array([[0.5, 0.75, 0.4], [0.25, 0.5, 1.0], [0.6, 0.0, 0.5]])
    title = words(plots.payoff_heatmap(payoff_of(names, score), board_of(names)), "title")
    assert title == "a is ahead of 1 of its 2 opponents; hardest: c, 40.0 % in 100 games"


def test_clusters_stand_together_the_strongest_first():
    # Two rings of rock, paper and scissors, everybody of the first beating everybody of the second.
    names = ["r2", "r1", "p1", "p2", "s2", "s1"]
    ring = {"r": "s", "s": "p", "p": "r"}

    def score(one, other):
        if one[1] != other[1]:
            return 0.95 if one[1] < other[1] else 0.05
        return 0.5 if one == other else 0.9 if ring[one[0]] == other[0] else 0.1

    matrix = np.array([[score(one, other) for other in names] for one in names])
    figure = plots.payoff_heatmap(payoff_of(names, matrix), board_of(names), "nash_cluster")
    labels = [text.get_text().split()[-1] for text in labelled(figure, "row")]
    assert {name[1] for name in labels[:3]} == {"1"}
    assert {name[1] for name in labels[3:]} == {"2"}
    edges = {line.get_ydata()[0] for line in labelled(figure, "cluster") if line.get_ydata()[0] > 1}
    assert edges == {2.5}
    assert "3 competitors form the first Nash cluster" in words(figure, "title")
    assert "2 Nash clusters" in words(figure, "subtitle")


@pytest.mark.long
def test_a_cell_of_a_large_league_is_the_mean_of_the_pairings_that_were_played():
    of = league(420)
    figure = plots.payoff_heatmap(of["payoff"], of["leaderboard"])
    names = of["leaderboard"]["competitor"].tolist()
    block = -(-len(names) // CELLS)
    assert f"mean over {block} × {block} neighbours" in words(figure, "subtitle")
    rows = of["payoff"].assign(
        row=of["payoff"]["home"].map(names.index) // block,
        column=of["payoff"]["away"].map(names.index) // block,
    )
    colors = cells(figure)
    assert len(colors) <= CELLS
    for (row, column), rate in rows.groupby(["row", "column"])["win_rate"].mean().items():
        np.testing.assert_allclose(colors[row, column], WIN_RATES(rate), atol=0.05)


def test_a_sample_has_the_best_and_of_each_stretch_of_the_order_the_one_with_most_games():
    names = [f"p{i}" for i in range(9)]
    payoff = payoff_of(names, np.full((9, 9), 0.5))
    payoff.loc[payoff["home"].isin(["p4", "p8"]), "games"] = 300
    figure = plots.payoff_heatmap(payoff, board_of(names), most=3)
    rows = [text.get_text().split() for text in labelled(figure, "row")]
    assert rows == [["1", "p0"], ["5", "p4"], ["9", "p8"]]
    assert "3 of 9 competitors" in words(figure, "subtitle")


@pytest.mark.parametrize(("count", "block"), [(7, 3), (6, 2), (5, 1)])
def test_blocks_are_means_over_the_cells_that_there_are(count, block):
    rng = np.random.default_rng(0)
    score = np.where(rng.random((count, count)) < 0.4, np.nan, rng.random((count, count)))
    np.fill_diagonal(score, np.nan)
    found = blocks(score, block)
    for i, j in np.ndindex(found.shape):
        part = score[i * block : (i + 1) * block, j * block : (j + 1) * block]
        expected = np.nanmean(part) if np.isfinite(part).any() else np.nan
        np.testing.assert_allclose(found[i, j], expected)


def test_games_against_oneself_are_no_payoff():
    payoff = payoff_of(["a", "b"], np.full((2, 2), 0.5)).assign(home="a", away="a")
    for draw in (plots.payoff_heatmap, plots.response_graph, plots.cyclic_plane):
        assert words(draw(payoff, board_of(["a"])), "message")


def test_where_games_count_scores_cells_show_leads_the_largest_in_the_last_colour():
    names = ["a", "b", "c"]
    lead = np.array([[0.0, 0.5, -2.0], [-0.5, 0.0, 1.25], [2.0, -1.25, 0.0]])
    payoff = payoff_of(names, (np.sign(lead) + 1) / 2)
    index = {name: i for i, name in enumerate(names)}
    leads = [lead[index[h], index[a]] for h, a in zip(payoff["home"], payoff["away"], strict=True)]
    figure = plots.payoff_heatmap(payoff.assign(unit="score", lead=leads), board_of(names))
    drawn = {text.get_position()[::-1]: text.get_text() for text in labelled(figure, "cell")}
    assert drawn[0, 1] == "+0.5"
    assert drawn[0, 2] == "-2"
    np.testing.assert_allclose(cells(figure)[0, 2], WIN_RATES(0.0), atol=0.5 / 255 + 1e-9)
    np.testing.assert_allclose(cells(figure)[0, 1], WIN_RATES(0.625), atol=0.5 / 255 + 1e-9)
    assert "Lead in score per game" in words(figure, "subtitle")
    assert "-2 per game" in words(figure, "title")
