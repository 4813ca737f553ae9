import itertools

import numpy as np
import pytest

from analysis.statistics.games import Rule, dense, firsts, games_of, games_per_pair, pair_scores, tally
from storage.records import EndReason, Outcome, Purpose
from tests import made_up

WIN, DRAW, LOSS, FORFEIT = Outcome
NAMES = ("a", "b", "c", "d")
TWO_TEAMS = (0, 0, 1)


def played(seat, rank, seed, *, teams=None, outcome=None, reason=None, digest=None, names=NAMES):
    """Results of matches: who sat where [M, S], ranks [M, S], seeds [M]."""
    rank = np.array(rank, dtype=np.int8)
    if outcome is None:
        tied = (rank == 0).sum(axis=1, keepdims=True) > 1
        outcome = np.where(rank > 0, LOSS, np.where(tied, DRAW, WIN))
    matches = made_up.matches(names, seat, purpose=Purpose.TOURNAMENT, seed=seed, teams=teams)
    reason = EndReason.FINISHED if reason is None else reason
    return made_up.results(matches, outcome, score=-rank, rank=rank, reason=reason, digest=digest)


def pairs_of_two(points, *, a=0, b=1, **more):
    """Pairs of a against b, from the points of a in its first and second seat [n, 2]."""
    seats = [(a, b), (b, a)] * len(points)
    ranks = []
    for first, second in points:
        ranks += [(int(first < 0.5), int(first > 0.5)), (int(second > 0.5), int(second < 0.5))]
    return played(seats, ranks, np.repeat(np.arange(len(points)) + 100, 2), **more)


@pytest.mark.parametrize("span", [1, 7, 50, 10**6])
@pytest.mark.parametrize("rows", [0, 1, 60])
def test_numbers_are_made_dense_and_found_first_as_sorting_them_would(span, rows):
    number = np.random.default_rng(rows).integers(span, size=rows)
    _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(dense(number), inverse)
    np.testing.assert_array_equal(firsts(number), first)


def test_a_pair_of_two_is_two_games_with_the_points_of_whoever_sat_first():
    games = games_of([pairs_of_two([(1, 0.5), (0, 1)])], NAMES)
    assert games.competitors == NAMES
    assert games.home.tolist() == [0, 1, 0, 1]
    assert games.away.tolist() == [1, 0, 1, 0]
    assert games.points.tolist() == [1.0, 0.5, 0.0, 0.0]
    assert games.pair.tolist() == [0, 0, 1, 1]
    assert games.match.tolist() == [0, 1, 2, 3]
    assert (games.home_place == 0).all()
    assert (games.away_place == 1).all()
    assert pair_scores(games, 0, 1).tolist() == [0.75, 0.5]
    assert pair_scores(games, 1, 0).tolist() == [0.25, 0.5]
    assert len(pair_scores(games, 2, 3)) == 0


def test_a_match_of_three_is_three_comparisons_by_rank():
    seats = list(itertools.permutations((0, 2, 3)))
    ranks = [(0, 1, 1)] + [(0, 1, 2)] * 5
    games = games_of([played(seats, ranks, [7] * 6)], NAMES)
    assert len(games) == 18
    assert games.num_pairs == 1
    assert games.points.tolist() == [1.0, 1.0, 0.5] + [1.0] * 15
    assert list(zip(games.home_place[:3], games.away_place[:3], strict=True)) == [(0, 1), (0, 2), (1, 2)]
    assert pair_scores(games, 0, 2).tolist() == [0.5]  # three times before it, three times behind it


def test_places_of_teams_are_the_numbers_of_the_teams():
    seats, ranks = [(0, 0, 1), (1, 1, 0)], [(0, 0, 2), (1, 1, 0)]
    outcome = [(WIN, WIN, LOSS), (LOSS, LOSS, WIN)]
    games = games_of([played(seats, ranks, [7, 7], teams=TWO_TEAMS, outcome=outcome)], NAMES)
    assert games.home.tolist() == [0, 1]
    assert games.away_place.tolist() == [1, 1]
    assert games.points.tolist() == [1.0, 0.0]


def test_a_pair_spread_over_two_blocks_is_one_pair():
    whole = pairs_of_two([(1, 0)])
    halves = [played(whole.matches.seat[[i]], whole.rank[[i]], whole.matches.seed[[i]]) for i in (0, 1)]
    assert games_of(halves, NAMES).points.tolist() == [1.0, 1.0]
    assert games_of(halves, NAMES).num_pairs == 1


def test_a_pair_of_which_a_seating_is_missing_does_not_count_yet():
    half = played([(0, 1), (1, 0), (2, 1)], [(0, 1), (0, 1), (0, 1)], [5, 5, 6])
    counted = tally([half], NAMES)
    assert counted.games.match.tolist() == [0, 1]
    assert counted.unfinished_pairs == 1


def test_the_same_seating_twice_does_not_make_a_pair():
    twice = played([(0, 1), (0, 1)], [(0, 1), (0, 1)], [5, 5])
    assert tally([twice], NAMES).unfinished_pairs == 1
    assert len(tally([twice], NAMES).games) == 0


