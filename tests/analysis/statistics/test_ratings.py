import dataclasses
import math

import numpy as np
import pytest

from analysis.statistics.elo import elo_from_pairs, elo_of_score
from analysis.statistics.games import pair_scores
from analysis.statistics.ratings import bootstrap, bradley_terry
from tests.analysis.simulated_games import ELO, free_for_all, games_from, games_of_table, names, transitive

# Baseball, American League East 1987: A. Agresti, Categorical Data Analysis (2nd ed., 2002), table 10.10,
# as https://github.com/hturner/BradleyTerry2, data/baseball.csv, has it: wins of home [home, away].
BASEBALL = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
HOME_WINS = [
    [0, 4, 4, 4, 6, 4, 6],
    [3, 0, 4, 4, 6, 6, 4],
    [2, 4, 0, 2, 4, 4, 6],
    [3, 5, 2, 0, 4, 4, 6],
    [5, 2, 3, 4, 0, 5, 6],
    [2, 3, 3, 4, 4, 0, 2],
    [2, 1, 1, 2, 1, 3, 0],
]
HOME_LOSSES = [
    [0, 3, 2, 3, 1, 2, 0],
    [3, 0, 2, 3, 0, 1, 3],
    [5, 3, 0, 4, 3, 2, 0],
    [3, 1, 5, 0, 3, 2, 1],
    [1, 5, 3, 2, 0, 2, 0],
    [5, 3, 4, 3, 2, 0, 4],
    [5, 5, 6, 4, 6, 4, 0],
]


def baseball():
    rows = [(i, j, HOME_WINS[i][j], 0, HOME_LOSSES[i][j]) for i in range(7) for j in range(7) if i != j]
    return dataclasses.replace(games_of_table(rows, 7), competitors=BASEBALL)


def test_baseball_is_rated_as_agresti_prints_it():
    """Table 10.11, column 3, which BradleyTerry2's tests/testthat/test-baseball.R repeats: 0 is Baltimore's;
    'standard errors are about 0.3'."""
    ratings = bradley_terry(baseball(), anchor="Baltimore", prior_games=0.0, place_advantage=False)
    order = [BASEBALL.index(name) for name in ("Milwaukee", "Detroit", "Toronto", "New York", "Boston")]
    order.append(BASEBALL.index("Cleveland"))
    assert np.round(ratings.elo[order] / ELO, 2).tolist() == [1.58, 1.44, 1.29, 1.25, 1.11, 0.68]
    assert np.round(ratings.deviation[order] / ELO, 1).tolist() == [0.3] * 6


def test_baseball_at_home_is_rated_as_agresti_prints_it():
    """Table 10.11, column 5: worths that sum to 1, and an advantage of 0.302 for being at home."""
    ratings = bradley_terry(baseball(), anchor="Baltimore", prior_games=0.0)
    worth = np.exp(ratings.elo / ELO)
    assert np.round(np.sort(worth / worth.sum()), 3).tolist() == [
        0.044,
        0.088,
        0.137,
        0.157,
        0.164,
        0.190,
        0.220,
    ]
    advantage = (ratings.place_advantage[0] - ratings.place_advantage[1]) / ELO
    assert round(advantage, 3) == 0.302


# Chocolate puddings: R. R. Davidson, JASA 65 (1970) 317-328, example 2: brands i, j, comparisons, those
# that prefer i, those that prefer j, ties; from https://github.com/d-a-henderson/GPL, puddings.txt.
PUDDINGS = """
1 2 57 19 22 16   1 3 47 16 19 12   2 3 48 19 19 10   1 4 54 18 23 13   2 4 51 23 19 9
3 4 54 19 20 15   1 5 50 13 19 18   2 5 48 16 20 12   3 5 48 16 15 17   4 5 47 17 14 16
1 6 51 18 21 12   2 6 54 22 20 12   3 6 41 13 18 10   4 6 51 14 19 18   5 6 44 11 21 12
"""


