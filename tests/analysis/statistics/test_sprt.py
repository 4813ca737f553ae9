"""Sequential tests: the published log likelihood ratios, and errors no more frequent than asked for."""

import math

import numpy as np
import pytest

from analysis.statistics.elo import NORMALIZED_ELO, elo_of_score, score_of_elo
from analysis.statistics.sprt import Sprt

PAIR_SCORES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


# ---------------------------------------------------------------- published figures


@pytest.mark.parametrize(
    ("model", "elo0", "elo1", "counts", "llr"),
    [  # losses, draws, wins; or pairs of 0, 1/2, ... 2 points
        ("normalized", 0, 2, (36027, 68692, 36433), 0.92),
        ("normalized", -1.75, 0.25, (10650, 20431, 10871), 2.30),
        ("logistic", 0.5, 2.5, (21184, 40708, 21404), -1.57),
        ("logistic", 0, 2, (57030, 106593, 57433), -2.59),
        ("normalized", 0, 2, (365, 16618, 36029 + 200, 16974, 390), 2.25),
        ("normalized", -1.75, 0.25, (127, 4883, 10311 + 401, 5150, 104), 3.01),
        ("logistic", 0.5, 2.5, (223, 9863, 20279 + 1000, 10037, 246), -3.07),
        ("logistic", 0, 2, (871, 26175, 55003 + 980, 26678, 821), -4.98),
        # https://github.com/official-stockfish/Stockfish, pull requests 6036 (nobody lost both games of a
        # pair) and 3017
        ("normalized", 0, 2, (0, 1236, 4490, 1474, 1), 2.94),
        ("logistic", -1.5, 0.5, (174, 2658, 10273, 2713, 178), 2.96),
    ],
)
def test_llr_is_that_of_fastchess_and_of_tests_that_fishtest_stopped(model, elo0, elo1, counts, llr):
    """https://github.com/Disservin/fastchess, app/tests/sprt_test.cpp at 0cbac49: all but its two matches
    with one outcome only, whose likeliest distribution it approximates."""
    assert round(float(Sprt(elo0, elo1, model=model).llr(counts)), 2) == llr


def test_llr_is_that_of_fishtest_to_eleven_digits():
    """https://github.com/official-stockfish/fishtest/issues/1737, printed by its SPRT_elo."""
    test = Sprt(-1.75, 0.25, model="normalized")
    assert float(test.llr((93, 18711, 58877, 18739, 100))) == pytest.approx(2.9420974720708513, abs=1e-10)
    assert test.bounds == pytest.approx((-2.9444389791664403, 2.9444389791664403), abs=1e-15)


# ---------------------------------------------------------------- error rates


FIELDS = {  # chances of pair scores; moved to the mean that is asked for
    "independent games, no draws": [0.25, 0.0, 0.5, 0.0, 0.25],
    "independent games, half drawn": [0.0625, 0.25, 0.375, 0.25, 0.0625],
    "both games of a pair alike": [0.45, 0.0, 0.1, 0.0, 0.45],
    "the deal decides nine pairs in ten": [0.02, 0.03, 0.9, 0.03, 0.02],
    "lopsided": [0.3, 0.05, 0.05, 0.1, 0.5],
}


def with_elo(chances, elo, model):
    """The chances, exponentially tilted until they have this Elo of the model."""
    low, high = -40.0, 40.0
    for _ in range(60):
        tilt = (low + high) / 2
        moved = np.array(chances) * np.exp(tilt * (PAIR_SCORES - 0.5))
        moved /= moved.sum()
        mean = moved @ PAIR_SCORES
        deviation = math.sqrt(2 * (moved @ (PAIR_SCORES - mean) ** 2))
        normalized = NORMALIZED_ELO * (mean - 0.5) / deviation
        found = normalized if model == "normalized" else elo_of_score(mean)
        low, high = (low, tilt) if found > elo else (tilt, high)
    return moved


def answers(sprt, chances, *, tests, pairs_at_once, limit=6000):
    """How often H0 and H1 are accepted in simulated tests, each asked after every `pairs_at_once`."""
    rng = np.random.default_rng(7)
    counts, open_tests = np.zeros((tests, 5)), np.arange(tests)
    low, high = sprt.bounds
    accepted = {"H0": 0, "H1": 0}
    for _ in range(0, limit, pairs_at_once):
        counts[open_tests] += rng.multinomial(pairs_at_once, chances, size=len(open_tests))
        llr = sprt.llr(counts[open_tests])
        accepted["H0"] += int((llr <= low).sum())
        accepted["H1"] += int((llr >= high).sum())
        open_tests = open_tests[(low < llr) & (llr < high)]
        if not len(open_tests):
            break
    return accepted["H0"] / tests, accepted["H1"] / tests


def wrong(sprt, chances, **simulated):
    """How often H1 is accepted at elo0, and H0 at elo1."""
    _, high = answers(sprt, with_elo(chances, sprt.elo0, sprt.model), **simulated)
    low, _ = answers(sprt, with_elo(chances, sprt.elo1, sprt.model), **simulated)
    return high, low


@pytest.mark.long
@pytest.mark.parametrize(
    ("sprt", "tests", "luck", "field"),
    [
        *((Sprt(0, 100), 2000, 0.01, field) for field in FIELDS),
        *((Sprt(0, 60, model="normalized"), 1000, 0.014, field) for field in FIELDS),
        (Sprt(0, 40), 2000, 0.01, "independent games, half drawn"),
        (Sprt(-20, 20), 2000, 0.01, "both games of a pair alike"),
        (Sprt(150, 220), 2000, 0.01, "lopsided"),
    ],
)
def test_tests_err_at_most_as_often_as_asked_for(field, sprt, tests, luck):
    """Two standard errors of a rate of 0.05 are allowed for. Whole batches overshoot the bounds, so the rates
    stay below."""
    wrong1, wrong0 = wrong(sprt, FIELDS[field], tests=tests, pairs_at_once=16)
    assert wrong1 < sprt.alpha + luck
    assert wrong0 < sprt.beta + luck


