from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from league.rules.building.resets import ResetSettings, better_of, reset_of
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, MAIN_EXPLOITER, LivePlayer, Outcome

WIN, LOSS = Outcome.WIN, Outcome.LOSS
EXPLOITER = LivePlayer("x-0", MAIN_EXPLOITER)


@pytest.fixture
def it(make):
    """A main and a main exploiter, each with its initial snapshot; what a reset of the exploiter is."""
    roster = Roster([LivePlayer("main-0", MAIN), EXPLOITER])
    standings = Standings(roster)

    def admit(name, player="x-0", role=MAIN_EXPLOITER):
        roster.admit(make.snapshot(name, player=player, role=role))
        standings.on_admit(roster[name], player)

    def reset(**settings):
        rule = ResetSettings(probability=1.0, **settings)
        return reset_of(EXPLOITER, rule, roster, standings, drawn=0.25)

    admit("main-0@0", "main-0", MAIN)
    admit("x-0@0")
    return SimpleNamespace(roster=roster, standings=standings, admit=admit, reset=reset)


def play(it, make, name, wins, losses):
    rows = [(name, "main-0", WIN)] * wins + [(name, "main-0", LOSS)] * losses
    it.standings.record(make.games(*rows))


def test_a_reset_goes_back_to_the_first_snapshot_even_a_retired_one(it):
    it.admit("x-0@1")
    it.roster.retire("x-0@0")
    reset = it.reset()
    assert (reset.player, reset.target, reset.reason) == ("x-0", "x-0@0", "initial")
    assert reset.evidence == {"drawn": 0.25, "probability": 1.0}


def test_reset_to_the_latest_main(it):
    it.admit("main-0@1", "main-0", MAIN)
    assert it.reset(target="latest_main").target == "main-0@1"
    it.roster.retire("main-0@1")
    it.roster.retire("main-0@0")
    reset = it.reset(target="latest_main")
    assert (reset.target, reset.reason, reset.evidence["candidates"]) == ("x-0@0", "initial", 0)


def test_reset_to_a_named_snapshot(it):
    assert it.reset(target="named", snapshot="main-0@0").target == "main-0@0"
    with pytest.raises(KeyError, match="no competitor 'main-0@7'"):
        it.reset(target="named", snapshot="main-0@7")


def test_inherit_takes_the_past_exploiter_closest_to_even_within_the_bounds(it, make):
    for wins in (1, 3, 4, 6):  # of 10 against the main
        it.admit(f"x-0@{wins}")
        play(it, make, f"x-0@{wins}", wins, 10 - wins)
    play(it, make, "x-0@0", 0, 10)
    reset = it.reset(target="inherit", prior_strength=0.0)
    assert (reset.target, reset.reason) == ("x-0@4", "inherited")
    assert reset.evidence["win_rate"] == pytest.approx(0.4, abs=0.02)
    assert reset.evidence["candidates"] == 2
    it.roster.retire("x-0@4")
    it.roster.retire("x-0@3")
    assert it.reset(target="inherit", prior_strength=0.0).reason == "initial"


def test_inherit_takes_the_newest_of_equals(it, make):
    for name in ("x-0@1", "x-0@2"):
        it.admit(name)
        play(it, make, name, 4, 6)
    it.standings.payoff.decay = 1.0
    assert it.reset(target="inherit", prior_strength=0.0).target == "x-0@2"


def test_the_prediction_counts_for_as_many_games_as_the_rule_says(it, make):
    it.admit("x-0@1")
    play(it, make, "x-0@0", 0, 10)
    play(it, make, "x-0@1", 4, 6)
    main, heir = it.roster.index("main-0"), it.roster.indices(["x-0@1"])
    for strength in (0.0, 10.0):
        reset = it.reset(target="inherit", prior_strength=strength)
        expected = 1.0 - it.standings.win_rate(main, heir, strength)[0]
        assert (reset.target, reset.evidence["win_rate"]) == ("x-0@1", pytest.approx(expected))


def test_without_a_main_there_is_nobody_to_be_measured_against(it):
    it.roster.remove("main-0")
    assert it.reset(target="inherit").reason == "initial"


def test_a_reset_without_anything_to_go_back_to_is_refused():
    roster = Roster([EXPLOITER])
    with pytest.raises(ValueError, match="'x-0' is to be reset but has no snapshot"):
        reset_of(EXPLOITER, ResetSettings(probability=1.0), roster, Standings(roster), 0.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target": "named"}, "'named' with no snapshot"),
        ({"snapshot": "a"}, "'initial' with snapshot 'a'"),
        (
            {"inherit_above": 0.6},
            "inherit_above, which was removed",
        ),
        ({"probability": 1.5}, "less than or equal to 1"),
        ({"prior_strength": float("inf")}, "finite"),
    ],
)
def test_contradictory_settings_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        ResetSettings.model_validate(fields)


LRS = {"x-0": 1.0, "x-1": 2.0}
SETTINGS = {name: {"learner.lr": lr, "learner.entropy": 0.1} for name, lr in LRS.items()}


@pytest.fixture
def peers(it):
    """Two players of one role, and what better_of decides."""
    it.roster.admit(LivePlayer("x-1", MAIN_EXPLOITER))
    it.standings.on_admit(it.roster["x-1"])
    it.admit("x-1@0", "x-1")
    it.admit("x-1@5", "x-1")

    def better(seed=0, **settings):
        rule = ResetSettings(probability=1.0, target="better", **settings)
        rng = np.random.default_rng(seed)
        return better_of(EXPLOITER, rule, it.roster, it.standings, 0.5, SETTINGS, rng)

    def rate(name, mu, sigma=1.0):
        index = it.roster.index(name)
        it.standings.ratings.mu[index], it.standings.ratings.variance[index] = mu, sigma**2

    it.better, it.rate = better, rate
    return it


def test_only_a_surely_better_player_of_the_role_is_copied(peers):
    peers.rate("x-0", 25)
    peers.rate("x-1", 25 + 2.8)  # two standard errors are 2.83
    peers.rate("main-0", 60)  # of another role
    assert peers.better() is None
    peers.rate("x-1", 25 + 2.9)
    reset = peers.better()
    assert (reset.player, reset.target, reset.reason) == ("x-0", "x-1@5", "copies x-1")
    expected = {"drawn": 0.5, "probability": 1.0, "better": 1, "mu": 25, "mu_of_better": 27.9}
    assert reset.evidence == pytest.approx(expected | {"error": 2**0.5})


def test_the_settings_of_the_better_one_are_taken_with_a_factor(peers):
    peers.rate("x-0", 25)
    peers.rate("x-1", 35)
    perturb = {"learner.lr": (0.5, 1.5), "learner.entropy": (1.0,)}
    found = [peers.better(seed, perturb=perturb).evidence for seed in range(20)]
    assert {each["learner.lr"] for each in found} == {1.0, 3.0}
    assert {each["learner.entropy"] for each in found} == {0.1}
    assert found[3] == peers.better(3, perturb=perturb).evidence


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"perturb": {"learner.lr": [0.8]}}, "found perturb with target 'initial'"),
        ({"target": "better", "perturb": {"learner.lr": []}}, "perturb.learner.lr has no factor"),
        ({"target": "better", "perturb": {"learner.lr": [0.0]}}, "greater than 0"),
    ],
)
def test_a_perturbation_of_nothing_is_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        ResetSettings.model_validate(settings)
