import numpy as np
import pytest

from analysis.diagnostics import diagnose
from tests.analysis.diagnostics.remembered import Remembered, found
from tests.analysis.planted_runs import PLAYER, Plan


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_ratings_that_run_away_from_results_are_told(seed):
    (drift,) = found("drift", Plan(inflation=10.0), seed)
    assert drift.subject == PLAYER
    assert drift.evidence["anchor"] == f"{PLAYER}@0"
    assert drift.evidence["lead"] == pytest.approx(28.0, abs=2.0)
    assert drift.evidence["lead_by_results"] == pytest.approx(18.0, abs=3.0)  # its skill grew by so much


@pytest.mark.slow
def test_a_snapshot_that_was_placed_wrongly_is_told_with_what_results_say():
    run = Remembered(np.random.default_rng(0))
    name = Plan().snapshot(5)
    (mu,) = run.sql(f"SELECT last(mu ORDER BY seq) AS mu FROM ratings WHERE competitor = '{name}'")["mu"]
    run.sql(f"UPDATE ratings SET mu = mu - 9 WHERE competitor = '{name}'")
    (drift,) = [f for f in diagnose(run) if f.kind == "drift"]
    assert drift.subject == name
    assert drift.evidence["mu"] == pytest.approx(mu - 9)
    assert drift.evidence["mu_by_results"] == pytest.approx(mu, abs=1.5)
