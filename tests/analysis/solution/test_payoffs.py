import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.solution.payoffs import Payoffs
from analysis.statistics.davidson import cells_of, fit
from storage.errors import Mistake
from tests.analysis.simulated_games import ELO, games_from, games_of_table, played, transitive


def frame_of(rows, *, both_sides=True, run="r"):
    """A payoff as History gives it, of rows (home, away, wins, draws, losses)."""
    rows = [(a, b, w + d + x, w, d, x) for a, b, w, d, x in rows]
    if both_sides:
        rows += [(b, a, g, x, d, w) for a, b, g, w, d, x in rows]
    frame = pd.DataFrame(rows, columns=["home", "away", "games", "wins", "draws", "losses"])
    frame.insert(0, "run", run)
    return frame


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_a_frame_tells_scores_and_games_once_though_it_holds_each_pairing_twice():
    payoffs = Payoffs.from_frame(frame_of([("b", "a", 3, 2, 1), ("b", "c", 0, 0, 5)]))
    assert payoffs.competitors == ("a", "b", "c")
    assert payoffs.games.tolist() == [[0, 6, 0], [6, 0, 5], [0, 5, 0]]
    expected = [[0.5, 1 / 3, np.nan], [2 / 3, 0.5, 0.0], [np.nan, 1.0, 0.5]]
    np.testing.assert_allclose(payoffs.scores, expected)


def test_one_side_of_a_frame_says_the_same_as_both(rng):
    rows = [(a, b, *rng.integers(0, 5, 3)) for a, b in itertools.permutations("abcd", 2) if a > b]
    one, both = (Payoffs.from_frame(frame_of(rows, both_sides=told)) for told in (False, True))
    np.testing.assert_array_equal(one.scores, both.scores)
    np.testing.assert_array_equal(one.matrix(), both.matrix())


def test_a_frame_may_hold_categories(rng):
    frame = frame_of([("b", "a", 3, 2, 1), ("b", "c", 0, 0, 5)])
    of_categories = frame.astype(dict.fromkeys(("run", "home", "away"), "category"))
    np.testing.assert_array_equal(Payoffs.from_frame(of_categories).scores, Payoffs.from_frame(frame).scores)


def test_a_frame_is_read_in_the_order_asked_for_and_others_are_passed_over():
    frame = frame_of([("a", "b", 3, 0, 1), ("a", "c", 9, 0, 0), ("b", "c", 1, 0, 1)])
    payoffs = Payoffs.from_frame(frame, ["c", "a", "newcomer"])
    assert payoffs.competitors == ("c", "a", "newcomer")
    assert payoffs.games.sum() == 18
    assert payoffs.scores[1, 0] == 1.0
    assert np.isnan(payoffs.scores[2, :2]).all()


def test_frames_that_are_no_payoff_of_one_run_are_refused():
    frame = frame_of([("a", "b", 3, 0, 1)])
    with pytest.raises(Mistake, match="no column 'wins'"):
        Payoffs.from_frame(frame.drop(columns="wins"))
    with pytest.raises(Mistake, match="found 2 runs, expected one"):
        Payoffs.from_frame(pd.concat([frame, frame.assign(run="other")]))
    with pytest.raises(Mistake, match="named twice"):
        Payoffs.from_frame(frame, ["a", "a"])


def test_two_rows_of_one_pairing_are_added_up():
    frame = pd.concat([frame_of([("a", "b", 3, 0, 1)]), frame_of([("a", "b", 0, 2, 0)])])
    payoffs = Payoffs.from_frame(frame)
    assert payoffs.games[0, 1] == 6
    assert payoffs.scores[0, 1] == pytest.approx(4 / 6)


def test_of_a_tournament_pairs_are_the_units(rng):
    games = played(3, lambda home, away: (np.full(len(home), 0.5), 0.2), 7, rng)
    payoffs = Payoffs.from_games(games)
    assert (payoffs.games[np.triu_indices(3, 1)] == 14).all()
    assert (payoffs.units.count == 7).all()
    for a, b in ((0, 1), (2, 0)):
        own = np.concatenate(
            [
                games.points[(games.home == a) & (games.away == b)],
                1 - games.points[(games.home == b) & (games.away == a)],
            ]
        )
        assert payoffs.scores[a, b] == pytest.approx(own.mean())


def test_the_matrix_is_antisymmetric_and_leaves_games_that_were_played_as_they_were(rng):
    payoffs = Payoffs.from_games(transitive(rng.normal(size=6) * 100, 3, rng))
    matrix = payoffs.matrix()
    np.testing.assert_array_equal(matrix, -matrix.T)
    np.testing.assert_allclose(matrix, 2 * payoffs.scores - 1, atol=1e-15)


def test_who_never_met_is_expected_to_score_what_strengths_say(rng):
    """Of a chain in which neighbours met, all other scores follow from Elo's model."""
    elo = np.array([300.0, 200.0, 50.0, 0.0, -150.0])
    expected = 1 / (1 + 10 ** ((elo - elo[:, None]) / 400))
    rows = [
        (i, i + 1, round(4000 * expected[i, i + 1]), 0, round(4000 * expected[i + 1, i])) for i in range(4)
    ]
    payoffs = Payoffs.from_games(games_of_table(rows, 5))
    assert np.isnan(payoffs.scores).sum() == 12
    np.testing.assert_allclose(payoffs.matrix(), 2 * expected - 1, atol=0.02)