def test_puddings_are_rated_as_davidson_did():
    """Worths and nu as PlackettLuce's vignette prints them, 'to obtain the same worth parameters as Davidson
    (1970)' after seven steps of an iteration that has not quite converged
    (https://hturner.github.io/PlackettLuce/articles/Overview.html, section 2.1.1): hence 5e-5."""
    table = np.array(PUDDINGS.split(), dtype=int).reshape(-1, 6)
    rows = [(i - 1, j - 1, wins, ties, losses) for i, j, _, wins, losses, ties in table.tolist()]
    ratings = bradley_terry(games_of_table(rows, 6), prior_games=0.0, place_advantage=False)
    worth = np.exp(ratings.elo / ELO)
    printed = [0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855]
    assert worth / worth.sum() == pytest.approx(printed, abs=5e-5)
    assert ratings.draw == pytest.approx(0.7468147, abs=5e-4)


def test_a_round_robin_of_engines_is_rated_as_its_author_computed():
    """Kai Laskos, 'EloStat, Bayeselo and Ordo', http://www.talkchess.com/forum3/viewtopic.php?t=44180: of 90
    games of three engines, +18 =9 -3, +18 =9 -3 and +24 =6 -0, 'the correct -191, 0, 191'."""
    rows = [(0, 1, 18, 9, 3), (1, 2, 18, 9, 3), (0, 2, 24, 6, 0)]
    ratings = bradley_terry(games_of_table(rows, 3), prior_games=0.0, place_advantage=False, draws=False)
    assert np.round(ratings.elo).tolist() == [191.0, 0.0, -191.0]


ORDO = 202 / elo_of_score(0.76)
"""Ordo's points of one Elo: its manual (https://github.com/michiguel/Ordo, manual.tex, 'Scale') sets 202
where 76 % are expected."""


def test_a_table_of_ordo_with_whites_advantage_and_errors_is_found_to_its_printed_digits():
    """The example table of Leela Chess Zero's guide 'Testing' (source of https://lczero.org), 'Using ORDO':
    two networks against Stockfish, 1,500 games each, half of them with White, +408 =885 -207 and
    +369 =894 -237, are rated 0, -16.8 +- 15.8 and (Stockfish) -48.5 +- 11.4, and White's advantage is 57.46
    with a standard error of 4.16. Errors are of 500 simulations, so right to 3 % themselves. How many of
    its points White made is not printed: as many as give the advantage."""
    rows = [
        (0, 2, 204 + 61, 442, 104 - 61),
        (2, 0, 103 + 61, 443, 204 - 61),
        (1, 2, 184 + 60, 447, 119 - 60),
        (2, 1, 118 + 60, 447, 185 - 60),
    ]
    ratings = bradley_terry(games_of_table(rows, 3), anchor="c0", prior_games=0.0, draws=False)
    advantage = ORDO * (ratings.place_advantage[0] - ratings.place_advantage[1])
    assert advantage == pytest.approx(57.46, abs=0.02)
    assert np.round(ORDO * ratings.elo, 1).tolist() == [0.0, -16.8, -48.5]
    assert ORDO * 1.96 * ratings.deviation[1:] == pytest.approx([15.8, 11.4], rel=0.05)
    assert ORDO * 2 * ratings.place_deviation[0] == pytest.approx(4.16, rel=0.05)


# Ordo's cross table of two versions' gauntlet, https://github.com/sovaz1997/Zevra, README.md of Zevra v1.8.6:
# places in the table, +, = and - of the first, in 700 games of each pairing.
ZEVRA = [
    (2, 0, 12, 48, 640),
    (2, 1, 162, 155, 383),
    (2, 3, 313, 142, 245),
    (2, 4, 319, 157, 224),
    (2, 6, 368, 180, 152),
    (5, 0, 12, 38, 650),
    (5, 1, 127, 134, 439),
    (5, 3, 256, 162, 282),
    (5, 4, 274, 149, 277),
    (5, 6, 312, 163, 225),
]


