"""The lineage tree: its lines are the parents that were recorded, no more and no fewer."""

import itertools

import numpy as np
import pytest

from analysis import plots
from tests.analysis.plots.drawn import labelled, segments, words
from tests.analysis.plots.leagues import PLAYERS, league


def drawn_edges(figure, players):
    """Every line as (x of the parent, its lane's player, x of the child, its lane's player)."""
    lanes = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    edges = []
    for player in players:
        for kind in ("next", "reset", "over"):
            for line in labelled(figure, f"{kind} {player}"):
                for piece in segments(line):
                    (x, y), (to_x, to_y) = piece[0], piece[-1]
                    edges.append((x, lanes[round(y)], to_x, lanes[round(to_y)]))
    return edges


@pytest.mark.parametrize("size", [3, 60, 400])
def test_lines_lead_from_every_parent_to_its_snapshots(size):
    of = league(size)
    figure = plots.lineage_tree(of["snapshots"], of["leaderboard"])
    by_name = of["snapshots"].set_index("snapshot_id")
    expected = [
        (
            by_name.at[row.parent_id, "league_env_steps"],
            by_name.at[row.parent_id, "player"],
            row.league_env_steps,
            row.player,
        )
        for row in of["snapshots"].itertuples()
        if isinstance(row.parent_id, str)
    ]
    assert sorted(drawn_edges(figure, PLAYERS)) == sorted(expected)


def test_diamonds_are_the_snapshots_not_trained_on_from_their_players_one_before():
    of = league(60)
    snapshots = of["snapshots"]
    before = snapshots.groupby("player")["snapshot_id"].shift()
    resets = snapshots[before.notna() & (snapshots["parent_id"] != before)]
    figure = plots.lineage_tree(snapshots, of["leaderboard"])
    diamonds = [
        x
        for color in range(-1, 20)
        for points in labelled(figure, f"snapshots reset {color}")
        for x in points.get_xdata()
    ]
    assert sorted(diamonds) == sorted(resets["league_env_steps"])
    assert f", {len(resets)} after a reset" in words(figure, "title")


def test_colours_follow_ratings():
    of = league(60)
    figure = plots.lineage_tree(of["snapshots"], of["leaderboard"])
    frozen = of["snapshots"].set_index("league_env_steps").sort_index()
    mu = of["leaderboard"].set_index("competitor")["mu"]
    ranges = []
    for color in range(20):
        steps = [
            x
            for k in ("next", "reset")
            for p in labelled(figure, f"snapshots {k} {color}")
            for x in p.get_xdata()
        ]
        seen = mu[[frozen.at[step, "snapshot_id"] for step in steps if step > 0]]
        if len(seen):
            ranges.append((seen.min(), seen.max()))
    assert len(ranges) > 4
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ranges))


def test_snapshots_whose_parents_are_gone_are_roots():
    of = league(60)
    kept = of["snapshots"].iloc[20:].reset_index(drop=True)
    figure = plots.lineage_tree(kept, of["leaderboard"])
    expected = kept["parent_id"].isin(kept["snapshot_id"]).sum()
    assert len(drawn_edges(figure, PLAYERS)) == expected
    assert np.isfinite(expected)
