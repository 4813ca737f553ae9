import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from league.rules.rating.rating import RatingSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, MAIN_EXPLOITER, Bot, Entrant, LivePlayer, Outcome, RatingChange
from tests.league.rules.rating.team_score import team_score

WIN, DRAW, LOSS, FORFEIT = Outcome


@pytest.fixture
def roster(make):
    return Roster(
        [
            LivePlayer("main-0", MAIN),
            LivePlayer("x-0", MAIN_EXPLOITER),
            Bot("random"),
            make.snapshot("main-0@0"),
            make.snapshot("x-0@0", player="x-0", role="main_exploiter"),
        ]
    )


def bits(standings: Standings) -> bytes:
    everyone = np.arange(len(standings.ratings))
    payoff = [standings.payoff.wins(i, everyone) for i in everyone]
    payoff += [standings.payoff.draws(i, everyone) for i in everyone]
    book = standings.ratings
    draws = np.array([book.draw_probability])
    return b"".join(a.tobytes() for a in [*payoff, book.mu, book.variance, book.games, book.fixed, draws])


def test_replaying_the_same_batches_gives_the_same_bits(roster, make):
    rng = np.random.default_rng(3)
    batches = [make.random_games(roster, 300, rng) for _ in range(4)]
    first, again, other = Standings(roster), Standings(roster), Standings(roster)
    for batch in batches:
        assert first.record(batch) == again.record(batch)
    for batch in reversed(batches):
        other.record(batch)
    assert bits(first) == bits(again)
    assert bits(first) != bits(other)


def test_a_batch_reports_the_last_rating_of_everyone_who_played(roster, make):
    standings = Standings(roster)
    changes = standings.record(make.games(("main-0", "x-0", WIN), ("x-0", "main-0", LOSS)))
    assert [c.competitor for c in changes] == ["main-0", "x-0"]
    assert changes[0] == RatingChange("main-0", standings.ratings.mu[0], standings.ratings.sigma[0], 2)
    assert changes[0].mu > 25.0 > changes[1].mu


def test_self_play_changes_nothing(roster, make):
    standings = Standings(roster)
    before = bits(standings)
    assert standings.record(make.games(("main-0", "main-0", WIN))) == []
    assert bits(standings) == before


def test_games_for_one_move_no_rating(roster, make):
    standings = Standings(roster)
    before = bits(standings)
    alone = make.results(
        make.seated(("main-0",), ("random",), ("main-0",)), np.array([[WIN], [FORFEIT], [WIN]])
    )
    assert standings.record(alone) == []
    assert bits(standings) == before
    assert all(row.win_rate is None for row in standings.leaderboard())
    with pytest.raises(KeyError, match="stranger"):
        standings.record(make.results(make.seated(("stranger",)), np.array([[WIN]])))


def test_an_unknown_competitor_or_an_impossible_draw_records_nothing(roster, make):
    standings = Standings(roster, RatingSettings(draw_probability=0.0))
    before = bits(standings)
    with pytest.raises(KeyError, match="stranger"):
        standings.record(make.games(("main-0", "x-0", WIN), ("main-0", "stranger", WIN)))
    with pytest.raises(ValueError, match="draw_probability"):
        standings.record(make.games(("main-0", "x-0", WIN), ("main-0", "x-0", DRAW)))
    assert bits(standings) == before


def test_a_forfeit_is_a_loss(roster, make):
    lost, forfeited = Standings(roster), Standings(roster)
    lost.record(make.games(("main-0", "x-0", LOSS)))
    forfeited.record(make.games(("main-0", "x-0", FORFEIT)))
    assert bits(lost) == bits(forfeited)


