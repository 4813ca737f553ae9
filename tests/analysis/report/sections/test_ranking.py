"""The page of a tournament has the order and the names of the ranking that the command prints."""

import dataclasses

import numpy as np
import pytest

from analysis.history.history import History
from analysis.report.sections.leaderboard import leaderboard
from analysis.report.story import Story
from analysis.tournaments.tournament import verdict
from analysis.tournaments.wording import rows
from tests.analysis.played_tournaments import bot, round_robin, snapshot, snapshots, store


@pytest.mark.slow
def test_a_page_orders_and_names_as_the_command_does_also_with_a_second_run(tmp_path):
    other = dataclasses.replace(snapshot("main-0@7"), run="runs/other", competitor="other/main-0@7")
    field = [*snapshots(3), other, bot("random")]
    elo = {"main-0@0": 300.0, "main-0@1": 0.0, "main-0@2": -100.0, "other/main-0@7": 150.0, "random": -300.0}
    cup = store(tmp_path / "cup", field, [round_robin(elo, 10, np.random.default_rng(1))])
    printed = [row[1] for row in rows(verdict(cup))]
    assert set(printed) == {
        "connect_four/main-0@0",
        "connect_four/main-0@1",
        "connect_four/main-0@2",
        "other/main-0@7",
        "random",
    }
    with History(cup) as history:
        story = Story(history)
        html = leaderboard(story).html
        assert story.leaderboard["competitor"].tolist() == printed
        assert set(story.payoff["home"]) | set(story.ratings["competitor"]) == set(printed)
    places = [html.index(f">{name}<") for name in printed]
    assert places == sorted(places)