def half_of_the_games_with_white(table, more_wins):
    """The rows of a table, once for each colour; with White the first has won so many more of its games than
    half of them, and lost as many fewer."""
    for (a, b, wins, draws, losses), more in zip(table, more_wins, strict=True):
        half = (wins + draws + losses) // 2
        won, lost = wins // 2 + more, losses // 2 - more
        drawn = half - won - lost
        yield a, b, won, drawn, lost
        yield b, a, losses - lost, draws - drawn, wins - won


def test_a_cross_table_of_ordo_of_seven_is_rated_to_its_printed_digits():
    """Zevra's: points, ratings, White's advantage of 26.71 +- 4.10 and standard errors of differences. Of the
    colours only that advantage is printed: as many points with White as give it, and each rating follows,
    whichever pairings they are of. Errors are of simulations, whose number is not printed."""
    more = [0, 13, 14, 13, 13, 0, 13, 13, 13, 13]
    games = games_of_table(half_of_the_games_with_white(ZEVRA, more), 7)
    points = [
        np.where(games.home == i, games.points, 1 - games.points)[(games.home == i) | (games.away == i)]
        for i in range(7)
    ]
    assert [own.sum() for own in points] == [1333.0, 966.5, 1515.0, 679.0, 654.0, 1304.0, 548.5]
    ratings = bradley_terry(games, anchor="c5", prior_games=0.0, draws=False)
    advantage = ORDO * (ratings.place_advantage[0] - ratings.place_advantage[1])
    assert round(advantage, 2) == 26.71
    assert np.round(2250.0 + ORDO * ratings.elo, 1).tolist() == [
        2804.4,
        2418.8,
        2303.4,
        2266.1,
        2253.4,
        2250.0,
        2198.8,
    ]
    assert ORDO * 2 * ratings.place_deviation[0] == pytest.approx(4.10, abs=0.05)
    variance = ratings.covariance.diagonal()
    deviation = ORDO * np.sqrt(variance[:, None] + variance - 2 * ratings.covariance)
    printed = {2: [18.7, 9.7, 9.4, 9.2, 9.6], 5: [18.7, 9.7, 9.0, 9.6, 9.7]}
    for zevra, errors in printed.items():
        assert deviation[zevra, [0, 1, 3, 4, 6]] == pytest.approx(errors, rel=0.06)


# Ordo's cross table of six versions of an engine, https://github.com/bsamseth/Goldfish, README.md: places in
# the table, +, = and - of all pairings.
GOLDFISH = [
    (0, 1, 85, 345, 70),
    (0, 2, 12, 51, 12),
    (1, 2, 11, 30, 9),
    (1, 3, 15, 28, 7),
    (1, 4, 19, 29, 2),
    (2, 3, 16, 55, 9),
    (2, 4, 13, 30, 7),
    (3, 4, 8, 18, 4),
    (4, 5, 7, 23, 2),
]


def test_a_cross_table_of_ordo_is_found_but_for_the_colours_that_it_leaves_out():
    """Who had White is not in the table. Ordo's gaps are all larger than the likelihood's without it, by 0.15
    to 0.29 %, as they would be with an advantage of about 16 Elo: hence 0.3 % of each gap."""
    ratings = bradley_terry(
        games_of_table(GOLDFISH, 6), anchor="c5", prior_games=0.0, place_advantage=False, draws=False
    )
    printed = np.array([2154.2, 2147.1, 2131.2, 2097.7, 2055.3, 2000.0])
    assert ORDO * ratings.elo == pytest.approx(printed - 2000.0, rel=0.003)


