"""Leagues of known strengths, ten thousand turns of the loop each; no networks, nothing is trained."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chisquare, kendalltau, norm

from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.presets import PRESETS, LeagueSettings
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, Outcome, ResultBatch, Retire
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
@pytest.mark.slow
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


# ---------------------------------------------------------------- all beaten, all lost

CROWD = {"main-0": 6, "main-1": 3, "x-0": 3, "l-0": 2}
ROLES = {"main-0": MAIN, "x-0": MAIN_EXPLOITER, "l-0": LEAGUE_EXPLOITER}
# By preset and player: what every share of the matches becomes. Against whatever a match type draws from,
# all weights are the same then, so all are drawn alike.
BEATEN = {
    # no snapshot is forgotten, so that branch is self-play
    ("alphastar_paper", "main-0"): {"self_play": 0.5, "pfsp": 0.5},
    ("alphastar_paper", "x-0"): {"current_main": 0.5, "past_main": 0.5},
    ("alphastar_paper", "l-0"): {"pfsp": 1.0},
    # nothing is to be verified, and half of the mains that are chosen is the player itself
    ("alphastar_pseudocode", "main-0"): {"pfsp": 0.5, "self_play": 0.25, "current_main": 0.25},
    ("alphastar_pseudocode", "x-0"): {"current_main": 1.0},
    ("alphastar_pseudocode", "l-0"): {"pfsp": 1.0},
    ("win_rate_threshold", "main-0"): {"window": 1.0},
    ("self_play", "main-0"): {"self_play": 0.8, "window": 0.2},
    ("fictitious", "main-0"): {"window": 1.0},
    ("pfsp", "main-0"): {"pfsp": 1.0},
    ("psro", "main-0"): {"nash": 1.0},
    ("population", "main-0"): {"peers": 1.0},
    ("none", "main-0"): {"self_play": 1.0},
}
LOST = BEATEN | {
    ("alphastar_paper", "main-0"): {"self_play": 0.35, "pfsp": 0.5, "forgotten": 0.15},
    ("alphastar_paper", "x-0"): {"past_main": 1.0},  # a main that is too strong: its past instead
    ("alphastar_pseudocode", "main-0"): {
        "pfsp": 0.5,
        "verification": 0.15,
        "self_play": 0.175,
        "past_main": 0.175,  # the other main is too strong
    },
    ("alphastar_pseudocode", "x-0"): {"past_main": 1.0},
}
PAST = {"main-0": [f"main-0@{i}" for i in range(6)], "main-1": [f"main-1@{i}" for i in range(3)]}
PAST |= {"x-0": [f"x-0@{i}" for i in range(3)], "l-0": ["l-0@0", "l-0@1"]}
MAINS = [*PAST["main-0"], *PAST["main-1"]]


def alike(match_type, preset, player):
    """Opponents of each match type if all weights are equal, each as often as it is drawn."""
    if preset == "alphastar_pseudocode" and (match_type, player) == ("past_main", "main-0"):
        return PAST["main-1"]  # the snapshots of the main that was too strong
    if preset == "alphastar_pseudocode" and match_type == "past_main":
        return PAST["main-0"] + 2 * PAST["main-1"]  # of either main half the time, and one has half as many
    return {
        "self_play": [player],
        "pfsp": [*MAINS, *PAST["x-0"], *PAST["l-0"]],
        "nash": [*MAINS, *PAST["x-0"], *PAST["l-0"]],
        "window": PAST["main-0"],
        "past_main": MAINS,
        "forgotten": [*MAINS, *PAST["x-0"]],
        "verification": PAST["x-0"],
        "current_main": [name for name in ("main-0", "main-1") if name != player],
        "peers": ["main-1"],
    }[match_type]


def against_everyone(make, player, won):
    """A player that has won, or lost, every game against all others, and is rated accordingly."""
    it = make.crowd(player, {}, snapshots=CROWD)
    others = [name for name in it.roster.ids if name != player]
    result = Outcome.WIN if won else Outcome.LOSS
    it.standings.record(make.games(*[(player, name, result) for name in others] * 30))
    it.standings.ratings.mu[:] = 25.0
    it.standings.ratings.mu[it.roster.index(player)] += 1_000.0 if won else -1_000.0
    rates = it.standings.win_rate(it.roster.index(player), it.roster.indices(others), 10.0)
    np.testing.assert_array_equal(rates, np.full(len(others), float(won)))
    return it


def test_every_preset_is_put_to_the_extremes():
    assert {preset for preset, _ in BEATEN} == set(PRESETS)
    for preset in PRESETS:
        roles = {ROLES[player] for name, player in BEATEN if name == preset}
        assert roles == set(LeagueSettings(preset=preset).resolve())


@pytest.mark.long
@pytest.mark.parametrize("num_seats", [2, 8])
@pytest.mark.parametrize("won", [True, False], ids=["all beaten", "all lost"])
@pytest.mark.parametrize(("preset", "player"), BEATEN)
def test_who_beats_or_loses_to_all_draws_by_the_shares_and_from_everyone_alike(
    make, preset, player, won, num_seats
):
    it, expected = against_everyone(make, player, won), (BEATEN if won else LOST)[preset, player]
    rules = LeagueSettings(preset=preset).resolve()[it.player.role].opponents
    only = SimpleNamespace(opponents=rules.model_copy(update={"evaluation": 0.0}))
    maker = Matchmaker({it.player.role: only}, num_seats=num_seats, env="made-up", seed=0, waits=False)
    rng, total = np.random.default_rng(0), 6_000
    batches = [maker.next_matches(it.player, 4, it.roster, it.standings, rng, i) for i in range(0, total, 4)]
    types = [batch.match_types[t] for batch in batches for t in batch.match_type.tolist()]
    assert set(types) == set(expected)
    if len(expected) > 1:
        counts = [types.count(name) for name in expected]
        assert chisquare(counts, [total * share for share in expected.values()]).pvalue > 1e-4
    for match_type in expected:
        drawn = opponents_in(batches, match_type, player)
        names = alike(match_type, preset, player)
        assert set(drawn) == set(names)
        for name in set(names):
            share = drawn.count(name) / len(drawn)
            assert share == pytest.approx(names.count(name) / len(names), rel=0.3), (match_type, name)


def opponents_in(batches, match_type, player):
    """Who sat in the seats that are not the player's, all matches of a type together."""
    found = []
    for batch in batches:
        seat = batch.seat[batch.match_type == batch.match_types.index(match_type)]
        names = [batch.competitors[i] for i in seat.ravel().tolist()]
        found += names if match_type == "self_play" else [name for name in names if name != player]
    return found