def test_win_rate_shrinks_the_record_to_the_prediction(roster, make):
    standings = Standings(roster, decay=1.0)
    standings.record(make.games(*[("main-0", "x-0", WIN)] * 3, ("main-0", "x-0", DRAW)))
    prior = standings.ratings.win_probability(0, np.array([1]))[0]
    opponents = np.array([1, 3])
    assert standings.win_rate(0, opponents, 0.0)[0] == 3.5 / 4
    assert standings.win_rate(0, opponents, 6.0)[0] == pytest.approx((3.5 + 6 * prior) / 10)
    assert standings.win_rate(1, np.array([0]), 6.0)[0] == pytest.approx(1 - (3.5 + 6 * prior) / 10)


def test_without_games_and_prior_the_win_rate_is_the_prediction(roster):
    standings = Standings(roster)
    standings.ratings.mu[1] = 30.0
    opponents = np.array([1, 2])
    expected = standings.ratings.win_probability(0, opponents)
    np.testing.assert_array_equal(standings.win_rate(0, opponents, 0.0), expected)
    assert standings.win_rate(0, np.zeros(0, dtype=np.int64), 0.0).shape == (0,)


def test_a_new_snapshot_inherits_mu_with_fresh_sigma_and_no_games(roster, make):
    standings = Standings(roster)
    standings.record(make.games(*[("main-0", "x-0", WIN)] * 40))
    newcomer = make.snapshot("main-0@1")
    index = roster.admit(newcomer)
    standings.on_admit(newcomer, parent="main-0")
    assert standings.ratings.mu[index] == standings.ratings.mu[0] > 25.0
    assert standings.ratings.sigma[index] == pytest.approx(25 / 3)
    assert standings.payoff.games(index, np.arange(index)).sum() == 0
    assert standings.win_rate(0, np.array([index]), 10.0)[0] == 0.5


def test_a_reset_player_starts_over_from_its_target(roster, make):
    standings = Standings(roster)
    standings.record(make.games(*[("x-0", "main-0", WIN)] * 10, ("main-0", "random", WIN)))
    standings.ratings.mu[4] = 11.0
    standings.on_reset("x-0", "x-0@0")
    assert standings.ratings.mu[1] == 11.0
    assert standings.ratings.sigma[1] == pytest.approx(25 / 3)
    assert standings.ratings.games.tolist() == [11, 0, 1, 0, 0]
    assert standings.payoff.recorded(0, np.arange(5)).tolist() == [0, 0, 1, 0, 0]
    with pytest.raises(ValueError, match="'random' does not learn"):
        standings.on_reset("random", "x-0@0")


def test_the_first_that_never_learns_is_the_anchor(roster, make):
    standings = Standings(roster)
    assert standings.anchors == ["random"]
    standings.record(make.games(*[("main-0", "random", WIN)] * 5))
    assert standings.ratings.mu[2] == 25.0
    assert standings.ratings.mu[0] > 25.0


def test_named_anchors_start_where_they_are_given_and_one_without_an_error_never_moves(roster, make):
    given = {"main-0@0": 400, "random": {"elo": -100, "error": 50}}
    standings = Standings(roster, RatingSettings(anchors=given))
    fixed, unsure = standings.rating("main-0@0"), standings.rating("random")
    assert sorted(standings.anchors) == ["main-0@0", "random"]
    expected = NormalDist().cdf((fixed.mu - 25.0) / (math.sqrt(2.0) * standings.settings.beta))
    assert expected == pytest.approx(10 / 11, abs=0.01)  # the score of a lead of 400 Elo
    assert (unsure.mu - 25.0, unsure.sigma) == pytest.approx((-(fixed.mu - 25.0) / 4, (fixed.mu - 25.0) / 8))
    standings.record(make.games(*[("main-0@0", "random", WIN), ("random", "main-0", WIN)] * 5))
    assert standings.rating("main-0@0").mu == fixed.mu
    assert standings.rating("random").mu > unsure.mu
    assert {row.competitor for row in standings.leaderboard() if row.apart} >= {"main-0@0", "random"}


def test_an_anchor_must_not_learn(roster):
    with pytest.raises(ValueError, match=r"ratings\.anchors: 'main-0' is a player that learns"):
        Standings(roster, RatingSettings(anchors={"main-0": 0}))