def test_without_draws_two_are_rated_by_their_score():
    points = [1, 0] * 60 + [1, 1] * 20 + [0, 0] * 20  # 60 pairs swept by the first, the others split
    games = games_from(2, [0, 1] * 100, [1, 0] * 100, points, np.repeat(range(100), 2))
    ratings = bradley_terry(games, prior_games=0.0)
    assert ratings.expected_score(0, 1) == pytest.approx(0.8)
    plain = bradley_terry(games, prior_games=0.0, place_advantage=False)
    assert plain.difference(0, 1).elo == pytest.approx(elo_of_score(0.8))
    assert plain.expected_score(1, 0) == pytest.approx(0.2)


def test_with_draws_elo_is_of_wins_against_losses_and_the_expected_score_is_what_is_scored():
    ratings = bradley_terry(
        games_of_table([(0, 1, 300, 600, 100)], 2), prior_games=0.0, place_advantage=False
    )
    assert ratings.difference(0, 1).elo == pytest.approx(elo_of_score(0.75))  # 300 to 100
    assert ratings.expected_score(0, 1) == pytest.approx(0.6)
    as_ordo = bradley_terry(
        games_of_table([(0, 1, 300, 600, 100)], 2), prior_games=0.0, place_advantage=False, draws=False
    )
    assert as_ordo.difference(0, 1).elo == pytest.approx(elo_of_score(0.6))
    assert as_ordo.draw == 0.0


def test_the_error_of_two_is_that_of_the_mean_of_their_pairs():
    """With many pairs the sandwich is the delta method on the mean score of pairs, as `elo_from_pairs` is."""
    games = transitive(np.array([60.0, 0.0]), 4000, np.random.default_rng(1), same_winner=0.5)
    by_model = bradley_terry(games, place_advantage=False).difference(0, 1)
    by_pairs = elo_from_pairs(pair_scores(games, 0, 1))
    assert by_model.elo == pytest.approx(by_pairs.elo, abs=0.1)
    assert by_model.high - by_model.low == pytest.approx(by_pairs.high - by_pairs.low, rel=0.02)
    assert by_model.los == pytest.approx(by_pairs.los, abs=1e-3)


@pytest.mark.parametrize("kind", [{}, {"nu": 1.5}, {"same_place": 0.8}, {"same_winner": 0.5, "nu": 0.5}])
@pytest.mark.parametrize("gap", [0.0, 150.0])
def test_two_are_rated_and_compared_alike_where_places_make_no_difference(gap, kind):
    """Ratings as a verdict takes them, with all defaults; the prior is 0.1 Elo here."""
    games = transitive(np.array([gap, 0.0]), 1500, np.random.default_rng(1), **kind)
    rated = bradley_terry(games, draws=False).difference(0, 1)
    compared = elo_from_pairs(pair_scores(games, 0, 1))
    assert (rated.elo, rated.low, rated.high) == pytest.approx(
        (compared.elo, compared.low, compared.high), abs=0.5
    )
    assert rated.los == pytest.approx(compared.los, abs=2e-3)


def test_a_rating_puts_the_places_advantage_aside_and_a_score_does_not():
    """Where the first mover is 200 Elo ahead, 150 Elo win 0.66 of the points, as 119 Elo would without it."""
    games = transitive(np.array([150.0, 0.0]), 3000, np.random.default_rng(1), advantage=200.0)
    ratings = bradley_terry(games, draws=False)
    rated = ratings.difference(0, 1)
    compared = elo_from_pairs(pair_scores(games, 0, 1))
    assert rated.low < 150.0 < rated.high
    assert compared.elo == pytest.approx(119.0, abs=3.0)
    assert elo_of_score(ratings.expected_score(0, 1)) == pytest.approx(compared.elo, abs=1.0)
    assert rated.high - rated.low > 1.3 * (compared.high - compared.low)


