from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chisquare

from league.rules.matchmaking.branches import OpponentSettings
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.presets import LeagueSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, LivePlayer

PAPER = LeagueSettings().resolve()
ROLE_OF = {"main-0": MAIN, "main-1": MAIN, "x-0": MAIN_EXPLOITER, "l-0": LEAGUE_EXPLOITER}
IID = MatchmakingSettings(distinct_opponents=1_000_000)  # every seat a draw of its own


def league(make, *, snapshots=True, players=("main-0", "x-0", "l-0")):
    """Live players and five snapshots of each, which the players beat at rates from low to high."""
    roster = Roster([LivePlayer(name, ROLE_OF[name]) for name in players])
    standings = Standings(roster)
    for name in players if snapshots else ():
        for i in range(5):
            new = make.snapshot(f"{name}@{i}", player=name, role=ROLE_OF[name], env_steps=i)
            roster.admit(new)
            standings.on_admit(new, None)
            standings.ratings.mu[-1] = 35.0 - 6.0 * i
    return SimpleNamespace(roster=roster, standings=standings)


def matchmaker(role_settings=PAPER, settings=IID, num_seats=2):
    return Matchmaker(role_settings, settings, num_seats=num_seats, env="made-up", seed=7)


def draw(it, player, n, seed=0, maker=None, first=0):
    rng = np.random.default_rng(seed)
    maker = maker or matchmaker()
    return maker.next_matches(it.roster[player], n, it.roster, it.standings, rng, first)


def of_type(batch, branch):
    return batch.match_type == batch.match_types.index(branch)


