from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import chisquare

from league.rules.matchmaking.branches import OpponentSettings
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.presets import PRESETS, LeagueSettings
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, Outcome, Purpose

WIN, DRAW, LOSS, _ = Outcome
DRAWS = 200_000  # of each branch


def test_the_paper_is_the_paper():
    roles = LeagueSettings(freeze_every=1_000).resolve()
    shares = {r: {b: s.share for b, s in rules.opponents.branches.items()} for r, rules in roles.items()}
    assert shares == {
        MAIN: {"self_play": 0.35, "pfsp": 0.5, "forgotten": 0.15},
        MAIN_EXPLOITER: {"current_main": 0.5, "past_main": 0.5},
        LEAGUE_EXPLOITER: {"pfsp": 1.0},
    }
    assert [rules.freeze.max_steps for rules in roles.values()] == [1_000, 2_000, 1_000]
    assert [rules.freeze.beats for rules in roles.values()] == [None, "mains", "snapshots"]
    assert [rules.reset.probability for rules in roles.values()] == [0.0, 1.0, 0.25]
    assert roles[MAIN_EXPLOITER].opponents.switch_below == 0.2
    assert roles[MAIN_EXPLOITER].freeze.win_rate == 0.7


def test_the_pseudocode_is_the_pseudocode():
    roles = LeagueSettings(preset="alphastar_pseudocode", freeze_every=1_000).resolve()
    shares = {r: {b: s.share for b, s in rules.opponents.branches.items()} for r, rules in roles.items()}
    assert shares == {
        MAIN: {"pfsp": 0.5, "verification": 0.15, "mains": 0.35},
        MAIN_EXPLOITER: {"mains": 1.0},
        LEAGUE_EXPLOITER: {"pfsp": 1.0},
    }
    assert [rules.freeze.beats for rules in roles.values()] == ["snapshots", "mains", "snapshots"]
    assert {(r.freeze.min_steps, r.freeze.max_steps, r.freeze.win_rate) for r in roles.values()} == {
        (1_000, 2_000, 0.7)
    }
    assert [rules.reset.probability for rules in roles.values()] == [0.0, 1.0, 0.25]


def test_psro_answers_a_known_mixture_from_scratch_on_schedules_of_its_own():
    main = LeagueSettings(preset="psro", freeze_every=1_000).resolve()[MAIN]
    nash = main.opponents.branches["nash"]
    assert (nash.share, nash.meta_strategy, nash.error) == (1.0, "nash", 0.05)
    assert (main.freeze.max_steps, main.reset.probability, main.reset.target) == (1_000, 1.0, "initial")
    assert main.opponents.evaluation == 0.0
    assert [main.progress(0.9, steps) for steps in (0, 250, 1_000, 1_100)] == [0.0, 0.25, 1.0, 1.0]
    assert LeagueSettings(preset="pfsp").resolve()[MAIN].progress(0.9, 250) == 0.9


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("freeze_every", [1, 7, 10**12])
def test_every_preset_is_complete_by_itself(preset, freeze_every):
    settings = LeagueSettings(preset=preset, freeze_every=freeze_every)
    assert settings.resolve().keys() == settings.player_names().keys()
    assert LeagueSettings.model_validate(settings.model_dump(mode="json")) == settings


def test_changes_lie_on_top_of_the_preset():
    changes = {"opponents": {"branches": {"pfsp": {"exponent": 3.0}}}, "freeze": {"max_steps": 5}, "share": 4}
    main = LeagueSettings(roles={"main": changes}).resolve()[MAIN]
    assert main.opponents.branches["pfsp"].exponent == 3.0
    assert main.opponents.branches["pfsp"].share == 0.5
    assert (main.freeze.max_steps, main.share) == (5, 4.0)


def test_names_are_made_of_role_and_number():
    settings = LeagueSettings(players={"main": 2, "main_exploiter": 0, "league_exploiter": 1})
    assert settings.player_names() == {
        MAIN: ["main-0", "main-1"],
        LEAGUE_EXPLOITER: ["league_exploiter-0"],
    }


