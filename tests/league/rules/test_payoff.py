import numpy as np
import pytest

from league.rules.payoff import Payoff, PayoffSettings, pairs_of
from storage.records import Outcome

WIN, DRAW, LOSS, FORFEIT = Outcome


def record_one_by_one(home, away, outcome, decay, size):
    counts = np.zeros((size, size, 3))
    for h, a, o in zip(home, away, outcome, strict=True):
        if h == a:
            continue
        counts[h, a] *= decay
        counts[a, h] *= decay
        counts[h, a, min(o, 2)] += 1
        counts[a, h, 2 - min(o, 2)] += 1
    return counts


@pytest.mark.parametrize("decay", [1.0, 0.99, 0.5])
def test_a_batch_decays_as_game_after_game_does(decay):
    rng = np.random.default_rng(1)
    payoff, all_games = Payoff(decay=decay, capacity=2), []
    for _ in range(5):  # on top of what is already there
        batch = rng.integers(6, size=400), rng.integers(6, size=400), rng.integers(4, size=400)
        payoff.record(batch[0], batch[1], batch[2].astype(np.int8))
        all_games.append(batch)
    expected = record_one_by_one(*(np.concatenate(part) for part in zip(*all_games, strict=True)), decay, 6)
    everyone = np.arange(6)
    for i in range(6):
        np.testing.assert_allclose(payoff.wins(i, everyone), expected[i, :, 0], rtol=1e-12)
        np.testing.assert_allclose(payoff.draws(i, everyone), expected[i, :, 1], rtol=1e-12)
        np.testing.assert_allclose(payoff.losses(i, everyone), expected[i, :, 2], rtol=1e-12)
        np.testing.assert_allclose(payoff.games(i, everyone), expected[i].sum(axis=1), rtol=1e-12)


def test_a_competitor_may_fade_faster_than_the_rest():
    payoff = Payoff(decay=1.0)
    payoff.fade(0, 0.5)
    payoff.fade(1, 0.25)
    home, away = np.array([0, 1, 2] * 4), np.array([2, 0, 3] * 4)
    payoff.record(home, away, np.full(12, WIN, np.int8))
    payoff.record(home, away, np.full(12, WIN, np.int8))
    assert payoff.games(0, np.array([2, 1, 3])).tolist() == pytest.approx(
        [sum(0.5**i for i in range(8)), sum(0.25**i for i in range(8)), 0.0]
    )
    assert payoff.games(2, np.array([3]))[0] == 8.0


def test_games_of_a_pair_tend_to_the_memory_of_the_decay():
    payoff = Payoff(decay=0.9)
    payoff.record(np.zeros(500, int), np.ones(500, int), np.full(500, WIN, np.int8))
    assert payoff.games(0, np.array([1]))[0] == pytest.approx(10.0)
    assert payoff.recorded(0, np.array([1]))[0] == 500


def test_self_play_is_not_recorded():
    payoff = Payoff()
    payoff.record(np.array([3, 3]), np.array([3, 3]), np.array([WIN, DRAW], np.int8))
    assert payoff.games(3, np.arange(4)).tolist() == [0, 0, 0, 0]
    assert payoff.totals(3) == (0, 0, 0)


def test_totals_count_every_game_once_for_each_side():
    payoff = Payoff()
    home, away = np.array([0, 1, 0, 2]), np.array([1, 0, 2, 0])
    payoff.record(home, away, np.array([WIN, WIN, DRAW, FORFEIT], np.int8))
    assert payoff.totals(0) == (4, 2, 1)  # games, wins, draws
    assert payoff.totals(1) == (2, 1, 0)
    assert payoff.totals(2) == (2, 0, 1)


def test_clear_forgets_row_and_column_and_leaves_the_rest():
    payoff = Payoff()
    payoff.record(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([WIN, LOSS, WIN], np.int8))
    payoff.clear(0)
    assert payoff.games(0, np.arange(3)).tolist() == [0, 0, 0]
    assert payoff.games(1, np.arange(3)).tolist() == [0, 0, 1]
    assert payoff.recorded(2, np.arange(3)).tolist() == [0, 1, 0]
    assert payoff.totals(0) == (0, 0, 0)
    assert payoff.totals(2) == (2, 1, 0)


def test_growing_keeps_what_was_recorded():
    payoff = Payoff(capacity=1)
    payoff.record(np.array([0]), np.array([1]), np.array([WIN], np.int8))
    payoff.reserve(1000)
    assert payoff.wins(0, np.array([1, 999])).tolist() == [1, 0]
    assert payoff.losses(1, np.array([0])).tolist() == [1]


def test_two_seats_that_both_forfeit_say_nothing(make):
    both = make.results(make.seated(("a", "b"), ("a", "b")), np.array([[FORFEIT, FORFEIT], [FORFEIT, WIN]]))
    home, away, outcome, _ = pairs_of(both, np.array([[0, 1], [0, 1]]))
    assert (home.tolist(), away.tolist(), outcome.tolist()) == ([0], [1], [LOSS])


def test_more_than_two_seats_are_compared_pair_by_pair_by_rank(make):
    outcome = np.array([[WIN, DRAW, DRAW, FORFEIT]])
    rank = np.array([[0, 1, 1, 3]])
    home, away, pairwise, _ = pairs_of(
        make.results(make.seated(("a", "b", "c", "a")), outcome, rank), np.array([[0, 1, 2, 0]])
    )
    found = list(zip(home.tolist(), away.tolist(), pairwise.tolist(), strict=True))
    assert found == [(0, 1, WIN), (0, 2, WIN), (1, 2, DRAW), (1, 0, WIN), (2, 0, WIN)]


