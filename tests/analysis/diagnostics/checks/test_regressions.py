import numpy as np
import pytest

from analysis.diagnostics import diagnose
from tests.analysis.diagnostics.remembered import Remembered
from tests.analysis.planted_runs import EXPLOITER, PLAYER, Plan

EXPLOITED = Plan(advantage={(stage, Plan().exploiter(2)): -18.0 for stage in range(13)})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_who_loses_to_an_exploiter_now_is_told(seed):
    found = [
        f for f in diagnose(Remembered(np.random.default_rng(seed), EXPLOITED)) if f.kind == "regression"
    ]
    assert [(f.evidence["player"], f.evidence["opponent"]) for f in found] == [
        (PLAYER, EXPLOITED.exploiter(2))
    ]
    assert found[0].subject == EXPLOITED.snapshot(12)
    assert found[0].severity == "warning"
    assert found[0].evidence["high"] < 0.5
    assert f"to {EXPLOITED.exploiter(2)}" in found[0].sentence


@pytest.mark.slow
def test_a_player_that_found_the_remedy_is_not_told_of():
    advantage = {one: by for one, by in EXPLOITED.advantage.items() if one[0] < 9}
    found = diagnose(Remembered(np.random.default_rng(0), Plan(advantage=advantage)))
    assert not [f for f in found if f.kind == "regression"]


@pytest.mark.slow
def test_an_exploiter_that_was_reset_is_no_news():
    """It loses to the snapshots it was made for as long as it starts over."""
    run = Remembered(np.random.default_rng(1))
    lost = run.sql(f"SELECT sum(wins) / sum(games) AS score FROM meetings WHERE home = '{EXPLOITER}'")[
        "score"
    ]
    assert lost.item() < 0.45
    assert diagnose(run) == []
