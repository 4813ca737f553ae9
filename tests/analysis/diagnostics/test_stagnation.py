import numpy as np
import pytest

from analysis.diagnostics.significance import Counts
from analysis.diagnostics.stagnation import MARGIN, gain_since
from tests.analysis.diagnostics.remembered import found
from tests.analysis.planted_runs import PLAYER, Plan, levelling
from tests.parameters import mostly_long

PLAN = Plan(batches=6, matches=1400, skill=levelling)


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(5), 2, variant=True))
def test_a_planted_stagnation_is_named_and_since_when(seed):
    (told,) = found("stagnation", PLAN, seed)
    assert told.subject == PLAYER
    evidence = told.evidence
    assert evidence["high"] < MARGIN
    step = int(evidence["since"].split("@")[1])
    assert step >= int(PLAN.snapshot(6).split("@")[1])  # it improved until then
    assert evidence["since_env_steps"] + evidence["env_steps"] == pytest.approx(13 * 6 * 2100 * 10, rel=0.01)


def scored(score, games):
    """Counts of scores [P, K]."""
    games = np.broadcast_to(np.asarray(games, float), score.shape).copy()
    return Counts(games, np.round(games * score), np.zeros(score.shape))


def test_a_flat_score_is_flat_only_if_there_were_enough_games_to_know():
    flat = np.full((5, 12), 0.6)
    assert gain_since(scored(flat, 500), 0, 2.0).high < MARGIN
    assert gain_since(scored(flat, 10), 0, 2.0).high > MARGIN


def test_a_change_of_opponents_is_no_gain():
    games = np.full((2, 12), 400.0)
    games[0, 6:], games[1, :6] = 100.0, 100.0  # first mostly the weak one, then mostly the strong one
    gain = gain_since(scored(np.array([[0.8] * 12, [0.4] * 12]), games), 0, 2.0)
    assert gain.value == pytest.approx(0.0, abs=0.01)


def test_opponents_that_are_always_beaten_say_nothing():
    assert gain_since(scored(np.full((5, 12), 0.99), 500), 0, 2.0) is None


def test_opponents_whose_changes_differ_widen_the_interval():
    alike, unlike = np.full((4, 12), 0.5), np.full((4, 12), 0.5)
    unlike[:2, -4:], unlike[2:, -4:] = 0.7, 0.3
    widths = [g.high - g.low for g in (gain_since(scored(s, 500), 0, 2.0) for s in (alike, unlike))]
    assert widths[1] > 3 * widths[0]