def opponents(batch, player, mine):
    """How often each competitor sits beside the player in these matches."""
    names = np.array(batch.competitors)[batch.seat[mine]]
    found, counts = np.unique(names[names != player], return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def assert_drawn_by(batch, player, branch, expected):
    """Chi-square of a branch's opponents against exact probabilities by id."""
    counts = opponents(batch, player, of_type(batch, branch))
    assert set(counts) <= {name for name, p in expected.items() if p > 0}
    total = sum(counts.values())
    observed = [counts.get(name, 0) for name in expected]
    assert chisquare(observed, [p * total for p in expected.values()]).pvalue > 0.001


def weighted(it, player, names, f):
    p = it.standings.win_rate(it.roster.index(player), it.roster.indices(names), 10.0)
    weights = f(p)
    return dict(zip(names, weights / weights.sum(), strict=True))


def with_only(role, **branches):
    opponents = OpponentSettings(branches=branches, prior_strength=10.0)
    return {role: SimpleNamespace(opponents=opponents)}


def test_a_main_exploiter_leaves_a_main_that_is_too_strong(make):
    it = league(make, players=("main-0", "main-1", "x-0"))
    home, mains = it.roster.index("x-0"), it.roster.mains()
    it.standings.ratings.mu[0] = 60.0
    below = it.standings.win_rate(home, mains, 10.0) < 0.2
    assert below.tolist() == [True, False]
    batch = draw(it, "x-0", 4_000)
    assert opponents(batch, "x-0", of_type(batch, "current_main")).keys() == {"main-1"}
    assert of_type(batch, "past_main").mean() == pytest.approx(0.75, abs=0.03)


def test_without_snapshots_even_a_hopeless_exploiter_plays_the_current_main(make):
    it = league(make, snapshots=False)
    it.standings.ratings.mu[0] = 90.0
    assert of_type(draw(it, "x-0", 50), "current_main").all()


def test_retired_snapshots_are_not_drawn(make):
    it = league(make)
    for name in [n for n in it.roster.ids if "@" in n and n != "x-0@3"]:
        it.roster.retire(name)
    batch = draw(it, "l-0", 100)
    assert set(batch.competitors) == {"l-0", "x-0@3"}


def test_self_play_teaches_both_seats_and_other_matches_only_the_player(make):
    batch = draw(league(make), "main-0", 500)
    alone = of_type(batch, "self_play")
    mine = np.array(batch.competitors)[batch.seat] == "main-0"
    assert batch.learning[alone].all()
    assert mine[alone].all()
    np.testing.assert_array_equal(batch.learning[~alone], mine[~alone])
    assert (batch.learning[~alone].sum(axis=1) == 1).all()


def test_a_request_seats_few_snapshots_and_deals_them_evenly(make):
    it = league(make)
    batch = draw(it, "l-0", 512, maker=matchmaker(settings=MatchmakingSettings(distinct_opponents=4)))
    counts = opponents(batch, "l-0", of_type(batch, "pfsp"))
    assert len(counts) <= 4
    assert all(count % 128 == 0 for count in counts.values())
    for seed in range(20):
        batch = draw(it, "main-0", 300, seed, matchmaker(settings=MatchmakingSettings(distinct_opponents=3)))
        assert len([c for c in batch.competitors if "@" in c]) <= 3


@pytest.mark.long
def test_blocks_leave_the_marginal_of_every_match_exact(make):
    it = league(make)
    names = [name for name in it.roster.ids if "@" in name]
    maker, rng = matchmaker(settings=MatchmakingSettings(distinct_opponents=3)), np.random.default_rng(5)
    counts = dict.fromkeys(names, 0)
    for _ in range(3_000):
        batch = maker.next_matches(it.roster["l-0"], 7, it.roster, it.standings, rng, 0)
        (name,) = {seat.competitor for seat in batch[6].seats} - {"l-0"}
        counts[name] += 1
    expected = weighted(it, "l-0", names, lambda p: (1 - p) ** 2)
    assert chisquare(list(counts.values()), [3_000 * p for p in expected.values()]).pvalue > 0.001


def test_more_than_two_seats_are_filled_by_independent_draws(make):
    it = league(make)
    batch = draw(it, "l-0", 20_000, maker=matchmaker(num_seats=3))
    names = [name for name in it.roster.ids if "@" in name]
    expected = weighted(it, "l-0", names, lambda p: (1 - p) ** 2)
    assert_drawn_by(batch, "l-0", "pfsp", expected)
    assert (batch.learning.sum(axis=1) == 1).all()
    others = np.array(batch.competitors)[batch.seat[~batch.learning].reshape(-1, 2)]
    twice = (others[:, 0] == others[:, 1]).mean()
    assert twice == pytest.approx(sum(p**2 for p in expected.values()), abs=0.02)
    assert np.ptp(np.bincount(np.nonzero(batch.learning)[1])) <= 1


def test_the_same_generator_draws_the_same_matches(make):
    it = league(make)
    one, two, other = draw(it, "main-0", 64, 1), draw(it, "main-0", 64, 1), draw(it, "main-0", 64, 2)
    assert one.competitors == two.competitors
    np.testing.assert_array_equal(one.seat, two.seat)
    assert one.seat.tolist() != other.seat.tolist() or one.competitors != other.competitors


def test_a_branch_beside_the_preset_and_a_weighting_of_ones_own(make):
    it = league(make)
    roles = with_only(MAIN, past_main={"share": 1.0, "weighting": "numpy:ones_like"})
    batch = draw(it, "main-0", 5_000, maker=matchmaker(roles))
    assert_drawn_by(batch, "main-0", "past_main", {f"main-0@{i}": 0.2 for i in range(5)})


@pytest.mark.parametrize("seats", ["balanced", "random"])
def test_a_game_for_one_is_played_alone(make, seats):
    settings = MatchmakingSettings(seats=seats)
    maker = matchmaker(with_only(MAIN, self_play={"share": 1.0}), settings, num_seats=1)
    batch = draw(league(make), "main-0", 50, maker=maker)
    assert batch.competitors == ("main-0",)
    assert batch.seat.tolist() == [[0]] * 50
    assert batch.learning.all()
    assert of_type(batch, "self_play").all()
    assert len(np.unique(batch.seed)) == 50


def test_opponents_in_a_game_for_one_are_refused():
    with pytest.raises(
        ValueError, match="'made-up' has 1 seat, but main draws opponents by pfsp and forgotten"
    ):
        matchmaker(num_seats=1)


def test_a_main_meets_other_current_mains_and_plays_itself_when_there_are_none(make):
    maker = matchmaker(with_only(MAIN, current_main={"share": 1.0}))
    batch = draw(league(make, players=("main-0", "main-1")), "main-0", 100, maker=maker)
    assert opponents(batch, "main-0", of_type(batch, "current_main")) == {"main-1": 100}
    batch = draw(league(make, players=("main-0",)), "main-0", 100, maker=maker)
    assert of_type(batch, "self_play").all()
    assert batch.learning.all()