def test_the_anchor_is_zero_and_sure_and_moves_no_difference():
    games = transitive(np.array([0.0, 100.0, -50.0, 30.0]), 20, np.random.default_rng(4), nu=0.5)
    free, anchored = bradley_terry(games), bradley_terry(games, anchor="c2")
    assert free.elo.mean() == pytest.approx(0.0, abs=1e-9)
    assert (anchored.elo[2], anchored.deviation[2]) == (0.0, 0.0)
    for a, b in ((0, 1), (3, 2)):
        ours, theirs = free.difference(a, b), anchored.difference(a, b)
        assert dataclasses.astuple(ours) == pytest.approx(dataclasses.astuple(theirs), rel=1e-6)
    with pytest.raises(ValueError, match="anchor is 'nobody', expected one of 4 competitors"):
        bradley_terry(games, anchor="nobody")


def test_the_other_side_sees_the_mirror_image():
    ratings = bradley_terry(transitive(np.array([0.0, 100.0, -50.0]), 10, np.random.default_rng(4)))
    ours, theirs = ratings.difference(0, 1), ratings.difference(1, 0)
    assert (ours.elo, ours.low, ours.los) == pytest.approx((-theirs.elo, -theirs.high, 1 - theirs.los))
    same = ratings.difference(1, 1)
    assert dataclasses.astuple(same) == (0.0, 0.0, 0.0, 0.5)


def test_all_won_is_far_ahead_and_unsure_but_finite():
    few = bradley_terry(games_from(2, [0, 1] * 5, [1, 0] * 5, [1, 0] * 5, np.repeat(range(5), 2)))
    many = bradley_terry(games_from(2, [0, 1] * 99, [1, 0] * 99, [1, 0] * 99, np.repeat(range(99), 2)))
    for ratings in (few, many):
        found = ratings.difference(0, 1)
        assert 0 < found.low < found.elo < found.high < 3000
        assert found.high - found.low > 500  # it may be anything from there on
        assert found.los > 0.97
    assert many.difference(0, 1).elo > few.difference(0, 1).elo + 200


def test_without_a_prior_all_won_or_never_met_is_refused():
    won = games_from(2, [0, 1], [1, 0], [1, 0])
    apart = games_from(4, [0, 1, 2, 3], [1, 0, 3, 2], [1, 1, 0, 0])
    for games in (won, apart):
        with pytest.raises(ValueError, match="prior_games above 0"):
            bradley_terry(games, prior_games=0.0, place_advantage=False)


def test_islands_that_never_met_are_rated_alike_and_unsure_of_one_another():
    home, away = [0, 1] * 40 + [2, 3] * 40, [1, 0] * 40 + [3, 2] * 40
    ratings = bradley_terry(games_from(4, home, away, [1, 0, 0, 1, 1, 0] * 26 + [1, 0, 0, 1]))
    within, between = ratings.difference(0, 1), ratings.difference(0, 2)
    assert between.high - between.low > 4 * (within.high - within.low)
    assert between.low < 0 < between.high


def test_who_has_not_played_is_average_and_uncertain_and_no_games_are_no_failure():
    games = transitive(np.array([0.0, 80.0, -80.0]), 20, np.random.default_rng(3))
    newcomer = bradley_terry(dataclasses.replace(games, competitors=names(4)), anchor="c0")
    assert newcomer.elo[3] == pytest.approx(newcomer.elo[:3].mean(), abs=5.0)
    assert newcomer.deviation[3] > 5 * newcomer.deviation[:3].max()
    nothing = bradley_terry(games_from(3, [], [], []))
    assert nothing.elo.tolist() == [0.0, 0.0, 0.0]
    assert (nothing.deviation > 200).all()
    assert nothing.place_advantage.tolist() == [0.0, 0.0]


def test_one_who_always_wins_by_the_first_move_is_no_stronger():
    games = games_from(2, [0, 1] * 50, [1, 0] * 50, [1, 1] * 50, np.repeat(range(50), 2))
    ratings = bradley_terry(games)
    assert ratings.difference(0, 1).elo == pytest.approx(0.0, abs=1e-6)
    assert ratings.place_advantage[0] - ratings.place_advantage[1] > 400
    assert ratings.expected_score(0, 1) == pytest.approx(0.5)