def test_announcing_out_of_order_is_refused(roster, make):
    standings = Standings(roster)
    first, second = make.snapshot("s1"), make.snapshot("s2")
    roster.admit(first)
    roster.admit(second)
    with pytest.raises(ValueError, match="'s2' has index 6, expected 5"):
        standings.on_admit(second, parent=None)


def test_the_leaderboard_is_ordered_by_what_is_nearly_certain(roster, make):
    standings = Standings(roster)
    standings.record(make.games(*[("main-0", "x-0", WIN)] * 10, ("main-0", "x-0", DRAW)))
    roster.retire("x-0@0")
    rows = standings.leaderboard()
    led = [r.mu - 3.0 * r.sigma for r in rows if not r.apart]
    assert led == sorted(led, reverse=True)
    assert [r.apart for r in rows] == sorted(r.apart for r in rows)
    by_name = {r.competitor: r for r in rows}
    assert by_name["main-0"].games == 11
    assert by_name["main-0"].win_rate == pytest.approx(10.5 / 11)
    assert by_name["random"].role is None
    assert by_name["random"].win_rate is None
    assert by_name["x-0@0"].retired


def test_bots_anchors_and_untrained_weights_never_lead_and_a_newcomer_is_never_last(make):
    old, new = make.snapshot("main-0@5", env_steps=5), make.snapshot("main-0@9", env_steps=9)
    roster = Roster([Bot("random"), LivePlayer("main-0", MAIN), make.snapshot("main-0@0"), old])
    standings = Standings(roster, RatingSettings(anchors={"random": 0}))
    standings.record(make.games(*[("random", "main-0", WIN), ("main-0@0", "main-0@5", WIN)] * 20))
    standings.record(make.games(*[("main-0", "main-0@5", WIN)] * 20))
    roster.admit(new)
    standings.on_admit(new, parent="main-0")
    rows = standings.leaderboard()
    assert {row.competitor for row in rows[-2:]} == {"random", "main-0@0"}
    assert all(row.apart for row in rows[-2:])
    assert [row.competitor for row in rows[:-2]].index("main-0@9") < 2


def test_a_pure_cycle_stays_finite_and_only_the_payoff_sees_it(make):
    roster = Roster([make.snapshot(name) for name in ("rock", "paper", "scissors")])
    standings = Standings(roster)
    turn = (("paper", "rock", WIN), ("scissors", "paper", WIN), ("rock", "scissors", WIN))
    for _ in range(200):
        standings.record(make.games(*turn))
    assert np.isfinite(standings.ratings.mu).all()
    assert np.ptp(standings.ratings.mu) < 5.0
    rates = standings.win_rate(1, np.array([0, 2]), 10.0)
    assert rates[0] > 0.9
    assert rates[1] < 0.1


def test_free_for_alls_are_rated_and_recorded_pair_by_pair(roster, make):
    standings = Standings(roster)
    outcome = np.array([[WIN, DRAW, LOSS]])
    batch = make.results(make.seated(("main-0", "x-0", "main-0@0")), outcome, rank=np.array([[0, 1, 2]]))
    changes = standings.record(batch)
    assert [c.competitor for c in changes] == ["main-0", "x-0", "main-0@0"]
    assert changes[0].mu > changes[1].mu > changes[2].mu
    assert standings.payoff.wins(0, np.array([1, 3])).tolist() == [1.0, 1.0]
    assert standings.payoff.wins(1, np.array([0, 3])).tolist() == [0.0, 1.0]


TEAMS = (0, 0, 1, 1)


def team_games(make, roster, n, rng, sizes=TEAMS):
    """Matches of random teams, anyone sitting anywhere, with random ranks."""
    names, team = roster.ids, np.array(sizes)
    rows = [tuple(names[k] for k in rng.integers(len(names), size=len(team))) for _ in range(n)]
    rank = rng.integers(2, size=(n, team.max() + 1))[:, team]
    outcome = np.where(rank == 0, WIN, LOSS)
    return make.results(make.seated(*rows), outcome, rank=rank)