def team_pairs(make, seats, team, rank, outcome=None):
    names = sorted(set(seats))
    batch = make.results(
        make.seated(tuple(seats)),
        np.array([[WIN] * len(seats)]) if outcome is None else np.array([outcome]),
        rank=np.array([rank]),
    )
    seated = np.array([[names.index(name) for name in seats]])
    home, away, pairwise, _ = pairs_of(batch, seated, np.array(team))
    return [
        (names[h], names[a], o)
        for h, a, o in zip(home.tolist(), away.tolist(), pairwise.tolist(), strict=True)
    ]


def test_only_opponents_are_compared_never_the_members_of_a_team(make):
    found = team_pairs(make, "abcd", [0, 0, 1, 1], [0, 0, 1, 1])
    assert found == [("a", "c", WIN), ("a", "d", WIN), ("b", "c", WIN), ("b", "d", WIN)]
    drawn = team_pairs(make, "abcd", [0, 1, 0, 1], [0, 0, 0, 0])
    assert sorted(drawn) == [("a", "b", DRAW), ("a", "d", DRAW), ("c", "b", DRAW), ("c", "d", DRAW)]


def test_a_match_of_teams_counts_once_for_two_opponents_however_many_seats_they_fill(make):
    assert team_pairs(make, "aabb", [0, 0, 1, 1], [1, 1, 0, 0]) == [("a", "b", LOSS)]
    assert team_pairs(make, "abab", [0, 1, 0, 1], [0, 1, 0, 1]) == [("a", "b", WIN)]
    three = team_pairs(make, "aabbcc", [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1])
    assert three == [("a", "b", WIN), ("a", "c", WIN), ("b", "c", DRAW)]


def test_who_sits_in_both_teams_is_not_compared_with_itself(make):
    assert team_pairs(make, "abac", [0, 0, 1, 1], [0, 0, 1, 1]) == [
        ("a", "c", WIN),
        ("b", "a", WIN),
        ("b", "c", WIN),
    ]
    assert team_pairs(make, "aaaa", [0, 0, 1, 1], [0, 0, 1, 1]) == []


def test_teams_that_both_forfeit_say_nothing(make):
    assert team_pairs(make, "abcd", [0, 0, 1, 1], [0, 0, 0, 0], outcome=[FORFEIT] * 4) == []


def test_games_between_two_that_never_change_do_not_fade():
    payoff = Payoff(decay=0.5)
    payoff.keep(1)
    payoff.keep(2)
    payoff.fade(0, 0.5)
    for home in (0, 1):
        payoff.record(np.full(3, home), np.full(3, 2), np.full(3, Outcome.WIN, np.int8), np.zeros(3))
    assert payoff.games(1, np.array([2])).tolist() == [3.0]
    assert payoff.games(0, np.array([2])).tolist() == [1.75]
    payoff.keep(100)
    assert payoff.games(1, np.array([2, 100])).tolist() == [3.0, 0.0]


@pytest.mark.parametrize("decay", [0.0, 1.5, float("nan")])
def test_an_impossible_decay_is_refused(decay):
    with pytest.raises(ValueError, match="decay"):
        Payoff(decay=decay)


@pytest.mark.parametrize("decay", [1.0, 0.9])
def test_leads_fade_as_game_after_game_does_and_are_seen_from_either_side(decay):
    rng = np.random.default_rng(2)
    payoff, expected = Payoff(decay=decay, capacity=2, scores=True), np.zeros((2, 5, 5))
    totals = np.zeros(5)
    for _ in range(3):
        home, away, lead = rng.integers(5, size=200), rng.integers(5, size=200), rng.normal(size=200)
        payoff.record(home, away, rng.integers(3, size=200).astype(np.int8), lead)
        for h, a, x in zip(home, away, lead, strict=True):
            if h == a:
                continue
            for one, other, own in ((h, a, x), (a, h, -x)):
                expected[:, one, other] = expected[:, one, other] * decay + (own, own**2)
                totals[one] += own
    everyone = np.arange(5)
    for i in range(5):
        np.testing.assert_allclose(payoff.lead(i, everyone), expected[0, i], atol=1e-12)
        np.testing.assert_allclose(payoff.squares(i, everyone), expected[1, i], atol=1e-12)
        assert payoff.total_lead(i) == pytest.approx(totals[i])
    payoff.clear(0)
    assert payoff.total_lead(0) == 0.0
    assert not payoff.lead(0, everyone).any()
    assert payoff.lead(1, np.array([2]))[0] == pytest.approx(expected[0, 1, 2])


def test_the_lead_of_a_game_is_half_of_what_one_score_is_above_the_other(make):
    batch = make.results(make.seated(("a", "b")), np.array([[WIN, LOSS]]))
    batch.score[:] = [[3.0, -3.0]]
    assert pairs_of(batch, np.array([[0, 1]]))[3].tolist() == [3.0]


@pytest.mark.parametrize(
    ("settings", "bounds", "unit", "scale"),
    [
        ({}, None, None, None),
        ({}, (-2.0, 2.0), 1.0, 1.0),
        ({}, (-13.0, 11.0), None, 12.0),
        ({"scale": 0.5}, (-2.0, 2.0), 1.0, 0.5),
        ({"unit": "outcome"}, (-2.0, 2.0), 1.0, None),
        ({"unit": "score"}, (-2.0, 2.0), None, 2.0),
    ],
)
def test_a_game_that_declares_its_bounds_counts_scores_unless_outcomes_are_chosen(
    settings, bounds, unit, scale
):
    assert PayoffSettings(**settings).scale_for(bounds, unit) == scale


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "score"}, "does not declare the least and the greatest score"),
        ({"scale": 2.0}, "payoff.scale: found 2, but payoffs count games won"),
    ],
)
def test_scores_without_bounds_and_a_scale_of_outcomes_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PayoffSettings(**settings).scale_for(None, None)
