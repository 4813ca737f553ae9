"""Orders of small leagues whose strengths are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analysis.statistics.hierarchy.anchors import Anchor
from analysis.statistics.strength.field import Meeting, RunMember, Score
from analysis.statistics.strength.order import order_by_score, order_of
from tests.analysis.simulated_games import ELO


def line(snapshots: int) -> list[RunMember]:
    """A main with its snapshots, the first of them untrained, and the bot `random`."""
    members = [RunMember("main", "player", "main", "main", parent=f"main@{snapshots - 1}", mu=25.0)]
    for i in range(snapshots):
        before = f"main@{i - 1}" if i else None
        own = {"env_steps": i, "untrained": not i, "mu": 25.0 + i}
        members.append(RunMember(f"main@{i}", "snapshot", "main", "main", before, **own))
    return [*members, RunMember("random", "bot", mu=25.0)]


def met(home: str, away: str, ahead: float, games: int = 400, until: str | None = None) -> Meeting:
    """Games in which `home` scores as `ahead` Elo let it."""
    return Meeting(home, away, games, games / (1.0 + math.exp(-ahead / ELO)), until)


def test_a_rising_line_is_ordered_by_strength_above_the_bot_random():
    games = [met(f"main@{i}", f"main@{j}", 100.0 * (i - j)) for i in range(5) for j in range(i)]
    games += [met(f"main@{i}", "random", 100.0 * i + 50.0) for i in range(5)]
    order = order_of(line(5), games)
    snapshots = [place.competitor for place in order.places if place.kind == "snapshot" and not place.apart]
    assert snapshots == ["main@4", "main@3", "main@2", "main@1"]
    assert order.yardstick == "random"
    assert order.best is not None
    assert order.best.elo == pytest.approx(450.0, abs=60.0)
    assert order.best.low < 450.0 < order.best.high
    assert order.best.chance > 0.9


def test_a_snapshot_without_games_is_near_what_it_was_trained_from_and_not_last():
    games = [met(f"main@{i}", f"main@{j}", 60.0 * (i - j)) for i in range(5) for j in range(i)]
    order = order_of(line(6), games)
    new = next(place for place in order.places if place.competitor == "main@5")
    parent = next(place for place in order.places if place.competitor == "main@4")
    assert new.games == 0
    assert order.names.index("main@5") <= 2  # behind the player itself, or the snapshot before, at most
    assert abs(new.elo - parent.elo) < 150.0
    assert new.high - new.low > 1.5 * (parent.high - parent.low)


def test_games_of_the_stage_that_a_snapshot_ended_say_how_strong_it_is():
    games = [met(f"main@{i}", f"main@{j}", 20.0 * (i - j)) for i in range(5) for j in range(i)]
    for ahead, first in ((300.0, "main@5"), (-300.0, "main@4")):
        learning = [met("main", f"main@{i}", ahead - 20.0 * i, until="main@5") for i in range(5)]
        order = order_of(line(6), games + learning)
        assert order.best is not None
        assert (order.best.competitor == "main@5") == (first == "main@5")


def test_players_that_learn_bots_anchors_and_untrained_weights_never_lead_and_are_listed_apart():
    members = line(3)
    games = [met("main@1", name, -200.0) for name in ("main", "random", "main@0", "main@2")]
    order = order_of(members, games, anchors={"main@2": Anchor()})
    assert order.best is not None
    assert order.best.competitor == "main@1"
    assert order.names[0] == "main@1"
    assert {place.competitor for place in order.places[1:]} == {"main", "random", "main@0", "main@2"}
    assert all(place.apart and math.isnan(place.chance) for place in order.places[1:])


def test_given_ratings_are_the_scale_of_a_run_and_those_without_games_say_nothing():
    games = [met("main@0", "random", 200.0), met("main@1", "main@0", 300.0), met("main@1", "random", 500.0)]
    given = {"random": Anchor(1000.0), "main@0": Anchor(1200.0, 20.0), "main@2": Anchor(0.0)}
    order = order_of(line(3), games, anchors=given)
    assert order.yardstick == "the zero of random (1000), main@0 (1200+-20)"
    found = {place.competitor: place for place in order.places}
    assert found["main@1"].elo == pytest.approx(1500.0, abs=40.0)
    assert (found["random"].elo, found["random"].low) == pytest.approx((1000.0, 1000.0))
    assert found["main@0"].low < 1200.0 < found["main@0"].high
    assert order_of(line(3), games, anchors={"random": Anchor()}).yardstick == "random"


def test_before_anything_was_trained_nothing_is_best():
    order = order_of(line(1), [met("main@0", "random", 10.0)])
    assert order.best is None
    assert all(place.apart for place in order.places)


def test_without_any_game_the_newest_is_first():
    order = order_of(line(4), [])
    assert order.best is not None
    assert order.best.competitor == "main@3"
    assert order.names[:3] == ["main@3", "main@2", "main@1"]
    assert math.isnan(order.best.elo)
    assert order.level() == []


def test_a_million_games_of_one_pairing_say_no_more_than_a_pairing_can():
    """Play is not transitive: one opponent that a snapshot beats by luck of style does not make it best."""
    games = [met(f"main@{i}", f"main@{j}", 0.0, 2_000) for i in range(2, 6) for j in range(1, i)]
    order = order_of(
        line(6), [*games, met("main@5", "random", 300.0, 1_000_000), met("main@4", "random", 280.0, 200)]
    )
    assert order.best is not None
    assert len(order.level()) == 5  # main@0 too, which has not played
    assert order.best.chance < 0.8


def test_the_same_facts_give_the_same_order():
    games = [met(f"main@{i}", f"main@{j}", 30.0 * (i - j), 20) for i in range(5) for j in range(i)]
    assert order_of(line(5), games).places == order_of(line(5), games).places


def test_snapshots_of_a_long_run_that_are_not_estimated_are_placed_by_their_ratings():
    games = [met(f"main@{i}", f"main@{i - 1}", 10.0, 100) for i in range(1, 120)]
    order = order_of(line(120), games)
    assert len(order.names) == 122
    estimated = [place for place in order.places if not math.isnan(place.chance)]
    assert len(estimated) < 100
    assert all(not math.isnan(place.elo) for place in order.places)


def test_ahead_is_the_difference_of_two_and_nothing_of_the_unknown():
    order = order_of(line(3), [met("main@2", "main@1", 100.0, 4_000)])
    ahead = order.ahead("main@2", "main@1")
    assert ahead is not None
    assert ahead.low < 100.0 < ahead.high
    assert order.ahead("main@2", "nothing") is None


def test_a_game_for_one_is_ordered_by_mean_scores():
    scores = [Score("main", 400, float(i), 1.0, f"main@{i}" if i < 3 else None) for i in range(1, 4)]
    order = order_by_score(line(3), scores)
    assert order.best is not None
    assert (order.best.competitor, order.best.elo) == ("main@2", pytest.approx(2.0, abs=0.2))
    assert order.unit == "score"
    assert order.best.chance > 0.99


def test_four_at_a_table_tell_less_than_as_many_games_of_two():
    games = [met(f"main@{i}", f"main@{j}", 50.0 * (i - j), 60) for i in range(4) for j in range(i)]
    two, four = (order_of(line(4), games, teams=teams) for teams in (2, 4))
    width = [np.subtract(order.places[1].high, order.places[1].low) for order in (two, four)]
    assert width[1] > width[0]
    assert [place.games for place in four.places] == [place.games for place in two.places]


def test_a_snapshot_maybe_weaker_than_its_untrained_weights_is_not_surely_the_best():
    games = [met(name, "random", 0.0, games=100) for name in ("main@0", "main@1")]
    order = order_of(line(2), games)
    assert order.best is not None
    assert order.best.competitor == "main@1"
    assert order.best.chance < 0.8
    assert order.level() == ["main@0"]


def test_nothing_is_stated_of_the_only_snapshot_that_is_known():
    order = order_by_score(line(2), [Score("main", 100, 0.5, 0.1, "main@1")])
    assert order.best is not None
    assert order.best.competitor == "main@1"
    assert np.isnan(order.best.chance)