def test_teams_are_rated_and_recorded_against_their_opponents(roster, make):
    standings = Standings(roster, teams=TEAMS)
    outcome, rank = np.array([[WIN, WIN, LOSS, LOSS]]), np.array([[0, 0, 1, 1]])
    rows = make.seated(("main-0", "main-0", "x-0", "main-0@0"))
    changes = standings.record(make.results(rows, outcome, rank=rank))
    assert [(c.competitor, c.games) for c in changes] == [("main-0", 1), ("x-0", 1), ("main-0@0", 1)]
    assert changes[0].mu > 25.0 > changes[1].mu
    assert standings.payoff.wins(0, np.array([1, 3])).tolist() == [1.0, 1.0]
    assert standings.payoff.recorded(1, np.array([3])).tolist() == [0]  # of one team
    assert standings.payoff.totals(0) == (2, 2, 0)  # two opponents


def test_seats_that_do_not_fit_the_teams_are_refused(roster, make):
    standings = Standings(roster, teams=TEAMS)
    with pytest.raises(
        ValueError, match=r"matches of 2 seats, expected 4 seats, of the teams \[0, 0, 1, 1\]"
    ):
        standings.record(make.games(("main-0", "x-0", WIN)))


@pytest.mark.parametrize("names", [("main-0", "x-0", "random"), ("main-0", "x-0", "random", "x-0@0")])
def test_a_match_that_all_forfeit_says_nothing_of_anyone(roster, make, names):
    teams = TEAMS if len(names) == 4 else None
    standings = Standings(roster, RatingSettings(draw_probability=0.0), teams=teams)
    before = bits(standings)
    crashed = make.results(
        make.seated(names), np.full((1, len(names)), FORFEIT), rank=np.zeros((1, len(names)))
    )
    assert standings.record(crashed) == []
    assert bits(standings) == before


def test_a_league_of_teams_with_all_that_moves_replays_to_the_same_bits(roster, make):
    rng = np.random.default_rng(8)
    settings = RatingSettings(draw_probability="estimated", update_drift=0.05, placement_games=40)
    batches = [team_games(make, roster, 150, rng) for _ in range(4)]

    def fold():
        again = Roster([roster.at(k) for k in range(len(roster))])
        standings = Standings(again, settings, teams=TEAMS)
        for i, batch in enumerate(batches):
            standings.record(batch)
            new = replace(make.snapshot(f"main-0@{i + 1}"), updates=100 * (i + 1))
            again.admit(new)
            standings.on_admit(new, parent="main-0")
            if i == 2:
                standings.on_reset("x-0", "x-0@0")
        return standings

    first, second = fold(), fold()
    assert bits(first) == bits(second)
    assert first.ratings.draw_probability != 0.1  # it was estimated on the way
    assert first.ratings.fixed.any()


def test_a_snapshot_tells_how_much_its_player_has_changed(roster, make):
    def sigmas(drift):
        league = Roster([roster.at(k) for k in range(5)])
        standings = Standings(league, RatingSettings(update_drift=drift))
        standings.record(make.games(*[("main-0", "x-0", WIN), ("x-0", "main-0", WIN)] * 40))
        found = [standings.ratings.sigma[0]]
        for i, updates in enumerate((300, 300, 500)):
            new = replace(make.snapshot(f"main-0@{i + 1}"), updates=updates)
            league.admit(new)
            standings.on_admit(new, parent="main-0")
            found.append(standings.ratings.sigma[0])
        assert standings.ratings.sigma[-1] == pytest.approx(25 / 3)  # the snapshot's own is fresh
        return found

    still, moves = sigmas(0.0), sigmas(0.1)
    assert still == [still[0]] * 4
    assert moves[1] ** 2 == pytest.approx(still[0] ** 2 + 300 * 0.01)
    assert moves[2] == moves[1]  # not updated in between
    assert moves[3] ** 2 == pytest.approx(moves[1] ** 2 + 200 * 0.01)