def test_a_role_of_ones_own_is_described_in_full():
    own = {"opponents": {"branches": {"past_main": {"share": 1.0}}}, "freeze": {"max_steps": 10}}
    settings = LeagueSettings(players={"main": 1, "archivist": 1}, roles={"archivist": own})
    assert settings.resolve()["archivist"].opponents.branches["past_main"].weighting == "hard"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"preset": "alphastar"}, "'alphastar' is unknown.*did you mean 'alphastar_paper'"),
        ({"players": {"main_exploiter": 1}}, "at least one main.*add 'main: 1'"),
        ({"players": {"main": 0}}, "found main: 0"),
        ({"players": {"main": -1}}, "greater than or equal to 0"),
        ({"freeze_every": -5}, "greater than 0"),
        ({"players": {"main": 1, "scout": 1}}, "has no such role; describe it in full as roles.scout"),
        ({"players": {"main": 1, "scout": 1}, "roles": {"scout": {"share": 2}}}, r"roles\.scout\.opponents"),
        ({"roles": {"mian": {}}}, "did you mean 'main'"),
        ({"roles": {"main": {"frezze": {}}}}, r"roles\.main\.frezze\n  unknown key; did you mean 'freeze'"),
        ({"roles": {"main": {"opponents": {"branches": {"pfsp": {"share": 0.6}}}}}}, "shares sum to 1.1"),
        ({"roles": {"main": {"freeze": {"win_rate": 70}}}}, r"roles\.main\.freeze\.win_rate"),
        ({"roles": {"main": {"reset": {"probability": 1.0, "target": "named"}}}}, "with no snapshot"),
        ({"decay": 0.0}, "greater than 0"),
        (
            {"roles": {"main": {"schedules": "freeze", "freeze": {"max_steps": None}}}},
            r"roles\.main\n.*schedules: found freeze without freeze\.max_steps.*set freeze\.max_steps",
        ),
        ({"roles": {"main": {"freeze": {"plateau": {"games": 100}}}}}, r"freeze\.plateau\.gain"),
        ({"builder": "mine"}, "found 'mine'; expected default"),
        ({"roles": {"main": {"keep": {"newset": True}}}}, "did you mean 'newest'"),
    ],
)
def test_contradictions_are_refused_with_where_and_remedy(fields, message):
    with pytest.raises(ValidationError, match=message):
        LeagueSettings.model_validate(fields)


def test_the_bots_of_all_roles_are_named_once():
    roles = {
        role: {"opponents": {"bots": bots}}
        for role, bots in [("main", {"random": 1}), ("league_exploiter", {"perfect": 2, "random": 5})]
    }
    assert LeagueSettings(roles=roles).bots() == ["random", "perfect"]
    assert LeagueSettings().bots() == []


# ---------------------------------------------------------------- what is drawn

CROWD = {"main-0": 4, "main-1": 3, "x-0": 3, "l-0": 2}
ORDINARY = {  # what the player that draws wins against each
    "main-0@0": 0.9, "main-0@1": 0.6, "main-0@2": 0.65, "main-0@3": 0.6,
    "main-1@0": 0.8, "main-1@1": 0.4, "main-1@2": 0.3,
    "x-0@0": 0.75, "x-0@1": 0.31, "x-0@2": 0.45,
    "l-0@0": 0.9, "l-0@1": 0.2,
    "main-0": 0.55, "main-1": 0.45,
}  # fmt: skip
EXPLOITED = ORDINARY | {"x-0@1": 0.29}
HOPELESS = dict.fromkeys(ORDINARY, 0.01)
STRUGGLING = ORDINARY | {"main-1": 0.25}
WEAK = ORDINARY | {"main-0": 0.05, "main-1": 0.15}
SAFE = ORDINARY | {f"main-0@{i}": p for i, p in enumerate((0.9, 0.71, 0.8, 0.75))}
PAST_0, PAST_1 = (tuple(n for n in ORDINARY if n.startswith(f"main-{i}@")) for i in range(2))
EXPLOITERS = ("x-0@0", "x-0@1", "x-0@2")
EVERYONE = (*PAST_0, *PAST_1, *EXPLOITERS, "l-0@0", "l-0@1")


def hard(p):
    return (1 - p) ** 2


def variance(p):
    return p * (1 - p)


def spread(match_type, names, f, rates=ORDINARY):
    """What each (match type, opponent) gets, f of its rate over the sum."""
    total = sum(f(rates[name]) for name in names)
    return {(match_type, name): f(rates[name]) / total for name in names}


