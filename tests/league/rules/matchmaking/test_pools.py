import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.solution import best_response_gain
from league.rules.matchmaking.branches.live_opponents import before_monotone_suffix
from league.rules.matchmaking.pools import (
    WEIGHTINGS,
    find_weighting,
    newcomers,
    probabilities,
    rarest_pairs,
    snapshots_and_bots,
)
from storage.records import MAIN_EXPLOITER, LivePlayer, Outcome

WIN, DRAW, LOSS, _ = Outcome


def named(it, pool):
    return dict(zip([it.roster.id(i) for i in pool.candidates.tolist()], pool.p.tolist(), strict=True))


def find(it, branch, **fields):
    view = it.view(branch, **fields)
    return named(it, view.branches[branch].pool(view))


@pytest.fixture
def cycle(make):
    """A main, and snapshots that have played rock, paper and scissors, rock twice."""
    it = make.crowd("main-0", {}, snapshots={"main-0": 4})
    rock, paper, scissors, again = (f"main-0@{i}" for i in range(4))
    won = [(paper, rock), (scissors, paper), (rock, scissors), (paper, again), (again, scissors)]
    it.standings.record(make.games(*[(a, b, WIN) for a, b in won for _ in range(500)]))
    it.standings.ratings.mu[:] = 25.0
    return it


@pytest.mark.parametrize(
    ("rates", "kept"),
    [
        ([0.9, 0.6, 0.65, 0.6], 3),
        ([0.9, 0.6, 0.65, 0.65], 3),
        ([0.9, 0.8, 0.7], 0),
        ([0.5, 0.5, 0.5], 0),
        ([0.1, 0.2, 0.3], 3),
        ([0.5, 0.4, 0.6, 0.3, 0.2], 3),
        ([0.5], 0),
        ([], 0),
    ],
)
def test_the_newest_run_of_falling_rates_is_cut(rates, kept):
    assert before_monotone_suffix(np.array(rates)) == kept


def test_latest_and_window_are_the_players_own_and_seated(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 5, "main-1": 5})
    it.roster.retire("main-0@3")
    assert find(it, "latest") == {"main-0@4": 1.0}
    assert find(it, "window", window=2) == {"main-0@2": 0.5, "main-0@4": 0.5}
    assert find(it, "window") == dict.fromkeys([f"main-0@{i}" for i in (0, 1, 2, 4)], 0.25)
    it.roster.retire("main-0@4")
    assert find(it, "latest") == {"main-0@2": 1.0}


def test_the_target_of_an_exploiter_stays_until_it_is_frozen_again(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 2, "main-1": 1})
    exploiter = LivePlayer("x-0", MAIN_EXPLOITER)
    it.roster.admit(exploiter)
    it.roster.admit(make.snapshot("x-0@0", player="x-0", role=MAIN_EXPLOITER))

    def targets():
        return [it.roster.id(index) for index in it.roster.targets_of("x-0").tolist()]

    assert targets() == ["main-0@1", "main-1@0"]
    it.roster.admit(make.snapshot("main-0@2", player="main-0"))
    assert targets() == ["main-0@1", "main-1@0"]
    it.roster.admit(make.snapshot("x-0@1", player="x-0", role=MAIN_EXPLOITER))
    assert targets() == ["main-0@2", "main-1@0"]
    it.roster.retire("main-0@2")
    assert targets() == ["main-0@1", "main-1@0"]
    assert find(it, "past_main", targets=True) == {"main-0@1": 0.5, "main-1@0": 0.5}


def test_bots_are_drawn_by_their_weights_if_they_are_in_the_league(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1}, bots=("random", "perfect"))
    found = find(it, "bots", bots={"random": 3, "perfect": 1, "absent": 7})
    assert found == {"random": 0.75, "perfect": 0.25}
    assert find(make.crowd("main-0", {}, snapshots={"main-0": 1}), "bots", bots={"random": 1}) == {}


@pytest.mark.parametrize("branch", ["pfsp", "forgotten", "past_main", "latest", "window", "nash", "peers"])
def test_nobody_is_found_in_an_empty_league(make, branch):
    it = make.crowd("main-0", {}, snapshots={"main-0": 0})
    assert find(it, branch) == {}


@pytest.mark.parametrize("outcome", [WIN, LOSS])
@pytest.mark.parametrize("weighting", ["hard", "variance", "linear", "capped_linear", "even", "bell"])
def test_of_a_pool_that_is_all_beaten_or_all_lost_everyone_is_as_likely(make, outcome, weighting):
    it = make.crowd("main-0", {}, snapshots={"main-0": 4})
    names = [f"main-0@{i}" for i in range(4)]
    it.standings.record(make.games(*[("main-0", n, outcome) for n in names]))
    found = find(it, "pfsp", weighting=weighting, prior_strength=0.0)
    assert found == pytest.approx(dict.fromkeys(names, 0.25))


