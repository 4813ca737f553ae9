import dataclasses

import numpy as np
import pytest
from pydantic import ValidationError

from league.rules.matchmaking.branches import LeagueView
from league.rules.matchmaking.branches.meta_strategies import META_STRATEGIES
from league.rules.matchmaking.branches.psro import Meta, Nash, hedged, rectify
from league.rules.presets import LeagueSettings
from league.rules.standings import Standings
from storage.records import MAIN, Outcome, Purpose, Reset, Snapshot

WIN, DRAW, LOSS, _ = Outcome
ROCK_FOR_TWO = np.array([[0.0, -2.0, 1.0], [2.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # paper wins two from rock


def test_rectified_is_what_one_beats_or_all_when_it_beats_nothing():
    mixture = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(rectify(mixture, np.array([0.4, 0.5, 0.9])), [0, 0.6, 0.4])
    np.testing.assert_array_equal(rectify(mixture, np.array([0.4, 0.4, 0.1])), mixture)


def test_hedging_has_no_regret_against_a_response_that_adapts():
    total, played, mixtures = np.zeros(3), 0.0, np.zeros(3)
    for rounds in range(2_000):
        mixture = hedged(total / max(rounds, 1), rounds)
        gains = -(ROCK_FOR_TWO / 2)[
            np.argmax(ROCK_FOR_TWO @ mixture)
        ]  # of the pool against the best response
        total, played, mixtures = total + gains, played + gains @ mixture, mixtures + mixture
    assert (total.max() - played) / 2_000 < np.sqrt(2 * np.log(3) / 2_000)
    np.testing.assert_allclose(mixtures / 2_000, [1 / 4, 1 / 4, 1 / 2], atol=0.05)


def test_anytime_plays_what_the_response_loses_to(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 3})
    names = [f"main-0@{n}" for n in range(3)]
    it.standings.record(make.games(*[("main-0", name, WIN) for name in names[:2] * 20]))
    it.standings.record(make.games(*[("main-0", names[2], LOSS)] * 20))
    view = it.view("nash", meta_strategy="anytime")
    pool = view.branches["nash"].pool(view)
    assert pool.p[2] > 0.99
    it.standings.on_reset("main-0", names[0])
    np.testing.assert_allclose(view.branches["nash"].pool(view).p, 1 / 3)


def test_every_meta_strategy_is_a_setting():
    for name in META_STRATEGIES:
        assert Nash(share=1.0, meta_strategy=name).meta_strategy == name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"meta_strategy": "anywhen"}, "Input should be 'nash'"),
        ({"exploration": 0.2}, "exploration: found 0.2, but meta_strategy 'nash' has none; remove it"),
        (
            {"meta_strategy": "uniform", "error": 0.1},
            "found 0.1, but meta_strategy 'uniform' needs no payoffs",
        ),
        ({"error": 0.0}, "greater than 0"),
    ],
)
def test_settings_without_a_use_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        Nash(share=1.0, **fields)


# ---------------------------------------------------------------- what is known of a mixture


def known(payoff, error, mixture):
    return Meta(np.array(payoff), np.array(error), np.array(mixture))


def test_pairs_that_never_met_come_first():
    unmet = np.array([[0.0, 0.1, np.inf], [0.1, 0.0, np.inf], [np.inf, np.inf, 0.0]])
    home, p = known(np.zeros((3, 3)), unmet, [1.0, 0.0, 0.0]).least_known(0.5)
    assert (home, p.tolist()) == (2, [0.5, 0.5, 0.0])


def test_a_member_that_may_gain_more_than_the_error_on_the_mixture_is_to_play_it():
    error = [[0.0, 0.05, 0.1], [0.05, 0.0, 0.1], [0.1, 0.1, 0.0]]
    meta = known(np.zeros((3, 3)), error, [0.8, 0.2, 0.0])
    gains = 2.0 * np.hypot(0.8 * 0.1, 0.2 * 0.1)  # of the last one, which is known least
    assert meta.beyond(0.1)[2] == pytest.approx(gains - 0.1)
    home, p = meta.least_known(0.1)
    assert home == 2
    np.testing.assert_allclose(p, [16 / 17, 1 / 17, 0.0])
    assert meta.least_known(gains + 1e-9) is None


def test_what_is_beaten_beyond_doubt_need_not_be_known_well():
    payoff = [[0.0, 0.9], [-0.9, 0.0]]
    assert known(payoff, [[0.0, 0.3], [0.3, 0.0]], [1.0, 0.0]).least_known(0.01) is None
    assert known(payoff, [[0.0, 0.6], [0.6, 0.0]], [1.0, 0.0]).least_known(0.01)[0] == 1