def test_standings_of_a_roster_that_is_already_there_are_not_widened_out_of_order(make):
    snapshot = replace(make.snapshot("main-0@9"), updates=900)
    standings = Standings(Roster([snapshot, LivePlayer("main-0", MAIN)]), RatingSettings(update_drift=1.0))
    assert standings.ratings.sigma[1] == pytest.approx(25 / 3)


@pytest.mark.slow
def test_recording_costs_the_same_in_a_league_of_thousands(make):
    """Array operations and Python steps for who plays, none for who does not."""
    names = [f"s{k}" for k in range(3000)]
    roster = Roster([make.snapshot(name) for name in names])
    standings = Standings(roster)
    batch = make.games(*[("s0", "s1", WIN), ("s2", "s0", DRAW)] * 20)
    visited = []
    roster.at, roster.id = (lambda k: visited.append(k)), (lambda k: visited.append(k) or f"s{k}")
    changes = standings.record(batch)
    assert sorted(set(visited)) == [0, 1, 2]
    assert [c.competitor for c in changes] == ["s0", "s1", "s2"]
    assert standings.payoff.recorded(0, np.array([1, 2, 2999])).tolist() == [20, 20, 0]


def test_in_a_game_of_teams_the_prediction_is_of_teams(roster):
    standings, alone = Standings(roster, teams=TEAMS), Standings(roster)
    for each in (standings, alone):
        each.ratings.mu[:] = [25.0, 30.0, 20.0, 28.0, 24.0]
    away = np.array([1, 2])
    found = standings.win_rate(0, away, 10.0)
    expected = team_score(standings.ratings, np.zeros((2, 2), int), np.stack([away, away], axis=1))
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert (np.abs(found - 0.5) > np.abs(alone.win_rate(0, away, 10.0) - 0.5)).all()  # noise averages out


def test_teams_of_unequal_size_are_predicted_from_either_side(roster):
    standings = Standings(roster, teams=(0, 1, 1, 1))
    standings.ratings.mu[:2] = [25.0, 35.0]
    one, three = np.array([[0]]), np.array([[0, 0, 0]])
    few = team_score(standings.ratings, one, np.array([[1, 1, 1]]))
    many = team_score(standings.ratings, three, np.array([[1]]))
    assert standings.win_rate(0, np.array([1]), 10.0)[0] == pytest.approx((few[0] + many[0]) / 2)
    assert standings.win_rate(1, np.array([0]), 10.0)[0] == pytest.approx(1 - (few[0] + many[0]) / 2)
    assert standings.win_rate(0, np.array([0]), 10.0)[0] == pytest.approx(0.5)


def test_seats_that_all_play_for_themselves_are_no_teams(roster, make):
    apart, named = Standings(roster), Standings(roster, teams=np.arange(3))
    batch = make.results(
        make.seated(("main-0", "x-0", "x-0"), ("x-0", "main-0@0", "main-0")),
        np.array([[WIN, LOSS, LOSS]] * 2),
        rank=np.array([[0, 1, 2]] * 2),
    )
    assert apart.record(batch) == named.record(batch)
    assert bits(apart) == bits(named)


def test_a_team_of_everyone_against_the_game_rates_nobody(roster, make):
    standings = Standings(roster, teams=(0, 0))
    before = bits(standings)
    assert standings.record(make.games(("main-0", "x-0", WIN))) == []
    assert bits(standings) == before
    assert standings.win_rate(0, np.array([1]), 10.0)[0] == 0.5


def test_the_games_of_a_role_may_fade_by_a_decay_of_its_own(roster, make):
    standings = Standings(roster, decay=1.0, decay_of_role={MAIN_EXPLOITER: 0.5})
    exploiter, main, bot = (roster.index(name) for name in ("x-0", "main-0", "random"))
    for home, away in ((exploiter, bot), (main, bot)):
        standings.payoff.record(np.full(3, home), np.full(3, away), np.full(3, WIN, np.int8))
    assert standings.payoff.games(exploiter, np.array([bot])).tolist() == [1.75]
    assert standings.payoff.games(main, np.array([bot])).tolist() == [3.0]


