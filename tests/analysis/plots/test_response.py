"""The response graph: arrows to worst opponents, and where they lead."""

import numpy as np

from analysis import plots
from analysis.plots.response import NODES
from tests.analysis.plots.drawn import labelled, words
from tests.analysis.plots.leagues import board_of, payoff_of

RING = np.array([[0.5, 0.8, 0.3], [0.2, 0.5, 0.9], [0.7, 0.1, 0.5]])


def arrows(figure):
    """(start, end, is it part of a circle) of each, nodes numbered as they are drawn."""
    drawn = [artist for artist in figure.axes[0].texts if artist.get_label().startswith("arrow")]
    return {
        (*map(int, artist.get_label().split()[1:]), artist.arrow_patch.get_edgecolor()[0] > 0.5)
        for artist in drawn
    }


def shares(figure):
    return [text.get_text() for text in labelled(figure, "share")]


def test_rock_paper_and_scissors_are_one_circle_of_equal_shares():
    names = ["rock", "scissors", "paper"]
    figure = plots.response_graph(
        payoff_of(names, np.where(RING == 0.5, 0.5, (RING > 0.5) * 1.0)), board_of(names)
    )
    assert arrows(figure) == {(0, 2, True), (1, 0, True), (2, 1, True)}
    assert shares(figure) == ["33 %"] * 3
    assert words(figure, "title").startswith("Worst opponents lead into a cycle of 3: rock, ")


def test_an_order_leads_to_its_best():
    names = list("abcde")
    strength = np.array([2.0, 1.5, 1.0, 0.5, 0.0])
    score = 1 / (1 + np.exp(-(strength[:, None] - strength)))
    figure = plots.response_graph(payoff_of(names, score), board_of(names))
    assert arrows(figure) == {(start, 0, False) for start in range(1, 5)}
    assert words(figure, "title") == "Worst opponents lead to a, which loses to no other"
    assert shares(figure)[0] == "100 %"


def test_those_below_a_circle_lead_into_it_and_are_no_part_of_it():
    names = ["rock", "scissors", "paper", "loser"]
    score = np.full((4, 4), 0.5)
    score[:3, :3] = RING
    score[3, :3], score[:3, 3] = (0.05, 0.02, 0.04), (0.95, 0.98, 0.96)
    found = arrows(plots.response_graph(payoff_of(names, score), board_of(names)))
    assert found == {(0, 2, True), (1, 0, True), (2, 1, True), (3, 1, False)}


def test_one_lost_game_is_no_reason_for_fear_while_many_are():
    names = ["a", "b", "c"]
    score = np.array([[0.5, 0.0, 0.2], [1.0, 0.5, 0.5], [0.8, 0.5, 0.5]])
    payoff = payoff_of(names, score)
    between = payoff["home"].isin(["a", "b"]) & payoff["away"].isin(["a", "b"])
    payoff.loc[between, "games"] = 1
    assert (0, 2, False) in arrows(plots.response_graph(payoff, board_of(names)))


def test_beyond_so_many_nodes_the_others_are_one_and_shares_still_sum_to_one():
    count = 60
    names = [f"p{place:02}" for place in range(count)]
    angle = 2 * np.pi * np.arange(count) / count
    score = 0.5 + 0.4 * np.sin(angle[None] - angle[:, None])
    figure = plots.response_graph(payoff_of(names, score), board_of(names))
    nodes = [patch for patch in figure.axes[0].patches if patch.get_label().startswith("node")]
    assert len(nodes) == NODES + 1
    assert nodes[-1].get_label() == f"node {count - NODES} others"
    assert f"{count - NODES} others" in words(figure, "subtitle")
    total = sum(float(text.strip("< %")) for text in shares(figure))
    assert abs(total - 100) <= NODES