def test_a_mixture_that_is_no_equilibrium_needs_to_know_its_own_regret_only():
    meta = known([[0.0, 0.5], [-0.5, 0.0]], [[0.0, 0.01], [0.01, 0.0]], [0.5, 0.5])
    assert meta.beyond(0.05)[0] == pytest.approx(0.01 - 0.05)  # it gains 0.25, which is known
    assert meta.least_known(0.05) is None


# ---------------------------------------------------------------- the pool plays before anything is learned


def psro(**nash):
    return {
        "preset": "psro",
        "freeze_every": 100,
        "roles": {"main": {"opponents": {"branches": {"nash": nash}}}},
    }


def simulated(make, seed=0, error=0.3):
    settings = LeagueSettings.model_validate(psro(error=error))
    circle = lambda home, away: 8.0 * np.sin(2.0 * np.pi * (home - away) / 3.0)  # noqa: E731
    return make.league(settings, circle, {MAIN: 0.01}, matches=20, seed=seed)


def wanted(league, state):
    """What the role's branch wants from the league of `state`, found from scratch."""
    branch = league.roles[MAIN].opponents.branches["nash"].model_copy()
    rules = league.roles[MAIN].opponents
    player = state.members["main-0"].player
    return branch.wanted(LeagueView(player, state.roster, state.standings, rules, {}))


def test_no_response_begins_before_the_payoffs_of_the_pool_are_known(make):
    it = simulated(make)
    purposes = []
    for _ in range(45):
        unknown = wanted(it, it.state)
        played = it.step()
        purposes.append(played.matches.purpose)
        assert (played.matches.purpose is Purpose.EVALUATION) == (unknown is not None)
        assert played.matches.learning.any() == (unknown is None)
        if unknown is not None:
            assert "main-0" not in played.matches.competitors
    assert len(it.roster.snapshots()) > 2
    assert purposes.count(Purpose.EVALUATION) > 10


def test_a_smaller_error_takes_more_games_of_the_pool(make):
    games = {}
    for error in (0.6, 0.1):
        it = simulated(make, error=error)
        while len(it.roster.snapshots()) < 5:
            it.step()
        snapshots = it.roster.snapshots()[:4]
        games[error] = sum(it.standings.payoff.recorded(i, snapshots).sum() for i in snapshots.tolist())
    assert games[0.1] > 4 * games[0.6]


def test_a_run_that_is_resumed_while_the_pool_plays_wants_the_same_pairing(make):
    it, compared = simulated(make), 0
    for _ in range(150):
        it.step()
        unknown = wanted(it, it.state)
        if unknown is None or len(it.roster.snapshots()) < 3:
            continue
        again = it.fresh_state()
        for fact in it.facts:
            again.apply(fact)
        found = wanted(it, again)
        assert found[0] == unknown[0]
        np.testing.assert_array_equal(found[1].p, unknown[1].p)
        compared += 1
        if compared == 5:
            return
    raise AssertionError("the pool hardly played")


def test_responses_begin_from_scratch_or_go_on_from_the_newest(make):
    for probability, targets in ((1.0, {"main-0@0"}), (0.0, set())):
        settings = psro(error=0.5)
        settings["roles"]["main"]["reset"] = {"probability": probability}
        it = make.league(
            LeagueSettings.model_validate(settings), lambda home, away: home - away, {MAIN: 0.01}, matches=20
        )
        while len(it.roster.snapshots()) < 4:
            it.step()
        assert {decision.target for decision in it.decisions if isinstance(decision, Reset)} == targets
        parents = [fact.parent_id for fact in it.facts if isinstance(fact, Snapshot)]
        scratch = [None, "main-0@0", "main-0@0", "main-0@0"]
        assert parents == (scratch if targets else [None, "main-0@0", "main-0@100", "main-0@200"])


def test_the_mixture_is_that_of_the_scores_where_payoffs_count_scores(make):
    """`a` wins nine of ten games against `b`, but loses more in the tenth than it wins in all."""
    found = {}
    for scale in (None, 1.0):
        it = make.crowd("main-0", {}, snapshots={"main-0": 2})
        standings = Standings(it.roster, decay=1.0, scale=scale)
        names = ("main-0@0", "main-0@1")
        batch = make.games(*[(*names, Outcome.WIN)] * 9, (*names, Outcome.LOSS))
        batch.score[:] = np.array([[1.0, -1.0]] * 9 + [[-20.0, 20.0]])
        standings.record(batch)
        view = it.view("nash", prior_strength=0.0)
        pool = Nash(share=1.0).pool(dataclasses.replace(view, standings=standings))
        found[scale] = pool.p.round(6).tolist()
    assert found == {None: [1.0, 0.0], 1.0: [0.0, 1.0]}
