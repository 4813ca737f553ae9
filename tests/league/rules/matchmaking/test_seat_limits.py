"""Leagues in which not everybody may take every seat."""

import numpy as np
import pytest

from league.rules.matchmaking.branches import MATCH_TYPES, OpponentSettings
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.pools import Pool
from league.rules.matchmaking.seat_limits import TeamLimits, fitting
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.roles import RoleSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, Bot, LivePlayer, Purpose, Role

CHALLENGER = Role("challenger")
SEATS = {"main-0": (0,), "challenger-0": (1,), "challenger-1": (2,)}


def seats_of(competitor):
    return None if isinstance(competitor, Bot) else SEATS[competitor.player]


def rules(**shares):
    branches = {name: {"share": share} for name, share in shares.items()}
    return RoleSettings(opponents=OpponentSettings(branches=branches, bots={"random": 1}))


@pytest.fixture
def draw(make):
    """A league of three players, each with a seat of its own, and two snapshots of each."""

    def draw(player="main-0", n=600, *, snapshots=True, evaluate=False, seats=3, teams=None, **shares):
        players = [LivePlayer("main-0", MAIN), *(LivePlayer(f"challenger-{i}", CHALLENGER) for i in (0, 1))]
        roster = Roster([*players, Bot("random")])
        standings = Standings(roster)
        for live in players if snapshots else ():
            for i in range(2):
                new = make.snapshot(f"{live.player}@{i}", player=live.player, role=live.role, env_steps=i)
                roster.admit(new)
                standings.on_admit(new, parent=live.player)
        roles = dict.fromkeys((MAIN, CHALLENGER), rules(**(shares or {"pfsp": 1.0})))
        matchmaker = Matchmaker(
            roles, MatchmakingSettings(teams=teams), num_seats=seats, env="any", seed=1, seats_of=seats_of
        )
        home = next(live for live in players if live.player == player)
        ask = matchmaker.evaluation_matches if evaluate else matchmaker.next_matches
        return ask(home, n, roster, standings, np.random.default_rng(0), 10)

    return draw


def seated(matches, seat):
    return {matches.competitors[i] for i in np.unique(matches.seat[:, seat]).tolist()}


def test_every_seat_is_taken_by_somebody_who_may_take_it(draw):
    matches = draw()
    assert seated(matches, 0) == {"main-0"}
    assert seated(matches, 1) == {"challenger-0@0", "challenger-0@1"}
    assert seated(matches, 2) == {"challenger-1@0", "challenger-1@1"}
    assert matches.learning.tolist() == [[True, False, False]] * 600


def test_opponents_in_two_seats_are_drawn_independently(draw):
    matches = draw()
    pairs = {tuple(row) for row in matches.seat[:, 1:].tolist()}
    assert len(pairs) == 4


def test_where_a_player_cannot_play_itself_all_others_play_and_all_learn(draw):
    matches = draw(self_play=1.0)
    assert [seated(matches, seat) for seat in range(3)] == [{"main-0"}, {"challenger-0"}, {"challenger-1"}]
    assert matches.learning.all()
    assert {MATCH_TYPES[t] for t in matches.match_type.tolist()} == {"self_play"}


def test_before_there_are_snapshots_the_others_are_played_as_they_are(draw):
    matches = draw("challenger-1", snapshots=False)
    assert [seated(matches, seat) for seat in range(3)] == [{"main-0"}, {"challenger-0"}, {"challenger-1"}]


def test_a_branch_of_which_nobody_fits_any_other_seat_becomes_self_play(draw):
    matches = draw(latest=1.0)  # its own newest snapshot, which may take no seat but its own
    assert {MATCH_TYPES[t] for t in matches.match_type.tolist()} == {"self_play"}
    assert seated(matches, 1) == {"challenger-0"}


def test_a_bot_may_take_every_seat(draw):
    matches = draw(bots=1.0)
    assert [seated(matches, seat) for seat in range(3)] == [{"main-0"}, {"random"}, {"random"}]


def test_evaluation_seats_those_who_fit_and_nobody_learns(draw):
    matches = draw("challenger-0", evaluate=True)
    assert matches.purpose is Purpose.EVALUATION
    assert seated(matches, 1) == {"challenger-0"}
    assert {"random"} < seated(matches, 0) <= {"main-0@0", "main-0@1", "random"}
    assert not matches.learning.any()


def test_who_may_take_one_seat_of_a_team_may_not_be_the_team():
    roster = Roster([LivePlayer("main-0", MAIN), LivePlayer("main-1", MAIN)])
    seats = {"main-0": (0, 1, 2), "main-1": (2, 3)}
    places = TeamLimits(np.array([0, 0, 1, 1]), lambda competitor: seats[competitor.player])
    assert places.may(roster).tolist() == [[True, False], [False, True]]


def test_newcomers_are_asked_about_once(make):
    asked = []
    places = TeamLimits(np.array([0, 1]), lambda competitor: asked.append(competitor.competitor))
    roster = Roster([LivePlayer("main-0", MAIN)])
    places.may(roster)
    roster.admit(make.snapshot("main-0@0", player="main-0"))
    assert places.may(roster).all()
    assert asked == ["main-0", "main-0@0"]


def test_those_of_a_pool_who_fit_keep_their_weights():
    pool = Pool(np.array([2, 5, 7]), np.array([0.5, 0.2, 0.3]))
    may = np.zeros(8, bool)
    may[[2, 7]] = True
    fit = fitting(pool, may)
    assert fit.candidates.tolist() == [2, 7]
    assert fit.p.tolist() == pytest.approx([0.625, 0.375])


def test_those_who_fit_but_have_no_weight_are_nobody():
    assert not fitting(Pool(np.array([0, 1]), np.array([0.0, 1.0])), np.array([True, False]))


def test_the_same_rng_draws_the_same_matches(draw):
    one, other = draw(), draw()
    assert (one.seat == other.seat).all()