def test_strengths_are_those_of_bradley_and_terry_where_games_are_many(rng):
    games = transitive(rng.normal(size=8) * 150, 200, rng)
    strengths = Payoffs.from_games(games).posterior.strengths
    strength = fit(cells_of(games, 1, drawn=False), prior_games=1.0).parameters
    elo = ELO * (strength - strength.mean())
    np.testing.assert_allclose(ELO * (strengths - strengths.mean()), elo, atol=5.0)


def test_nobody_who_played_nothing_is_better_than_another():
    nobody = Payoffs.from_games(games_from(4, [], [], []))
    np.testing.assert_allclose(nobody.matrix(), 0.0, atol=1e-15)
    drawn = nobody.resampled(np.random.default_rng(0)).matrix()
    assert np.isfinite(drawn).all()
    assert np.abs(drawn).max() <= 1.0
    assert Payoffs.from_frame(frame_of([])).matrix().shape == (0, 0)


def test_a_subset_is_what_its_own_games_say(rng):
    games = transitive(rng.normal(size=6) * 200, 4, rng)
    chosen = [4, 1, 2]
    among = np.isin(games.home, chosen) & np.isin(games.away, chosen)
    place = np.full(6, -1)
    place[chosen] = [0, 1, 2]
    alone = dataclasses.replace(
        games,
        competitors=("c4", "c1", "c2"),
        home=place[games.home[among]],
        away=place[games.away[among]],
        home_place=games.home_place[among],
        away_place=games.away_place[among],
        points=games.points[among],
        pair=np.unique(games.pair[among], return_inverse=True)[1],
        match=games.match[among],
    )
    subset, expected = Payoffs.from_games(games).subset(["c4", "c1", "c2"]), Payoffs.from_games(alone)
    np.testing.assert_allclose(subset.matrix(), expected.matrix())
    np.testing.assert_allclose(subset.posterior.expected(), expected.posterior.expected())
    assert subset.games.tolist() == expected.games.tolist()
    with pytest.raises(Mistake, match="'nobody' is not among its 6"):
        Payoffs.from_games(games).subset(["nobody"])


def test_how_far_pairings_stray_from_strengths_is_read_off_the_field(rng):
    circle = np.array([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])[
        np.ix_([0, 1, 2] * 3, [0, 1, 2] * 3)
    ]
    going_round = played(9, lambda home, away: (circle[home, away], 0.0), 20, rng)
    ladder = transitive(np.arange(9) * 80.0, 20, rng)
    assert Payoffs.from_games(going_round).posterior.rho > 0.3
    assert Payoffs.from_games(ladder).posterior.rho < 0.05


def test_draws_are_known_to_tell_less_luck(rng):
    few, many = (Payoffs.from_games(transitive(np.zeros(8), 30, rng, nu=nu)) for nu in (0.0, 18.0))
    assert few.posterior.phi == pytest.approx(0.5, abs=0.1)  # a pair's mean of two coins
    assert many.posterior.phi == pytest.approx(0.05, abs=0.02)  # nine games of ten are drawn


def by_score(rows, most_lead):
    """A payoff that counts scores, of rows (home, away, leads)."""
    frame = frame_of(
        [(a, b, sum(x > 0 for x in leads), 0, sum(x <= 0 for x in leads)) for a, b, leads in rows],
        both_sides=False,
    )
    points = [0.5 + np.array(leads) / (2 * most_lead) for _, _, leads in rows]
    return frame.assign(unit="score", points=[p.mean() for p in points], deviation=[p.std() for p in points])


def test_a_frame_of_scores_is_solved_by_leads_and_not_by_games_won():
    frame = by_score([("a", "b", [1.0, 1.0, -8.0]), ("b", "c", [1.0, -1.5, 2.0])], 10.0)
    payoffs = Payoffs.from_frame(frame)
    assert payoffs.scores[0, 1] == pytest.approx(0.5 - 2.0 / 20.0)
    assert payoffs.units.squares[0] == pytest.approx(sum((0.5 + x / 20) ** 2 for x in (1.0, 1.0, -8.0)))
    matrix = payoffs.matrix()
    assert matrix[0, 1] == -1.0  # the largest lead
    assert matrix[1, 2] == pytest.approx(0.5 / 2.0)
    turned = Payoffs.from_frame(frame, ["c", "b", "a"])
    assert turned.scores[2, 1] == pytest.approx(payoffs.scores[0, 1])
    assert np.abs(payoffs.resampled(np.random.default_rng(0)).matrix()).max() <= 1.0
    by_outcome = Payoffs.from_frame(frame.drop(columns=["unit", "points", "deviation"]))
    assert by_outcome.matrix()[0, 1] == pytest.approx(1 / 3)


def test_games_of_a_tournament_count_scores_where_the_most_is_given():
    games = dataclasses.replace(games_from(2, [0, 0], [1, 1], [1.0, 0.0]), lead=np.array([1.0, -4.0]))
    assert Payoffs.from_games(games).scores[0, 1] == 0.5
    by_leads = Payoffs.from_games(games, 5.0)
    assert by_leads.scores[0, 1] == pytest.approx(0.5 - 3.0 / 20.0)
    assert by_leads.unit == "score"
