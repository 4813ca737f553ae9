import numpy as np
import pytest

from analysis.diagnostics import diagnose
from analysis.diagnostics.learners import added_up, rank_sum
from tests.analysis.diagnostics.remembered import Remembered, found
from tests.analysis.planted_runs import EXPLOITER, PLAYER, Plan


@pytest.mark.slow
def test_a_lag_that_grows_is_told_with_what_was_usual():
    lag = found("lag", Plan(lag=lambda progress: 20.0 if progress < 0.6 else 36.0))
    assert {f.subject for f in lag} == {PLAYER, EXPLOITER}
    assert lag[0].evidence["usual"] == pytest.approx(20.0, rel=0.1)
    assert lag[0].evidence["lag"] == pytest.approx(36.0, rel=0.1)
    assert "in the last quarter of its reports" in lag[0].sentence
    assert "rollout.max_lag" in lag[0].advice


@pytest.mark.slow
def test_a_lag_that_grows_and_stays_small_is_none_unless_the_settings_ask_for_less():
    plan = Plan(lag=lambda progress: 4.0 if progress < 0.6 else 16.0)
    assert found("lag", plan) == []
    run = Remembered(np.random.default_rng(0), plan)
    run.config = lambda: {"rollout": {"max_lag": 8}}
    assert {f.evidence["limit"] for f in diagnose(run) if f.kind == "lag"} == {8.0}


@pytest.mark.slow
def test_a_lag_that_is_large_all_along_is_how_this_run_is():
    assert found("lag", Plan(lag=lambda progress: 40.0)) == []


@pytest.mark.slow
def test_a_player_that_gets_no_matches_any_more_starves():
    starved = found("starvation", Plan(batches=8, matches=200, starved_since=0.6))
    assert [f.subject for f in starved] == [EXPLOITER]
    assert starved[0].evidence["usual"] == pytest.approx(0.5, abs=0.05)
    assert starved[0].evidence["share"] == 0.0


@pytest.mark.slow
def test_a_player_that_was_removed_does_not_starve():
    run = Remembered(np.random.default_rng(0), Plan(batches=8, matches=200, starved_since=0.6))
    run.sql(
        "INSERT INTO decisions (seq, kind, player, reason, evidence) "
        f"SELECT max(seq), 'remove', '{EXPLOITER}', 'enough', '{{}}' FROM decisions"
    )
    assert not [f for f in diagnose(run) if f.kind == "starvation"]


@pytest.mark.slow
def test_a_learner_that_is_taught_no_more_is_told_though_it_plays_on():
    run = Remembered(np.random.default_rng(0), Plan(batches=8, matches=200))
    run.sql(
        f"""DELETE FROM updates WHERE player = '{PLAYER}'
        AND seq > 0.7 * (SELECT max(seq) FROM meetings)"""
    )
    starved = [f for f in diagnose(run) if f.kind == "starvation"]
    assert [f.subject for f in starved] == [PLAYER]
    assert "updates for each batch" in starved[0].sentence


@pytest.mark.slow
def test_experience_that_was_dropped_is_counted():
    lost = found("starvation", Plan(dropped=lambda progress: 0.2))
    assert [f.subject for f in lost] == [PLAYER]
    assert lost[0].evidence["dropped_steps"] > 10_000


@pytest.mark.slow
def test_a_learner_that_stopped_is_told_with_its_reason():
    run = Remembered(np.random.default_rng(0))
    run.sql(
        "INSERT INTO decisions (seq, kind, player, reason, evidence) "
        f"SELECT max(seq), 'stop', '{PLAYER}', 'the loss is not finite', '{{}}' FROM meetings"
    )
    (stopped,) = [f for f in diagnose(run) if f.kind == "starvation"]
    assert stopped.sentence == f"{PLAYER} does not learn any more: the loss is not finite"


def test_a_counter_goes_on_where_a_run_was_resumed():
    assert added_up(np.array([2.0, 5.0, 5.0, 1.0, 4.0])) == 9.0
    assert added_up(np.array([])) == 0.0


def test_rank_sums_are_those_of_scipy():
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(0)
    before, after = rng.random(30), np.round(rng.random(20) + 0.2, 1)
    told = mannwhitneyu(after, before, alternative="greater", method="asymptotic", use_continuity=False)
    z = rank_sum(before, after)
    from scipy.special import ndtr

    assert ndtr(-z) == pytest.approx(told.pvalue, rel=0.02)  # which corrects the variance for ties
