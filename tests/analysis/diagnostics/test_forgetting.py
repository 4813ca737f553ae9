import numpy as np
import pytest

from analysis.diagnostics import diagnose
from analysis.diagnostics.forgetting import surest_drop
from analysis.diagnostics.significance import Counts
from tests.analysis.diagnostics.remembered import Remembered, found
from tests.analysis.planted_runs import EXPLOITER, PLAYER, Plan, forgetting
from tests.parameters import mostly_long

PLAN = Plan(advantage=forgetting(Plan()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(5), 2, variant=True))
def test_a_planted_forgetting_is_named_with_opponent_and_time(seed):
    (told,) = found("forgetting", PLAN, seed)
    evidence = told.evidence
    assert (told.subject, evidence["opponent"]) == (PLAYER, PLAN.snapshot(4))
    assert told.severity == "warning"
    assert evidence["after"]["high"] < evidence["before"]["low"]
    earlier, later = (int(name.split("@")[1]) for name in evidence["between"])
    planted = int(PLAN.snapshot(8).split("@")[1])  # it forgets from stage 8 on
    assert earlier <= planted <= later
    assert later - earlier <= 3 * int(PLAN.snapshot(1).split("@")[1])
    assert PLAN.snapshot(4) in told.sentence


def scores(*of_moments, games=400.0):
    score = np.array([of_moments])
    played = np.full(score.shape, games)
    return Counts(played, np.round(score * played), np.zeros(score.shape))


def test_the_drop_is_found_where_it_is():
    drop = surest_drop(scores(0.4, 0.6, 0.8, 0.8, 0.8, 0.5, 0.5, 0.5))
    assert drop.p_value[0] < 1e-12
    assert (int(drop.last[0]), int(drop.since[0])) == (4, 5)


def test_what_was_lost_and_found_again_is_no_forgetting():
    assert surest_drop(scores(0.8, 0.8, 0.8, 0.3, 0.3, 0.8, 0.8)).p_value[0] > 0.5


def test_bad_times_of_many_games_do_not_hide_that_they_are_over():
    counts = scores(0.8, 0.8, 0.3, 0.3, 0.8)
    counts.games[0] = [400, 400, 4000, 4000, 60]  # matchmaking sought the opponent out
    counts.wins[0] = [320, 320, 1200, 1200, 48]
    assert surest_drop(counts).p_value[0] == 1.0


def test_a_loss_within_the_margin_is_nothing_however_many_games_show_it():
    assert surest_drop(scores(0.60, 0.60, 0.57, 0.57, games=1e6)).p_value[0] == 1.0


def test_drops_are_rarely_found_in_chance():
    rng = np.random.default_rng(3)
    games = np.full((4000, 16), 60.0)
    p_value = surest_drop(Counts(games, rng.binomial(60, 0.7, games.shape), np.zeros_like(games))).p_value
    assert np.mean(p_value < 0.01) <= 0.01


EXPLOITED = Plan(advantage={(stage, Plan().exploiter(2)): -18.0 for stage in range(13)})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_who_loses_to_an_exploiter_now_is_told(seed):
    (told,) = found("regression", EXPLOITED, seed)
    assert (told.evidence["player"], told.evidence["opponent"]) == (PLAYER, EXPLOITED.exploiter(2))
    assert told.subject == EXPLOITED.snapshot(12)
    assert told.severity == "warning"
    assert told.evidence["high"] < 0.5
    assert f"to {EXPLOITED.exploiter(2)}" in told.sentence


@pytest.mark.slow
def test_a_player_that_found_the_remedy_is_not_told_of():
    advantage = {one: by for one, by in EXPLOITED.advantage.items() if one[0] < 9}
    assert found("regression", Plan(advantage=advantage)) == []


@pytest.mark.slow
def test_an_exploiter_that_was_reset_is_no_news():
    """It loses to the snapshots it was made for as long as it starts over."""
    run = Remembered(np.random.default_rng(1))
    lost = run.sql(f"SELECT sum(wins) / sum(games) AS score FROM meetings WHERE home = '{EXPLOITER}'")[
        "score"
    ]
    assert lost.item() < 0.45
    assert diagnose(run) == []