@pytest.mark.slow
def test_unequal_rates_are_kept_apart():
    sprt = Sprt(0, 60, alpha=0.02, beta=0.2)
    wrong1, wrong0 = wrong(sprt, FIELDS["independent games, half drawn"], tests=2000, pairs_at_once=8)
    assert wrong1 < 0.02 + 0.006
    assert 0.06 < wrong0 < 0.2


@pytest.mark.slow
def test_games_counted_one_by_one_would_answer_wrongly_where_pairs_are_alike():
    """Why pairs are asked: games that share their luck look like twice the evidence that they are."""
    sprt, after = Sprt(0, 60), np.arange(8, 400, 8)
    won = np.random.default_rng(1).choice([0, 1], size=(400, 400), p=[0.5, 0.5]).cumsum(axis=1)[:, after - 1]
    times_wrong = {}
    for unit, games in (("pairs", 1), ("games", 2)):
        llr = sprt.llr(games * np.stack([after - won, np.zeros_like(won), won], axis=2))
        low, high = ((llr <= sprt.bounds[0]), (llr >= sprt.bounds[1]))
        first = (low | high).argmax(axis=1)  # where no bound was reached, neither holds
        times_wrong[unit] = int(high[np.arange(400), first].sum())
    assert times_wrong["pairs"] / 400 < 0.05 + 0.02
    assert times_wrong["games"] / 400 > 0.1


# ---------------------------------------------------------------- extremes


EXTREMES = {
    "nothing played": (0, 0, 0, 0, 0),
    "one pair won": (0, 0, 0, 0, 1),
    "all won": (0, 0, 0, 0, 1000),
    "all lost": (1000, 0, 0, 0, 0),
    "all even": (0, 0, 1000, 0, 0),
    "never even": (500, 0, 0, 0, 500),
    "a million pairs": (200_000, 0, 700_000, 0, 100_000),
}


@pytest.mark.parametrize("model", ["logistic", "normalized"])
@pytest.mark.parametrize("bounds", [(0, 5), (-300, 300), (200, 390)])
@pytest.mark.parametrize("counts", EXTREMES.values(), ids=EXTREMES)
def test_extreme_scores_have_a_finite_llr(counts, bounds, model):
    assert math.isfinite(Sprt(*bounds, model=model).llr(counts))


@pytest.mark.parametrize("model", ["logistic", "normalized"])
def test_extreme_scores_are_answered_sensibly(model):
    sprt = Sprt(0, 10, model=model)
    answer = {name: sprt.decide(float(sprt.llr(counts))) for name, counts in EXTREMES.items()}
    assert answer["all won"] == "H1"
    assert answer["all lost"] == "H0"
    assert answer["a million pairs"] == "H0"
    assert answer["nothing played"] is answer["one pair won"] is None


def test_more_wins_never_speak_for_the_lower_hypothesis():
    for model in ("logistic", "normalized"):
        llr = Sprt(0, 50, model=model).llr([(20 - n, 0, 5, 0, n) for n in range(21)])
        assert (np.diff(llr) > 0).all()


def test_who_swaps_sides_and_hypotheses_has_the_opposite_evidence():
    counts = np.array([7, 2, 30, 9, 11])
    for model in ("logistic", "normalized"):
        ours, theirs = Sprt(-10, 30, model=model), Sprt(-30, 10, model=model)
        assert float(ours.llr(counts)) == pytest.approx(-float(theirs.llr(counts[::-1])), abs=1e-9)


def test_tests_of_many_matches_at_once_are_those_of_each():
    counts = np.random.default_rng(2).multinomial(80, [0.1, 0.2, 0.3, 0.2, 0.2], size=(2, 3))
    for model in ("logistic", "normalized"):
        sprt = Sprt(0, 20, model=model)
        assert sprt.llr(counts).shape == (2, 3)
        assert float(sprt.llr(counts[1, 2])) == pytest.approx(sprt.llr(counts)[1, 2], abs=1e-6)


def test_near_even_scores_the_llr_is_that_of_a_normal_mean():
    """(s1 - s0) (2 mean - s0 - s1) n / (2 variance): https://www.cantate.be/Fishtest/GSPRT_approximation.pdf."""
    counts = np.array([600, 2400, 4000, 2500, 700])
    score0, score1 = score_of_elo(0), score_of_elo(4)
    n, mean = counts.sum(), counts @ PAIR_SCORES / counts.sum()
    variance = counts @ (PAIR_SCORES - mean) ** 2 / n
    expected = (score1 - score0) * (2 * mean - score0 - score1) * n / (2 * variance)
    assert float(Sprt(0, 4).llr(counts)) == pytest.approx(expected, rel=5e-3)
    assert elo_of_score(mean) > 2


# ---------------------------------------------------------------- settings


def test_a_test_is_over_once_a_bound_is_reached():
    sprt = Sprt(0, 10, alpha=0.05, beta=0.1)
    low, high = sprt.bounds
    assert (low, high) == pytest.approx((math.log(0.1 / 0.95), math.log(0.9 / 0.05)))
    assert [sprt.decide(llr) for llr in (low, low / 2, 0.0, high / 2, high)] == ["H0", None, None, None, "H1"]