def mix(*parts):
    """Of (share, distribution): the distribution of all."""
    mixed = {}
    for share, distribution in parts:
        for key, p in distribution.items():
            mixed[key] = mixed.get(key, 0.0) + share * p
    return mixed


ALONE = {("self_play", "main-0"): 1.0}
OTHER = {("current_main", "main-1"): 1.0}
ALL_HARD = spread("pfsp", EVERYONE, hard)
LOST = ("main-1@1", "main-1@2", "x-0@1", "x-0@2")  # under one half
MAINS = mix((0.5, ALONE), (0.5, OTHER))
CUT = spread("verification", PAST_0[:3], hard)  # main-1's rates only fall, so all of its past is cut
STRUGGLE = mix((0.5, ALONE), (0.5, spread("past_main", PAST_1, variance)))
BOTH = {("current_main", "main-0"): 0.5, ("current_main", "main-1"): 0.5}
CAPPED = spread("pfsp", EVERYONE, lambda p: min(0.5, 1 - p))
EVEN = {name: 0.5 + 0.05 * i for i, name in enumerate(f"main-{i}" for i in range(1, 4))}
WINDOW = {("window", f"main-0@{i}"): 0.1 for i in range(2, 12)}
OWN = {("window", f"main-0@{i}"): 1 / 12 for i in range(12)}
TWELVE = {f"main-0@{i}": 0.05 + 0.075 * i for i in range(12)}

CASES = [  # preset, who draws, its rates, how many snapshots each, and what each branch leads to
    ("alphastar_paper", "main-0", ORDINARY, CROWD,
     {"self_play": ALONE, "pfsp": ALL_HARD, "forgotten": spread("forgotten", LOST, hard)}),
    ("alphastar_paper", "main-0", dict.fromkeys(ORDINARY, 0.6), CROWD,
     {"self_play": ALONE, "pfsp": spread("pfsp", EVERYONE, lambda p: 1), "forgotten": ALONE}),
    ("alphastar_paper", "main-0", HOPELESS, CROWD,
     {"self_play": ALONE, "pfsp": spread("pfsp", EVERYONE, lambda p: 1),
      "forgotten": spread("forgotten", (*PAST_0, *PAST_1, *EXPLOITERS), lambda p: 1)}),
    ("alphastar_paper", "x-0", ORDINARY, CROWD,
     {"current_main": BOTH, "past_main": spread("past_main", (*PAST_0, *PAST_1), variance)}),
    ("alphastar_paper", "x-0", WEAK, CROWD,
     {"current_main": spread("past_main", (*PAST_0, *PAST_1), variance),
      "past_main": spread("past_main", (*PAST_0, *PAST_1), variance)}),
    ("alphastar_paper", "l-0", ORDINARY, CROWD, {"pfsp": ALL_HARD}),
    ("alphastar_pseudocode", "main-0", ORDINARY, CROWD,
     {"pfsp": ALL_HARD, "mains": MAINS, "verification": mix((0.5, CUT), (0.5, OTHER))}),
    ("alphastar_pseudocode", "main-0", EXPLOITED, CROWD,
     {"pfsp": spread("pfsp", EVERYONE, hard, EXPLOITED), "mains": MAINS,
      "verification": spread("verification", EXPLOITERS, hard, EXPLOITED)}),
    ("alphastar_pseudocode", "main-0", STRUGGLING, CROWD,
     {"pfsp": ALL_HARD, "mains": STRUGGLE,
      "verification": mix((0.5, CUT), (0.5, spread("past_main", PAST_1, variance)))}),
    ("alphastar_pseudocode", "main-0", SAFE, CROWD,
     {"pfsp": spread("pfsp", EVERYONE, hard, SAFE), "mains": MAINS, "verification": MAINS}),
    ("alphastar_pseudocode", "x-0", ORDINARY, CROWD, {"mains": BOTH}),
    ("alphastar_pseudocode", "x-0", WEAK, CROWD,
     {"mains": mix((0.5, spread("past_main", PAST_0, variance)), (0.5, {("current_main", "main-1"): 1.0}))}),
    ("alphastar_pseudocode", "l-0", ORDINARY, CROWD, {"pfsp": CAPPED}),
    ("win_rate_threshold", "main-0", TWELVE, {"main-0": 12}, {"window": OWN}),
    ("self_play", "main-0", TWELVE, {"main-0": 12}, {"self_play": ALONE, "window": WINDOW}),
    ("fictitious", "main-0", TWELVE, {"main-0": 12, "main-1": 2}, {"window": OWN}),
    ("pfsp", "main-0", TWELVE, {"main-0": 12}, {"pfsp": spread("pfsp", TWELVE, hard, TWELVE)}),
    ("population", "main-0", EVEN, {"main-0": 1, "main-1": 1, "main-2": 1, "main-3": 1},
     {"peers": spread("peers", EVEN, lambda p: np.exp(-((p - 0.5) ** 2) / (2 / 36)), EVEN)}),
    ("none", "main-0", {}, {"main-0": 2}, {"self_play": ALONE}),
]  # fmt: skip
NUM_TESTS = sum(len(branches) + 1 for *_, branches in CASES)