def test_the_mixture_is_kept_until_enough_was_played_or_the_pool_has_changed(cycle, make):
    view = cycle.view("nash", refresh_games=100)

    def found():
        return named(cycle, view.branches["nash"].pool(view))

    before = found()
    rock, paper = "main-0@0", "main-0@1"
    cycle.standings.record(make.games(*[(rock, paper, WIN)] * 49))  # 98 games: each seat plays one
    assert found() == before
    cycle.standings.record(make.games(*[(rock, paper, WIN)] * 951))
    assert found()[rock] != pytest.approx(before[rock], abs=0.01)
    cycle.roster.retire("main-0@3")
    assert set(found()) == {f"main-0@{i}" for i in range(3)}


def test_the_mixture_cannot_be_exploited_within_the_pool_whatever_was_played(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 30})
    it.standings.record(make.random_games(it.roster, 5_000, np.random.default_rng(0), outcomes=1))
    view = it.view("nash")
    pool = view.branches["nash"].pool(view)
    rates = np.array([it.standings.win_rate(i, pool.candidates, 10.0) for i in pool.candidates.tolist()])
    assert best_response_gain(rates - rates.T, pool.p) < 1e-4


def test_for_the_record_rare_pairs_come_first(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 3})
    it.standings.record(make.games(*[("main-0@0", "main-0@1", WIN)] * 9))
    weights = np.array([[0, 0.1, 1], [0.1, 0, 1], [1, 1, 0]])
    np.testing.assert_allclose(rarest_pairs(it.roster, it.standings), weights / weights.sum())


def test_newcomers_are_snapshots_that_are_not_placed_yet(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 3}, bots=("random",))
    it.standings.record(make.games(*[("main-0@1", "random", WIN)] * 50))
    it.standings.record(make.games(*[("main-0@2", "random", WIN)] * 49))
    found = named(it, newcomers(it.roster, it.standings))
    assert found == {"main-0@0": 0.5, "main-0@2": 0.5}
    assert named(it, snapshots_and_bots(it.roster)) == dict.fromkeys(
        ["main-0@0", "main-0@1", "main-0@2", "random"], 0.25
    )


rates = arrays(np.float64, st.integers(1, 30), elements=st.floats(0.0, 1.0))


@pytest.mark.slow
@settings(deadline=None)
@given(rates, st.sampled_from(sorted(WEIGHTINGS)), st.floats(0.1, 5.0))
def test_every_weighting_gives_a_distribution(p, name, exponent):
    found = probabilities(find_weighting(name, exponent), p)
    assert found.shape == p.shape
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.slow
@settings(deadline=None)
@given(rates, st.sampled_from(["hard", "linear", "capped_linear"]))
def test_the_harder_an_opponent_the_more_it_weighs(p, name):
    p = np.sort(p)
    assert (np.diff(WEIGHTINGS[name](p)) <= 0).all()


@settings(deadline=None)
@given(st.floats(0.0, 1.0), st.sampled_from(["variance", "even"]))
def test_equals_weigh_most_and_the_rest_by_distance(p, name):
    weigh = WEIGHTINGS[name]
    at, mirrored, equal = weigh(np.array([p, 1.0 - p, 0.5]))
    assert at == pytest.approx(mirrored)
    assert at <= equal


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_weights_that_cannot_be_drawn_by_mean_uniform(bad):
    found = probabilities(lambda p: np.where(p > 0.4, bad, 5.0), np.array([0.1, 0.5, 0.9]))
    np.testing.assert_allclose(found, 1 / 3)


def test_golden_weights():
    p = np.array([0.0, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(find_weighting("hard", 2.0)(p), [1, 0.5625, 0.25, 0])
    np.testing.assert_allclose(find_weighting("hard", 1.0)(p), find_weighting("linear")(p))
    np.testing.assert_allclose(find_weighting("variance")(p), [0, 0.1875, 0.25, 0])
    np.testing.assert_allclose(find_weighting("capped_linear")(p), [0.5, 0.5, 0.5, 0])


def test_a_weighting_of_ones_own_comes_by_import_path():
    assert find_weighting("numpy:square")(np.array([3.0]))[0] == 9.0
    with pytest.raises(ValueError, match=r"weighting .*has no 'no_such_thing'"):
        find_weighting("numpy:no_such_thing")
    with pytest.raises(ValueError, match=r"is 3.14.*, expected a function"):
        find_weighting("math:pi")


def test_a_misspelt_weighting_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'variance'"):
        find_weighting("varience")


def test_a_weighting_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(1,\) for win rates of shape \(3,\)"):
        probabilities(lambda p: p[:1], np.ones(3))


@pytest.mark.parametrize("wrong", [np.log, np.negative, np.sum])
def test_a_weighting_of_ones_own_that_returns_no_weights_is_refused_before_use(wrong, monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(weigh=lambda p: wrong(p)))
    with pytest.raises(
        ValueError, match=r"weighting 'mine:weigh' returned .* for 5 win rates, expected 5 weights"
    ):
        find_weighting("mine:weigh")


def test_a_weighting_of_ones_own_takes_its_options(monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(weigh=lambda p, power=1: p**power))
    np.testing.assert_allclose(find_weighting("mine:weigh", options={"power": 2})(np.array([0.5])), [0.25])
    with pytest.raises(ValueError, match=r"weighting 'mine:weigh' cannot be called as \(p, powr\)"):
        find_weighting("mine:weigh", options={"powr": 2})
