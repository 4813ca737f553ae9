"""Earnings: who wins nothing against the mains has less of its share."""

import pytest

from league.rules.roles import EarningSettings, earned
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, MAIN_EXPLOITER, LivePlayer, Outcome

RULE = EarningSettings(least=0.2, win_rate=0.5, trial_steps=1_000, prior_strength=0.0)


@pytest.fixture
def part_at(make):
    """The part of an exploiter's share after it has won `wins` of ten games against the main."""

    def part(wins, since_reset=1_000, rule=RULE):
        exploiter = LivePlayer("x-0", MAIN_EXPLOITER)
        roster = Roster([LivePlayer("main-0", MAIN), exploiter])
        standings = Standings(roster, decay=1.0)
        outcomes = [Outcome.WIN] * wins + [Outcome.LOSS] * (10 - wins)
        standings.record(make.games(*[("x-0", "main-0", outcome) for outcome in outcomes]))
        return earned(exploiter, rule, roster, standings, since_reset)

    return part


@pytest.mark.parametrize(("wins", "part"), [(0, 0.2), (1, 0.2), (2, 0.4), (4, 0.8), (5, 1.0), (9, 1.0)])
def test_a_share_grows_with_the_win_rate_from_a_least_part_to_the_whole(part_at, wins, part):
    assert part_at(wins) == pytest.approx(part)


def test_a_player_has_its_whole_share_on_trial_and_without_a_rule(part_at):
    assert part_at(0, since_reset=999) == 1.0
    assert part_at(0, rule=None) == 1.0


def test_the_only_main_has_its_whole_share():
    main = LivePlayer("main-0", MAIN)
    roster = Roster([main])
    assert earned(main, RULE, roster, Standings(roster), 5_000) == 1.0