def counted(it, opponents, n, seed):
    """How often n training matches, every seat a draw of its own, were (match type, opponent)."""
    role = it.player.role
    rules = opponents.model_copy(update={"evaluation": 0.0})
    iid = MatchmakingSettings(distinct_opponents=10 * n)
    maker = Matchmaker(
        {role: SimpleNamespace(opponents=rules)}, iid, num_seats=2, env="made-up", seed=1, waits=False
    )
    batch = maker.next_matches(
        it.player, n, it.roster, it.standings, np.random.default_rng(seed), first_match_id=0
    )
    home = batch.competitors.index(it.player.player)
    away = batch.seat.sum(axis=1) - home
    found, counts = np.unique(batch.match_type * 1_000 + away, return_counts=True)
    keys = [(batch.match_types[f // 1_000], batch.competitors[f % 1_000]) for f in found.tolist()]
    return dict(zip(keys, counts.tolist(), strict=True))


def assert_drawn(counts, expected, n):
    expected = {key: p for key, p in expected.items() if p > 0.0}
    assert set(counts) <= set(expected)
    observed = [counts.get(key, 0) for key in expected]
    pvalue = chisquare(observed, [n * p for p in expected.values()]).pvalue if len(expected) > 1 else 1.0
    assert pvalue > 0.001 / NUM_TESTS, (pvalue, counts, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "player", "rates", "snapshots", "branches"),
    CASES,
    ids=[f"{preset}-{player}-{i}" for i, (preset, player, *_) in enumerate(CASES)],
)
def test_every_branch_of_every_preset_draws_by_its_exact_distribution(
    make, preset, player, rates, snapshots, branches
):
    it = make.crowd(player, rates, snapshots=snapshots)
    opponents = LeagueSettings(preset=preset).resolve()[it.player.role].opponents
    assert set(branches) == set(opponents.branches)
    for seed, (name, expected) in enumerate(branches.items()):
        only = {b: s.model_copy(update={"share": float(b == name)}) for b, s in opponents.branches.items()}
        counts = counted(it, opponents.model_copy(update={"branches": only}), DRAWS, seed)
        assert_drawn(counts, expected, DRAWS)
    whole = mix(*((opponents.branches[b].share, expected) for b, expected in branches.items()))
    assert_drawn(counted(it, opponents, DRAWS, 99), whole, DRAWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("branch", "expected"),
    [
        ({"latest": {"share": 1}}, {("latest", "main-0@3"): 1.0}),
        ({"bots": {"share": 1}}, {("bots", "random"): 0.8, ("bots", "perfect"): 0.2}),
        ({"nash": {"share": 1, "meta_strategy": "uniform"}}, spread("nash", EVERYONE, lambda p: 1)),
        ({"peers": {"share": 1, "weighting": "hard"}}, {("peers", "main-1"): 1.0}),
    ],
)
def test_branches_that_no_preset_has_draw_by_their_exact_distribution(make, branch, expected):
    it = make.crowd("main-0", ORDINARY, snapshots=CROWD, bots=("random", "perfect"))
    opponents = OpponentSettings.model_validate({"branches": branch, "bots": {"random": 4, "perfect": 1}})
    assert_drawn(counted(it, opponents, DRAWS, 0), expected, DRAWS)


@pytest.mark.parametrize(
    ("meta_strategy", "expected"),
    [
        ("nash", [1 / 6, 1 / 3, 1 / 3, 1 / 6, 0]),
        ("uniform", [1 / 5] * 5),
        ("rectified", [1 / 4, 1 / 2, 0, 1 / 4, 0]),
    ],
)
def test_psro_draws_by_the_mixture_of_what_its_pool_has_played(make, meta_strategy, expected):
    it = make.crowd("main-0", {}, snapshots={"main-0": 5})
    rock, paper, scissors, again, worst = names = [f"main-0@{i}" for i in range(5)]
    won = [(paper, rock), (scissors, paper), (rock, scissors), (paper, again), (again, scissors)]
    won += [(name, worst) for name in names[:4]] + [(scissors, "main-0"), ("main-0", paper)]
    won += [("main-0", rock), ("main-0", again)]
    for pair in won:
        it.standings.record(make.games(*[(*pair, WIN)] * 1_000))
    it.standings.ratings.mu[:] = 25.0
    it.standings.ratings.variance[:] = 1.0
    opponents = LeagueSettings(preset="psro").resolve()[MAIN].opponents
    branch = opponents.branches["nash"].model_copy(update={"meta_strategy": meta_strategy})
    opponents = opponents.model_copy(update={"branches": {"nash": branch}})
    exact = {("nash", name): p for name, p in zip(names, expected, strict=True)}
    assert_drawn(counted(it, opponents, DRAWS, 0), exact, DRAWS)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_without_snapshots_mains_play_themselves_or_each_other_and_others_play_mains(make, preset):
    settings = LeagueSettings(preset=preset)
    short = {MAIN: "main", MAIN_EXPLOITER: "x", LEAGUE_EXPLOITER: "l"}
    names = {
        f"{short[role]}-{i}": 0
        for role, players in settings.player_names().items()
        for i in range(len(players))
    }
    for player in names:
        it = make.crowd(player, {}, snapshots=names)
        counts = counted(it, settings.resolve()[it.player.role].opponents, 500, 0)
        if it.player.role != MAIN:
            assert {kind for kind, _ in counts} == {"current_main"}
        elif preset == "population":
            assert {kind for kind, _ in counts} == {"peers"}
        else:
            assert {kind for kind, _ in counts} == {"self_play"}
        assert {other for _, other in counts} <= {name for name in names if name.startswith("main")}


def test_a_rate_of_exactly_three_tenths_is_too_low_for_the_pseudocode(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1, "main-1": 1})
    opponents = LeagueSettings(preset="alphastar_pseudocode").resolve()[MAIN].opponents
    only = {"mains": opponents.branches["mains"].model_copy(update={"share": 1.0})}
    rules = opponents.model_copy(update={"branches": only, "prior_strength": 0.0})
    it.standings.record(make.games(*[("main-0", "main-1", WIN)] * 3, *[("main-0", "main-1", LOSS)] * 7))
    assert ("past_main", "main-1@0") in counted(it, rules, 100, 0)
    it.standings.record(make.games(("main-0", "main-1", WIN)))
    assert ("current_main", "main-1") in counted(it, rules, 100, 0)


@pytest.mark.long
def test_verification_finds_what_was_forgotten_within_two_hundred_matches(make):
    """A ladder of ten generations that the main beats, but for one, to which it lately lost ten games."""
    for seed in range(10):
        truth = {f"main-0@{i}": 0.99 - 0.04 * i for i in range(10)} | {"main-0@3": 0.05}
        it = make.crowd("main-0", truth | {"main-0@3": 0.87}, snapshots={"main-0": 10})
        roles, rng = LeagueSettings(preset="alphastar_pseudocode").resolve(), np.random.default_rng(seed)
        maker = Matchmaker(roles, num_seats=2, env="made-up", seed=0)
        before = maker.next_matches(it.player, 1_000, it.roster, it.standings, rng, 0)
        assert "verification" not in {before.match_types[i] for i in before.match_type}
        it.standings.record(make.games(*[("main-0", "main-0@3", LOSS)] * 10))
        verified = []
        for first in range(0, 200, 20):
            batch = maker.next_matches(it.player, 20, it.roster, it.standings, rng, first)
            for match in (batch[i] for i in range(20)):
                (other,) = {seat.competitor for seat in match.seats} - {"main-0"} or {"main-0"}
                if match.match_type == "verification":
                    verified.append(other)
                if other != "main-0":
                    won = WIN if rng.random() < truth[other] else LOSS
                    it.standings.record(make.games(("main-0", other, won)))
        assert verified.count("main-0@3") > len(verified) / 3


# ---------------------------------------------------------------- evaluation and placement


def requests(it, opponents, n, matches=8, num_seats=2):
    maker = Matchmaker(
        {it.player.role: SimpleNamespace(opponents=opponents)}, num_seats=num_seats, env="made-up", seed=1
    )
    rng = np.random.default_rng(3)
    return [maker.next_matches(it.player, matches, it.roster, it.standings, rng, 0) for _ in range(n)]


def rules(**fields):
    return OpponentSettings.model_validate({"branches": {"self_play": {"share": 1.0}}, **fields})


@pytest.mark.long
def test_evaluation_takes_its_share_and_nobody_learns_in_it(make):
    it = make.crowd("main-0", {}, snapshots=CROWD, bots=("random",))
    drawn = requests(it, rules(evaluation=0.3), 4_000)
    evaluated = [batch for batch in drawn if batch.purpose == Purpose.EVALUATION]
    assert len(evaluated) == pytest.approx(1_200, abs=120)
    assert not any(batch.learning.any() for batch in evaluated)
    assert all(batch.learning.all() for batch in drawn if batch.purpose == Purpose.TRAINING)
    assert {batch[0].match_type for batch in evaluated} == {"evaluation"}
    names = [batch.competitors[i] for batch in evaluated for i in batch.seat.ravel().tolist()]
    found, counts = np.unique([name for name in names if name != "main-0"], return_counts=True)
    assert set(found) == {*EVERYONE, "random"}
    assert counts.max() / counts.min() < 1.4
    assert names.count("main-0") == len(names) / 2


@pytest.mark.slow
@pytest.mark.parametrize("num_seats", [2, 4])
def test_the_pool_evaluates_pairs_that_are_rarely_played_and_no_player(make, num_seats):
    it = make.crowd("main-0", {}, snapshots={"main-0": 3})
    it.standings.record(make.games(*[("main-0@0", "main-0@1", WIN)] * 9))
    drawn = requests(it, rules(evaluation=0.999, evaluate="pool"), 2_000, 1, num_seats)
    evaluated = [batch[0] for batch in drawn if batch.purpose == Purpose.EVALUATION]
    assert len(evaluated) > 1_900
    seats = [tuple(seat.competitor for seat in match.seats) for match in evaluated]
    assert not any("main-0" in pair for pair in seats)
    if num_seats == 2:
        pairs = [frozenset(pair) for pair in seats]
        assert all(len(pair) == 2 for pair in pairs)
        assert pairs.count(frozenset({"main-0@0", "main-0@1"})) / len(pairs) == pytest.approx(
            0.1 / 2.1, abs=0.02
        )


@pytest.mark.parametrize("evaluate", ["player", "pool"])
def test_with_nobody_to_evaluate_against_all_is_training(make, evaluate):
    it = make.crowd("main-0", {}, snapshots={"main-0": int(evaluate == "pool")})
    drawn = requests(it, rules(evaluation=0.9, evaluate=evaluate), 30)
    assert {batch.purpose for batch in drawn} == {Purpose.TRAINING}


def test_newcomers_take_their_share_of_training_until_they_are_placed(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 3}, bots=("random",))
    it.standings.record(make.games(*[(f"main-0@{i}", "random", WIN) for i in (0, 1)] * 50))
    counts = counted(it, rules(placement=0.25), DRAWS, 0)
    assert_drawn(counts, {("self_play", "main-0"): 0.75, ("placement", "main-0@2"): 0.25}, DRAWS)
    it.standings.record(make.games(*[("main-0@2", "random", WIN)] * 50))
    assert counted(it, rules(placement=0.25), 1_000, 0) == {("self_play", "main-0"): 1_000}


def test_placement_and_evaluation_in_a_game_for_one_are_refused(make):
    it = make.crowd("main-0", {}, snapshots={"main-0": 1})
    with pytest.raises(ValueError, match="1 seat, but main draws opponents by placement and evaluation"):
        requests(it, rules(placement=0.1, evaluation=0.1), 1, num_seats=1)