def test_names_are_those_asked_for_in_order_and_matches_with_others_are_passed_over():
    results = [pairs_of_two([(1, 1)]), pairs_of_two([(1, 1)], a=3, b=2), pairs_of_two([(0, 0)], a=2)]
    counted = tally(results, ("c", "d"))
    assert counted.games.home.tolist() == [1, 0]
    assert counted.games.competitors == ("c", "d")
    assert counted.unfinished_pairs == counted.ruled_out_pairs == 0


def test_who_meets_itself_proves_nothing():
    assert len(games_of([played([(0, 0), (0, 0)], [(0, 1), (1, 0)], [5, 5])], NAMES)) == 0


def test_nothing_played_is_no_games():
    games = games_of([], NAMES)
    assert len(games) == games.num_pairs == 0
    assert len(pair_scores(games, 0, 1)) == 0


def test_a_forfeit_loses_whatever_its_score_or_takes_its_pair_out():
    outcome = [(FORFEIT, LOSS), (WIN, LOSS)]  # who forfeited was ahead
    results = pairs_of_two([(1, 1)], outcome=outcome, reason=[EndReason.ILLEGAL_ACTION, EndReason.FINISHED])
    assert games_of([results], NAMES).points.tolist() == [0.0, 1.0]
    left_out = tally([results, pairs_of_two([(1, 1)], b=2)], NAMES, Rule(forfeit="left_out"))
    assert left_out.games.away.tolist() == [2, 0]
    assert left_out.ruled_out_pairs == 1


def test_a_forfeit_of_one_seat_is_its_teams():
    outcome = [(LOSS, FORFEIT, WIN), (LOSS, LOSS, WIN)]
    seats, ranks = [(0, 0, 1), (1, 1, 0)], [(0, 0, 2), (2, 2, 0)]
    results = played(seats, ranks, [7, 7], teams=TWO_TEAMS, outcome=outcome)
    assert games_of([results], NAMES).points.tolist() == [0.0, 0.0]


def test_two_forfeits_of_one_match_say_nothing_of_either():
    both = pairs_of_two([(0.5, 1)], outcome=[(FORFEIT, FORFEIT), (LOSS, WIN)])
    assert tally([both], NAMES).ruled_out_pairs == 1
    assert len(tally([both], NAMES).games) == 0


@pytest.mark.parametrize(
    ("rule", "points"),
    [
        (Rule(), [1.0, 0.0]),
        (Rule(step_limit="draw"), [0.5, 0.0]),
        (Rule(step_limit="left_out"), []),
    ],
)
def test_the_step_limit_goes_by_its_rule(rule, points):
    results = pairs_of_two([(1, 1)], reason=[EndReason.STEP_LIMIT, EndReason.FINISHED])
    assert games_of([results], NAMES, rule).points.tolist() == points


def test_a_forfeit_before_the_step_limit_still_loses_where_limits_are_draws():
    results = pairs_of_two(
        [(1, 1)], outcome=[(LOSS, FORFEIT), (LOSS, WIN)], reason=[EndReason.STEP_LIMIT, EndReason.FINISHED]
    )
    assert games_of([results], NAMES, Rule(step_limit="draw")).points.tolist() == [1.0, 0.0]


def test_a_crash_takes_its_pair_out_unless_the_rule_scores_it():
    results = pairs_of_two([(0.5, 1)], reason=[EndReason.CRASH, EndReason.FINISHED])
    assert len(games_of([results], NAMES)) == 0
    assert games_of([results], NAMES, Rule(crash="as_scored")).points.tolist() == [0.5, 0.0]


def test_pairs_that_repeat_an_earlier_one_are_counted_once_and_told():
    repeated = pairs_of_two([(1, 0)] * 4, digest=[8, 9, 8, 9, 8, 7, 8, 9])
    others = pairs_of_two([(1, 0)] * 2, b=2, digest=[8, 9, 8, 9])  # alike, but of another pairing
    counted = tally([repeated, others], NAMES)
    assert counted.games.match.tolist() == [0, 1, 4, 5, 0, 1]
    assert counted.games.pair.tolist() == [0, 0, 1, 1, 2, 2]
    assert counted.repeated_pairs == ((("a", "b"), 2), (("a", "c"), 1))


def test_a_repeat_is_known_whichever_seating_was_recorded_first():
    swapped = played([(1, 0), (0, 1)], [(0, 1), (1, 0)], [900, 900], digest=[9, 8])
    counted = tally([pairs_of_two([(0, 0)], digest=[8, 9]), swapped], NAMES)
    assert counted.games.num_pairs == 1


def test_pairs_in_which_anybody_drew_at_random_are_never_repeats():
    drawn = pairs_of_two([(1, 0)] * 3, digest=[8, 0, 8, 0, 8, 9])
    assert tally([drawn], NAMES).games.num_pairs == 3
    assert tally([pairs_of_two([(1, 0)] * 3)], NAMES).games.num_pairs == 3


def test_a_pair_has_every_order_of_up_to_four_teams_and_the_rotations_of_more():
    assert [games_per_pair(teams) for teams in (2, 3, 4, 5, 6)] == [2, 6, 24, 5, 6]
    rotations = [np.roll(np.arange(5), shift) for shift in range(5)]
    five = played(rotations, [range(5)] * 5, [3] * 5, names=("a", "b", "c", "d", "e"))
    games = games_of([five], ("a", "b", "c", "d", "e"))
    assert len(games) == 50
    assert games.num_pairs == 1
