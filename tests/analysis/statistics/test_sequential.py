import numpy as np
import pytest

from analysis.statistics.elo import elo_from_counts, score_of_elo
from analysis.statistics.sprt import Sprt, sequential_elo

TEST = Sprt(0.0, 20.0)


def stopped(elo, rng, batch=16):
    """Counts of losses, draws and wins when the test has decided."""
    score, counts = score_of_elo(elo), np.zeros(3)
    while TEST.decide(float(TEST.llr(counts))) is None:
        counts += rng.multinomial(batch, [0.7 - score, 0.6, score - 0.3])
    return counts


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.variant
@pytest.mark.parametrize("elo", [0.0, 10.0, 25.0])
def test_the_interval_of_a_stopped_test_holds_and_its_estimate_is_not_biased(elo):
    rng = np.random.default_rng(1)
    found = [sequential_elo(TEST, stopped(elo, rng)) for _ in range(200)]
    assert np.mean([one.low <= elo <= one.high for one in found]) > 0.91
    assert np.median([one.elo for one in found]) == pytest.approx(elo, abs=2.5)


def test_a_test_that_stopped_early_estimates_less_than_its_score():
    counts = stopped(40.0, np.random.default_rng(2))
    found, plain = sequential_elo(TEST, counts), elo_from_counts(counts).single()
    assert found.low < found.elo < found.high
    assert found.elo < plain.elo
    assert found.los > 0.95


def test_a_test_that_goes_on_has_an_interval_too():
    found = sequential_elo(TEST, [40, 60, 50])
    assert found.low < 0.0 < found.elo < found.high