def entrant(name, kind="snapshot", role=MAIN):
    return Entrant(name, kind, role, None, None, None, None, None, None, None)


def test_entrants_of_a_tournament_are_rated_as_what_never_changes(make):
    names = ["main-0@5", "main-0@5:greedy", "random"]
    roster = Roster([entrant(names[0]), entrant(names[1]), entrant("random", "bot", None)])
    standings = Standings(roster)
    assert standings.anchors == ["main-0@5"]
    changes = standings.record(make.games(*[(names[1], other, WIN) for other in (names[0], "random") * 5]))
    assert {change.competitor for change in changes} == set(names)
    board = standings.leaderboard()
    assert (board[0].competitor, board[0].role) == (names[1], MAIN)
    assert {row.competitor: row.role for row in board}["random"] is None
    with pytest.raises(ValueError, match="does not learn"):
        standings.on_reset(names[0], names[1])


def chips(make, *leads):
    """Matches of a against b with these leads of a."""
    batch = make.games(*[("a", "b", WIN if lead > 0 else LOSS) for lead in leads])
    batch.score[:] = np.array([[lead, -lead] for lead in leads])
    return batch


def test_where_payoffs_count_scores_one_large_win_outweighs_many_small_losses(make):
    roster = Roster([make.snapshot("a"), make.snapshot("b")])
    by_score, by_outcome = Standings(roster, decay=1.0, scale=2.0), Standings(roster, decay=1.0)
    leads = [-1.0] * 8 + [10.0]
    for each in (by_score, by_outcome):
        each.record(chips(make, *leads))
    b = np.array([1])
    assert by_outcome.win_rate(0, b, 0.0)[0] == pytest.approx(1 / 9)
    assert by_outcome.lead(0, b)[0] == pytest.approx(2 / 9 - 1)
    assert by_score.lead(0, b)[0] == pytest.approx(2 / 9)
    assert by_score.win_rate(0, b, 0.0)[0] == pytest.approx(0.5 + 2 / 9 / 4.0)
    assert by_score.win_rate(0, b, 9.0)[0] == pytest.approx(0.5 + 1 / 9 / 4.0)  # as many even games
    leads = {row.competitor: row.lead for row in by_score.leaderboard()}
    assert leads == {"a": pytest.approx(2 / 9), "b": pytest.approx(-2 / 9)}
    assert by_outcome.leaderboard()[0].lead is None


def test_a_win_rate_by_scores_stays_within_0_and_1_and_the_lead_does_not(make):
    standings = Standings(Roster([make.snapshot("a"), make.snapshot("b")]), scale=1.0)
    standings.record(chips(make, 5.0, 5.0))
    assert standings.win_rate(0, np.array([1]), 0.0)[0] == 1.0
    assert standings.win_rate(1, np.array([0]), 0.0)[0] == 0.0
    assert standings.lead(0, np.array([1]))[0] == pytest.approx(5.0)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_the_error_of_a_lead_is_that_of_a_mean_and_infinite_without_games(make, scale):
    standings = Standings(Roster([make.snapshot(name) for name in "abc"]), decay=1.0, scale=scale)
    rng = np.random.default_rng(0)
    leads = rng.choice([-1.0, 1.0], size=400, p=[0.3, 0.7])
    standings.record(chips(make, *leads))
    error = standings.lead_error(0, np.array([1, 2]))
    assert error[0] == pytest.approx(leads.std() / np.sqrt(400), rel=0.01)
    assert error[1] == np.inf
    few = Standings(Roster([make.snapshot(name) for name in "ab"]), scale=scale)
    few.record(chips(make, 1.0, 1.0, 1.0))
    assert 0.2 < few.lead_error(0, np.array([1]))[0] < 1.0  # three equal results are not certain
