from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from league.rules.matchmaking.branches import OpponentSettings
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seating import MatchmakingSettings, match_seeds
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, LivePlayer


@pytest.fixture
def it(make):
    """A main with five snapshots."""
    roster = Roster([LivePlayer("main-0", MAIN), *[make.snapshot(f"main-0@{i}") for i in range(5)]])
    return SimpleNamespace(roster=roster, standings=Standings(roster))


def draw(it, n, num_seats=2, seed=0, self_play=0.0, first=0, **settings):
    branches = {"pfsp": {"share": 1.0 - self_play}, "self_play": {"share": self_play}}
    roles = {MAIN: SimpleNamespace(opponents=OpponentSettings(branches=branches))}
    maker = Matchmaker(roles, MatchmakingSettings(**settings), num_seats=num_seats, env="made-up", seed=7)
    rng = np.random.default_rng(seed)
    return maker.next_matches(it.roster["main-0"], n, it.roster, it.standings, rng, first)


def names(batch):
    return np.array(batch.competitors)[batch.seat]


def test_balanced_seats_differ_by_at_most_one_against_every_opponent(it):
    for seed in range(10):
        batch = draw(it, 101, seed=seed)
        home_first = names(batch)[:, 0] == "main-0"
        other = np.where(home_first, names(batch)[:, 1], names(batch)[:, 0])
        for opponent in np.unique(other):
            first = home_first[other == opponent]
            assert abs(2 * int(first.sum()) - len(first)) <= 1
        assert abs(2 * int(home_first.sum()) - 101) == 1


def test_random_seats_are_even_only_on_average(it):
    home_first = names(draw(it, 10_000, seats="random"))[:, 0] == "main-0"
    assert home_first.mean() == pytest.approx(0.5, abs=0.03)
    assert home_first.sum() != 5_000


@pytest.mark.parametrize("seats", ["balanced", "random"])
@pytest.mark.parametrize("teams", [(2, 2), (1, 3), (2, 2, 1), (3,), None])
def test_a_competitor_plays_all_seats_of_its_team(it, teams, seats):
    num_seats = sum(teams) if teams else 4
    batch = draw(it, 300, num_seats, self_play=float(teams == (3,)), teams=teams, seats=seats)
    assert batch.seat.shape == (300, num_seats)
    team = np.repeat(np.arange(len(teams)), teams) if teams else np.arange(4)
    seated, homes = names(batch), np.zeros(team[-1] + 1)
    for row, learning in zip(seated, batch.learning, strict=True):
        by_team = [set(row[team == t]) for t in range(team[-1] + 1)]
        assert all(len(members) == 1 for members in by_team)
        (home,) = (t for t, members in enumerate(by_team) if members == {"main-0"})
        homes[home] += 1
        np.testing.assert_array_equal(learning, team == home)
    assert homes.min() > 0
    assert np.ptp(homes) <= 1 or seats == "random"


def test_in_self_play_both_teams_learn(it):
    batch = draw(it, 50, 4, self_play=1.0, teams=(2, 2))
    assert batch.learning.all()
    assert batch.competitors == ("main-0",)


def test_each_other_seat_of_a_free_for_all_is_a_draw_of_its_own(it):
    batch = draw(it, 20_000, 8, distinct_opponents=10**6)
    others = names(batch)[~batch.learning].reshape(-1, 7)
    assert (np.sort(others, axis=1)[:, 1:] == np.sort(others, axis=1)[:, :-1]).any(axis=1).all()  # 7 of 5
    p = np.unique(others[:, 0], return_counts=True)[1] / 20_000
    assert (others[:, 0] == others[:, 6]).mean() == pytest.approx(float((p**2).sum()), abs=0.02)


@pytest.mark.parametrize("teams", [[2, 2], [1], [3, 1, 1]])
def test_teams_that_do_not_fill_the_seats_are_refused(teams):
    settings = MatchmakingSettings(teams=teams)
    with pytest.raises(ValueError, match="but the game has 3; expected sizes that sum to 3"):
        settings.team_of_seat(3)


def test_a_team_of_nobody_is_refused():
    with pytest.raises(ValidationError, match="greater than 0"):
        MatchmakingSettings(teams=[2, 0])


def test_match_ids_run_on_and_seeds_follow_from_them_alone(it):
    one, two = draw(it, 10, seed=1, first=100), draw(it, 10, seed=2, first=105)
    assert one.match_id.tolist() == list(range(100, 110))
    np.testing.assert_array_equal(one.seed[5:], two.seed[:5])
    assert draw(it, 0).match_id.shape == (0,)


def test_seeds_are_splitmix64_in_63_bits():
    def reference(z):
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    assert reference(0) == 0xE220A8397B1DCDAF  # the published first output of seed 0
    ids = np.array([0, 1, 2, 10**12])
    expected = [reference((reference(5) + i * 0x9E3779B97F4A7C15) % 2**64) >> 1 for i in ids.tolist()]
    assert match_seeds(5, ids).tolist() == expected
    many = match_seeds(-1, np.arange(100_000))
    assert (many >= 0).all()
    assert len(np.unique(many)) == 100_000
