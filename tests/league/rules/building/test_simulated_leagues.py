"""Leagues of known strengths, ten thousand turns of the loop each; no networks, nothing is trained."""

import math

import numpy as np
import pytest
from scipy.stats import kendalltau, norm

from league.rules.presets import LeagueSettings
from storage.records import MAIN, ResultBatch, Retire
from tests.league.rules.building.explains import explains
from tests.parameters import VARIANTS

IN_CI = ("cycle",)  # a league of three roles
STEPS = 10_000
GAMES = 4  # of a step; 1 in free-for-alls, which take long to rate
WITH_EXPLOITERS = {"main": 1, "main_exploiter": 1, "league_exploiter": 1}
LEAST_VARIANCE = 4.0  # of a score, so that it is near to normal: 16 even games, or 44 of 10 to 1
ERROR_BAR = 4.0  # standard errors: normal scores pass it once in 16,000 pairs


def ladder(home, away):
    """Each generation is 2 mu better than the one before: it wins 63 % against it."""
    return 2.0 * (home - away)


def cycle(home, away):
    """Each generation wins about 80 % against the one before, and loses as often to the one before that."""
    return 6.0 * math.sin(2.0 * math.pi * (home - away) / 3.0)


def ladder_with_a_cycle_inside(home, away):
    between = min(home, away) >= 20.0 and max(home, away) <= 40.0
    return ladder(home, away) + (8.0 * math.sin(2.0 * math.pi * (home - away) / 3.0) if between else 0.0)


def settings(preset, generation, **main):
    players = WITH_EXPLOITERS if preset.startswith("alphastar") else {"main": 1}
    return {"preset": preset, "freeze_every": generation, "players": players, "roles": {"main": main}}


# PSRO that neither waits for payoffs nor begins again: a quarter of the requests fill them.
CONTINUOUS_PSRO = settings(
    "psro",
    500,
    opponents={"branches": {"nash": {"error": None}}, "evaluation": 0.25},
    reset={"probability": 0.0},
)

# Each: settings, whose freeze_every is a generation of the main in matches, about a 60th of what it plays;
# how progress becomes strength; how fast exploiters learn beside a main; the game; the least Kendall tau.
# Where payoffs never fade, those of the distant past are tested as well.
# Placement takes the 50 games of the default: the standard error of a mu is then about 1.
LEAGUES = {
    "ladder": (settings("pfsp", 660) | {"decay": 1.0}, ladder, 1.0, {}, 0.95),
    "cycle": (settings("alphastar_pseudocode", 220, share=4), cycle, 1.0, {}, None),
    "ladder with a cycle inside": (CONTINUOUS_PSRO, ladder_with_a_cycle_inside, 1.0, {}, 0.95),
    "free-for-all of eight": (
        settings(
            "self_play",
            160,
            opponents={"branches": {"self_play": {"share": 0.5}, "window": {"share": 0.5}}},
        ),
        ladder,
        1.0,
        {"num_seats": 8, "matches": 1},
        0.95,
    ),
    "two against two": (
        settings("alphastar_paper", 430, share=4, keep={"snapshots": 20}) | {"decay": 1.0},
        ladder,
        2.0,
        {"num_seats": 4, "teams": (2, 2)},
        None,
    ),
}


def simulate(make, name):
    """The league after all of its steps; what must hold at every single one is checked here."""
    fields, lead, exploiters, game, _ = LEAGUES[name]
    rules = LeagueSettings.model_validate(fields)
    speed = {role: (1.0 if role == MAIN else exploiters) / rules.freeze_every for role in rules.resolve()}
    it = make.league(rules, lead, speed, **({"matches": GAMES} | game))
    for step in range(STEPS):
        played = it.step()
        assert len(played) == it.matches
        if step % 100 == 0:
            everyone = np.arange(len(it.roster))
            rates = np.array([it.standings.win_rate(i, everyone, 10.0) for i in everyone.tolist()])
            assert ((rates >= 0.0) & (rates <= 1.0)).all()  # no NaN either
            assert rates + rates.T == pytest.approx(np.ones_like(rates))
            assert np.isfinite(it.standings.ratings.mu).all()
            assert (it.standings.ratings.variance > 0.0).all()
    return it


def bits(standings):
    everyone, book = np.arange(len(standings.ratings)), standings.ratings
    rows = [f(i, everyone) for i in everyone for f in (standings.payoff.wins, standings.payoff.draws)]
    rows += [standings.payoff.recorded(i, everyone) for i in everyone]
    rows += [np.array(standings.payoff.totals(i)) for i in everyone]
    return b"".join(row.tobytes() for row in (*rows, book.mu, book.variance, book.games, book.fixed))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in LEAGUES if VARIANTS or name in IN_CI])
def test_ten_thousand_steps_of_a_league_of_known_strengths(make, name):
    it = simulate(make, name)
    least_tau = LEAGUES[name][-1]
    ids = np.concatenate([fact.matches.match_id for fact in it.facts if isinstance(fact, ResultBatch)])
    np.testing.assert_array_equal(ids, np.arange(STEPS * it.matches))
    assert len(set(it.roster.ids)) == len(it.roster) == len(it.progress)

    mains = it.roster.snapshots_of("main-0")
    assert len(mains) > (40 if name == "cycle" else 55)
    for decision in it.decisions:
        assert explains(decision, it.roles[it.roster[decision.player].role]), decision
    kinds = {decision.kind for decision in it.decisions}
    assert ("reset" in kinds) == (len(it.roles) > 1)
    if name == "two against two":
        assert sum(isinstance(decision, Retire) for decision in it.decisions) > 20
        assert len(it.roster.snapshots(MAIN)) <= 21  # one retires after the call that froze another

    errors = it.payoff_errors(LEAST_VARIANCE)
    print(f"{name}: {len(errors)} pairs, largest error {np.abs(errors).max():.2f}")
    assert len(errors) >= 20
    assert np.abs(errors).max() < ERROR_BAR
    assert np.mean(errors**2) < 1.5
    if it.team_of_seat[-1] == 1:  # in free-for-alls the bars are wider than they need be
        assert np.mean(errors**2) > 0.5

    tau = kendalltau(it.standings.ratings.mu[mains], np.array(it.progress)[mains]).statistic
    print(f"{name}: {len(mains)} generations, tau {tau:.4f}")
    if least_tau is not None:
        assert tau >= least_tau

    again = it.fresh_state()
    for fact in it.facts:
        again.apply(fact)
    assert bits(again.standings) == bits(it.standings)
    assert again.standings.leaderboard() == it.standings.leaderboard()
    np.testing.assert_array_equal(again.roster.snapshots(), it.roster.snapshots())
    assert again.match_mix == it.state.match_mix


@pytest.mark.parametrize("gap", [-8.0, 0.0, 3.0])
def test_the_truth_leagues_are_measured_against_is_that_of_the_normal_distribution(make, gap):
    won, lost = norm.sf(1.0, gap, 5.0), norm.cdf(-1.0, gap, 5.0)
    mean = won + 0.5 * (1.0 - won - lost)
    variance = won + 0.25 * (1.0 - won - lost) - mean**2
    assert make.score_of(gap, 5.0, 1.0) == pytest.approx((mean, math.sqrt(variance)))