def test_places_of_three_at_a_table_have_their_advantages():
    games = free_for_all(np.zeros(6), 2, np.random.default_rng(8))
    ratings = bradley_terry(games)
    assert ratings.place_advantage.shape == ratings.place_deviation.shape == (3,)
    assert ratings.place_advantage.sum() == pytest.approx(0.0, abs=1e-9)
    assert (np.abs(ratings.place_advantage) < 3.5 * ratings.place_deviation).all()
    without = bradley_terry(games, place_advantage=False)
    assert without.place_advantage.tolist() == without.place_deviation.tolist() == [0.0] * 3


def test_part_of_the_games_is_rated_though_pairs_are_missing():
    games = transitive(np.array([0.0, 100.0, -50.0]), 30, np.random.default_rng(6))
    late = games.pair >= 45
    columns = {f.name: getattr(games, f.name) for f in dataclasses.fields(games)}
    part = dataclasses.replace(games, **{k: v[late] for k, v in columns.items() if k != "competitors"})
    renumbered = dataclasses.replace(part, pair=part.pair - 45)
    assert bradley_terry(part).covariance == pytest.approx(bradley_terry(renumbered).covariance)


def test_intervals_widen_with_their_level():
    ratings = bradley_terry(transitive(np.zeros(4), 10, np.random.default_rng(1)))
    widths = [np.mean(np.subtract(*ratings.interval(level)[::-1])) for level in (0.5, 0.95, 0.99)]
    assert widths == pytest.approx(
        2 * ratings.deviation.mean() * np.array([0.6745, 1.95996, 2.5758]), rel=1e-4
    )


@pytest.mark.slow
def test_who_enters_twice_is_within_its_interval_of_itself():
    """Of 200 fields, 190 or so: less than 180 would be 3 standard errors too few."""
    rng, within = np.random.default_rng(9), 0
    for _ in range(200):
        elo_of = rng.normal(size=6) * 150
        twin = bradley_terry(transitive(np.append(elo_of, elo_of[0]), 10, rng)).difference(0, 6)
        within += twin.low <= 0 <= twin.high
    assert within >= 180


@pytest.mark.slow
def test_a_duplicate_moves_no_other_rating_by_more_than_its_interval():
    """In none of 100 fields; the furthest of 500 ratings moves by two thirds of what its interval allows."""
    rng, furthest = np.random.default_rng(10), 0.0
    for _ in range(100):
        elo_of = rng.normal(size=7) * 150
        elo_of[6] = elo_of[0]
        games = transitive(elo_of, 10, rng, nu=0.4, same_winner=0.3)
        with_twin = bradley_terry(games, anchor="c0")
        rest = np.maximum(games.home, games.away) < 6
        columns = {f.name: getattr(games, f.name) for f in dataclasses.fields(games)}
        without = dataclasses.replace(games, **{k: v[rest] for k, v in columns.items() if k != "competitors"})
        alone = bradley_terry(dataclasses.replace(without, competitors=names(6)), anchor="c0")
        low, high = alone.interval()
        moved = np.abs(with_twin.elo[1:6] - alone.elo[1:]) / (high - low)[1:]
        furthest = max(furthest, 2 * moved.max())
    assert 0.3 < furthest < 0.9


def test_the_bootstrap_is_repeated_by_its_seed_and_centres_on_the_ratings():
    games = transitive(np.array([0.0, 100.0, -50.0]), 40, np.random.default_rng(6))
    first, second = (bootstrap(games, 50, np.random.default_rng(1), anchor="c0") for _ in range(2))
    assert (first == second).all()
    assert first.shape == (50, 3)
    assert (first[:, 0] == 0.0).all()
    ratings = bradley_terry(games, anchor="c0")
    assert first.mean(axis=0) == pytest.approx(ratings.elo, abs=4 * ratings.deviation.max() / math.sqrt(50))
    assert bootstrap(games, 5, np.random.default_rng(1)).sum(axis=1) == pytest.approx(np.zeros(5), abs=1e-9)
