import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from league.rules.building.builder import (
    Clock,
    FreezeSettings,
    KeepSettings,
    LeagueBuilder,
    PlateauSettings,
    ResetSettings,
    as_recorded,
    make_builder,
)
from league.rules.presets import LeagueSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import (
    LEAGUE_EXPLOITER,
    MAIN,
    MAIN_EXPLOITER,
    Freeze,
    LivePlayer,
    Outcome,
    Reset,
    Retire,
)
from tests.league.rules.building.explains import explains
from tests.parameters import VARIANTS

WIN, DRAW, LOSS, _ = Outcome
N = 1_000
PAPER = LeagueSettings(freeze_every=N).resolve()
PLAYERS = {"main-0": MAIN, "x-0": MAIN_EXPLOITER, "l-0": LEAGUE_EXPLOITER}


def league(make, *players):
    roster = Roster([LivePlayer(name, PLAYERS[name]) for name in players])
    standings = Standings(roster)
    for name in players:
        initial = make.snapshot(f"{name}@0", player=name, role=PLAYERS[name])
        roster.admit(initial)
        standings.on_admit(initial, name)
    return SimpleNamespace(roster=roster, standings=standings)


def clock(since_freeze):
    return Clock(env_steps=since_freeze, updates=0, since_freeze=since_freeze, since_reset=since_freeze)


def decide(it, since_freeze, roles=PAPER, seed=0, **clocks):
    named = {player.player: clock(since_freeze) for player in it.roster.players}
    return as_recorded(
        LeagueBuilder(roles).decide(it.roster, it.standings, named, np.random.default_rng(seed))
    )


def win_against(it, make, player, names, wins, losses=0):
    for name in names:
        batch = [(player, name, WIN)] * wins + [(player, name, LOSS)] * losses
        it.standings.record(make.games(*batch))


def rules(freeze=None, reset=None, keep=None):
    return SimpleNamespace(
        freeze=freeze or FreezeSettings(),
        reset=reset or ResetSettings(),
        keep=keep or KeepSettings(),
        policy={},
    )


def test_a_main_is_frozen_every_n_steps_and_never_reset(make):
    it = league(make, "main-0")
    assert decide(it, N - 1) == []
    (freeze,) = decide(it, N)
    assert freeze == Freeze(
        player="main-0", reason="schedule", evidence={"steps_since_freeze": N, "max_steps": N}
    )


def response(make, *windows, budget=10 * N, games=100, gain=0.25):
    """A player whose training games against main-0@0 were so many wins of 100 in each window, one by one."""
    rule = FreezeSettings(max_steps=budget, plateau=PlateauSettings(games=games, gain=gain))
    it = league(make, "main-0")
    it.standings = Standings(it.roster, form_games=games)
    for wins in windows:
        won = [("main-0", "main-0@0", WIN)] * wins + [("main-0", "main-0@0", LOSS)] * (100 - wins)
        it.standings.record(make.games(*won))
    return it, {MAIN: rules(freeze=rule)}


def test_a_response_that_gains_no_more_is_frozen_on_the_plateau(make):
    it, roles = response(make, 50, 90, 92)
    (freeze,) = decide(it, N, roles)
    assert freeze.reason == "plateau"
    assert freeze.evidence["gain"] == pytest.approx(0.04)  # leads of 0.84 and of 0.8
    assert freeze.evidence["gain_error"] == pytest.approx(np.sqrt((1 - 0.84**2 + 1 - 0.8**2) / 100))
    assert explains(freeze, roles[MAIN])


def test_a_response_that_still_gains_or_may_gain_goes_on_until_its_budget_ends(make):
    for windows, gain in (((50, 90), 0.25), ((50, 90, 92), 0.2), ((50,), 0.25)):  # 0.04 + 2 errors: 0.202
        it, roles = response(make, *windows, gain=gain)
        assert decide(it, N, roles) == []
        (freeze,) = decide(it, 10 * N, roles)
        assert freeze.reason == "timeout"
        assert freeze.evidence["max_steps"] == 10 * N
        assert explains(freeze, roles[MAIN])


def test_a_plateau_is_not_looked_for_before_the_fewest_steps(make):
    it, roles = response(make, 90, 90)
    freeze = roles[MAIN].freeze.model_copy(update={"min_steps": N})
    assert decide(it, N - 1, {MAIN: rules(freeze=freeze)}) == []
    assert decide(it, N, {MAIN: rules(freeze=freeze)})[0].reason == "plateau"


def test_a_main_exploiter_that_beats_all_mains_is_frozen_then_reset(make):
    it = league(make, "main-0", "x-0")
    win_against(it, make, "x-0", ["main-0"], wins=60)
    freeze, reset = decide(it, N // 10)
    assert isinstance(freeze, Freeze)
    assert (freeze.player, freeze.reason) == ("x-0", "beats all mains")
    assert freeze.evidence["win_rate"] > 0.7 == freeze.evidence["win_rate_threshold"]
    assert freeze.evidence["games"] == 60
    assert (reset.player, reset.reason, reset.target) == ("x-0", "initial", "x-0@0")
    assert reset.evidence["drawn"] < 1.0 == reset.evidence["probability"]


def test_a_freeze_carries_its_reset_and_is_recorded_as_two_rows(make):
    it = league(make, "main-0", "x-0")
    clocks = {"main-0": clock(0), "x-0": clock(2 * N)}
    (freeze,) = LeagueBuilder(PAPER).decide(it.roster, it.standings, clocks, np.random.default_rng(0))
    assert isinstance(freeze.reset, Reset)
    assert freeze.reset.player == freeze.player == "x-0"
    recorded, reset = as_recorded([freeze])
    assert (recorded.reason, recorded.evidence, recorded.reset) == (freeze.reason, freeze.evidence, None)
    assert reset is freeze.reset


def test_too_few_games_or_too_few_steps_freeze_nobody(make):
    it = league(make, "main-0", "x-0")
    win_against(it, make, "x-0", ["main-0"], wins=49)
    assert decide(it, N // 10) == []
    win_against(it, make, "x-0", ["main-0"], wins=1)
    assert decide(it, N // 10 - 1) == []
    assert len(decide(it, N // 10)) == 2


def test_one_unbeaten_main_is_enough_to_go_on(make):
    it = league(make, "main-0", "x-0")
    it.roster.admit(LivePlayer("main-1", MAIN))
    it.standings.on_admit(it.roster["main-1"])
    win_against(it, make, "x-0", ["main-0"], wins=60)
    win_against(it, make, "x-0", ["main-1"], wins=30, losses=30)
    assert decide(it, N - 1) == []


def test_a_main_exploiter_is_frozen_after_twice_n_steps_in_any_case(make):
    it = league(make, "main-0", "x-0")
    assert [d.player for d in decide(it, 2 * N - 1)] == ["main-0"]
    _, freeze, reset = decide(it, 2 * N)
    assert (freeze.reason, reset.kind) == ("timeout", "reset")


def test_a_league_exploiter_must_beat_every_snapshot(make):
    it = league(make, "main-0", "l-0")
    win_against(it, make, "l-0", ["main-0@0"], wins=60)
    assert decide(it, N - 1) == []
    win_against(it, make, "l-0", ["l-0@0"], wins=60)
    decisions = decide(it, N - 1)
    assert decisions[0].reason == "beats all snapshots"
    assert decisions[0].evidence["opponents"] == 2


def test_an_exploiter_need_only_beat_the_snapshot_that_was_the_newest_when_it_began(make):
    it = league(make, "main-0", "x-0")
    roles = {MAIN: rules(), MAIN_EXPLOITER: rules(FreezeSettings(beats="targets", min_steps=10))}
    later = make.snapshot("main-0@1", player="main-0")
    it.roster.admit(later)
    it.standings.on_admit(later, "main-0")
    win_against(it, make, "x-0", ["main-0@1", "main-0"], wins=60)
    assert decide(it, 10, roles) == []
    win_against(it, make, "x-0", ["main-0@0"], wins=60)
    (freeze,) = decide(it, 10, roles)
    assert (freeze.player, freeze.reason, freeze.evidence["opponents"]) == ("x-0", "beats all targets", 1)


@pytest.mark.slow
def test_a_league_exploiter_is_reset_in_a_quarter_of_the_cases(make):
    it = league(make, "l-0")
    resets = sum(len(decide(it, N, seed=seed)) - 1 for seed in range(2_000))
    assert resets == pytest.approx(500, abs=80)


def test_nobody_is_frozen_twice_with_the_same_weights(make):
    it = league(make, "main-0", "x-0")
    win_against(it, make, "x-0", ["main-0"], wins=60)
    roles = {**PAPER, MAIN_EXPLOITER: rules(FreezeSettings(beats="mains", min_steps=0))}
    assert decide(it, 0, roles) == []
    assert len(decide(it, 1, roles)) == 1


def test_preset_none_decides_nothing(make):
    it = league(make, "main-0")
    assert decide(it, 10**12, LeagueSettings(preset="none").resolve()) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_steps": 10, "max_steps": 5}, "max_steps is 5, expected at least min_steps, 10"),
        ({"win_rate": 1.2}, "less than or equal to 1"),
        ({"max_steps": -1}, "greater than 0"),
    ],
)
def test_contradictory_settings_are_refused(fields, message):
    with pytest.raises(ValidationError, match=message):
        FreezeSettings.model_validate(fields)


def test_the_pseudocode_freezes_who_beats_everyone_after_n_steps_anyone_after_2n(make):
    """AlphaStar's ready_to_checkpoint: not before N, then when min(win rates) > 0.7, else after 2 N."""
    it = league(make, "main-0")
    it.roster.admit(make.snapshot("main-0@1"))
    it.standings.on_admit(it.roster["main-0@1"], "main-0")
    roles = {
        MAIN: rules(
            FreezeSettings(beats="snapshots", win_rate=0.7, min_games=0, min_steps=N, max_steps=2 * N)
        )
    }
    win_against(it, make, "main-0", ["main-0@0"], wins=60)
    win_against(it, make, "main-0", ["main-0@1"], wins=10, losses=20)
    assert decide(it, 2 * N - 1, roles) == []  # the other snapshot is not beaten
    assert [d.reason for d in decide(it, 2 * N, roles)] == ["timeout"]
    win_against(it, make, "main-0", ["main-0@1"], wins=150)
    assert decide(it, N - 1, roles) == []
    assert [d.reason for d in decide(it, N, roles)] == ["beats all snapshots"]


def test_a_threshold_without_a_timeout_waits_until_everyone_is_beaten(make):
    it = league(make, "main-0")
    roles = {MAIN: rules(FreezeSettings(beats="snapshots", win_rate=0.85, min_games=20))}
    assert decide(it, 10**12, roles) == []
    win_against(it, make, "main-0", ["main-0@0"], wins=19)
    assert decide(it, 1, roles) == []
    win_against(it, make, "main-0", ["main-0@0"], wins=30)
    (freeze,) = decide(it, 1, roles)
    assert freeze.evidence["win_rate"] > 0.85
    win_against(it, make, "main-0", ["main-0@0"], wins=0, losses=10)
    assert decide(it, 1, roles) == []


def admit(it, make, *names, player="main-0", role=MAIN):
    for name in names:
        it.roster.admit(make.snapshot(name, player=player, role=role))
        it.standings.on_admit(it.roster[name], player)


def test_snapshots_beyond_the_most_retire_one_a_player_at_a_time_behind_the_freezes(make):
    it = league(make, "main-0", "x-0")
    admit(it, make, "main-0@1", "main-0@2", "main-0@3", "main-0@4")
    admit(it, make, "x-0@1", "x-0@2", player="x-0", role=MAIN_EXPLOITER)
    roles = {
        MAIN: rules(keep=KeepSettings(snapshots=2)),
        MAIN_EXPLOITER: rules(FreezeSettings(max_steps=10), keep=KeepSettings(snapshots=2)),
    }
    assert [(d.kind, d.player) for d in decide(it, 10, roles)] == [("freeze", "x-0"), ("retire", "main-0")]
    gone = []
    while decisions := decide(it, 9, roles):
        for decision in decisions:
            it.roster.retire(decision.target)
        gone.append([decision.target for decision in decisions])
    assert gone == [["main-0@1", "x-0@1"], ["main-0@2"], ["main-0@3"]]


# ---------------------------------------------------------------- a builder of one's own


def test_the_builder_of_the_examples_freezes_a_player_once_it_has_risen_enough(make, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4]))
    builder = make_builder("configs.own_builder:ByProgress", PAPER)
    it = league(make, "main-0", "x-0")
    rng = np.random.default_rng(0)

    def ask(since_freeze):
        clocks = {name: clock(since_freeze) for name in ("main-0", "x-0")}
        return builder.decide(it.roster, it.standings, clocks, rng)

    assert ask(1) == []
    win_against(it, make, "main-0", ["main-0@0"], wins=30)
    assert ask(0) == []  # nothing was learned since
    (freeze,) = ask(1)
    assert (freeze.player, freeze.reason) == ("main-0", "progress")
    assert freeze.evidence["rise"] > freeze.evidence["least_rise"]
    assert [d.reason for d in ask(N)] == ["schedule"]  # what the config says comes first


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("paper", "no builder is called 'paper', expected 'default' or your own as 'module:Class'"),
        (
            "nowhere_at_all:Mine",
            "builder 'nowhere_at_all:Mine': module .* cannot be imported: No module",
        ),
        ("math:nothing", "module 'math' has no 'nothing'"),
        ("math:pi", "'math:pi' is a float, expected a class"),
        ("builtins:dict", "has no decide"),
        ("league.rules.standings:Standings", "has no decide"),
        ("own_builders:Deaf", r"has no decide\(roster, standings, clocks, rng\)"),
        ("own_builders:Bare", r"has no __init__\(roles\)"),
        ("own_builders_broken:Any", "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_no_builder_is_refused_in_one_sentence(name, message, monkeypatch, tmp_path):
    (tmp_path / "own_builders.py").write_text(
        "class Deaf:\n    def __init__(self, roles): ...\n    def decide(self): ...\n"
        "class Bare:\n    def decide(self, roster, standings, clocks, rng): ...\n"
    )
    (tmp_path / "own_builders_broken.py").write_text("class Any(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=message):
        make_builder(name, PAPER)


def test_default_is_the_builder_that_follows_the_settings():
    assert type(make_builder("default", PAPER)) is LeagueBuilder


# ---------------------------------------------------------------- many steps


freezes = st.builds(
    FreezeSettings,
    beats=st.sampled_from([None, "mains", "snapshots", "targets"]),
    win_rate=st.sampled_from([0.0, 0.5, 0.7]),
    min_games=st.integers(0, 5),
    min_steps=st.integers(0, 40),
    max_steps=st.none() | st.integers(40, 120),
    prior_strength=st.sampled_from([0.0, 10.0]),
)
resets = st.builds(
    ResetSettings,
    probability=st.sampled_from([0.0, 0.3, 1.0]),
    target=st.sampled_from(["initial", "latest_main", "inherit", "better"]),
    prior_strength=st.sampled_from([0.0, 10.0]),
)
keeps = st.builds(
    KeepSettings,
    snapshots=st.none() | st.integers(1, 6),
    by=st.sampled_from(["newest", "strongest", "diverse"]),
    pinned=st.sampled_from([(), ("main-0@0",), ("x-0@0",)]),
    initial=st.booleans(),
    newest=st.booleans(),
    prior_strength=st.sampled_from([0.0, 10.0]),
)
ROLES = st.fixed_dictionaries(
    {role: st.builds(rules, freezes, resets, keeps) for role in (MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER)}
)


def check(decisions, it, roles):
    """What holds of every answer of the builder, whatever the standings."""
    groups = [list(group) for _, group in itertools.groupby(decisions, key=lambda d: d.player)]
    assert len({group[0].player for group in groups}) == len(groups)
    kinds = [tuple(decision.kind for decision in group) for group in groups]
    assert set(kinds) <= {("freeze",), ("freeze", "reset"), ("retire",)}
    assert kinds == sorted(kinds, key=lambda kind: kind == ("retire",))
    for decision in decisions:
        role = PLAYERS[decision.player]
        assert explains(decision, roles[role]), decision
        assert all(np.isfinite(value) for value in decision.evidence.values())
        if isinstance(decision, Reset | Retire):
            assert decision.target in it.roster
        if isinstance(decision, Retire):
            keep, own = roles[role].keep, it.roster.snapshots_of(decision.player)
            index = it.roster.index(decision.target)
            assert not it.roster.is_retired(decision.target)
            assert decision.target not in keep.pinned
            assert not (keep.initial and index == own[0])
            assert not (keep.newest and index == own[-1])
    return groups


def carry_out(groups, it, make, steps, frozen_at):
    """As the session does: the first decision of a group says what the group is."""
    for first, *more in groups:
        name = first.player
        if isinstance(first, Retire):
            it.roster.retire(first.target)
            continue
        admit(it, make, f"{name}@{steps[name]}", player=name, role=PLAYERS[name])
        frozen_at[name] = steps[name]
        for reset in more:
            it.standings.on_reset(name, reset.target)


def simulate(make, roles, seed, num_steps, bias):
    """Random games among those that are seated, `bias` the chance that the earlier admitted wins."""
    it, rng = league(make, *PLAYERS), np.random.default_rng(seed)
    builder = LeagueBuilder(roles)
    steps, frozen_at = dict.fromkeys(PLAYERS, 0), dict.fromkeys(PLAYERS, 0)
    for _ in range(num_steps):
        live = rng.choice([it.roster.index(name) for name in PLAYERS], size=12)
        away = rng.choice(np.concatenate([it.roster.snapshots(), it.roster.mains()]), size=12)
        won = np.where(rng.random(12) < bias, live < away, live > away)
        rows = [
            (it.roster.id(h), it.roster.id(a), DRAW if rng.random() < 0.1 else WIN if w else LOSS)
            for h, a, w in zip(live.tolist(), away.tolist(), won.tolist(), strict=True)
        ]
        it.standings.record(make.games(*rows))
        for name in steps:
            steps[name] += int(rng.integers(1, 30))
        clocks = {
            name: Clock(env_steps=s, updates=s, since_freeze=s - frozen_at[name], since_reset=s)
            for name, s in steps.items()
        }
        groups = check(as_recorded(builder.decide(it.roster, it.standings, clocks, rng)), it, roles)
        carry_out(groups, it, make, steps, frozen_at)
    return it, builder


def settle(it, builder, roles):
    """Retire what is over, one call after the other, while no player learns."""
    clocks = dict.fromkeys(PLAYERS, clock(0))
    for _ in range(len(it.roster)):
        decisions = builder.decide(it.roster, it.standings, clocks, np.random.default_rng(0))
        groups = check(as_recorded(decisions), it, roles)
        if not groups:
            return
        for (retire,) in groups:
            it.roster.retire(retire.target)
    raise AssertionError("there is always a snapshot left to retire")


@pytest.mark.long
@hypothesis_settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # `make` has no state
)
@given(roles=ROLES, seed=st.integers(0, 2**31), bias=st.sampled_from([0.0, 0.5, 0.8, 1.0]))
def test_whatever_the_rules_and_results_decisions_are_in_order_and_explained(roles, seed, bias, make):
    it, builder = simulate(make, roles, seed, 60, bias)
    settle(it, builder, roles)
    assert len(set(it.roster.ids)) == len(it.roster)
    assert np.isfinite(it.standings.ratings.mu).all()
    for role in roles:
        keep, protected = roles[role].keep, 2 * sum(r == role for r in PLAYERS.values()) + 1
        if keep.snapshots is not None:
            assert len(it.roster.snapshots(role)) <= max(keep.snapshots, protected)


@pytest.mark.long
@pytest.mark.parametrize("by", ["newest", "strongest", "diverse"] if VARIANTS else ["diverse"])
def test_ten_thousand_steps_keep_the_league_as_small_as_it_may_be(by, make):
    keep = KeepSettings(snapshots=12, by=by, pinned=("main-0@0",))
    roles = {role: r.model_copy(update={"keep": keep}) for role, r in PAPER.items()}
    it, builder = simulate(make, roles, 0, 10_000, 0.7)
    settle(it, builder, roles)
    assert len(it.roster) > 300
    assert all(len(it.roster.snapshots(role)) == 12 for role in roles)
    assert len(set(it.roster.ids)) == len(it.roster)
    assert np.isfinite(it.standings.ratings.mu).all()


def test_where_payoffs_count_scores_who_wins_more_chips_is_frozen_losing_most_games(make):
    for scale, expected in ((None, []), (1.0, ["beats all mains"])):
        it = league(make, "main-0", "x-0")
        it.standings = Standings(it.roster, scale=scale)
        batch = make.games(*[("x-0", "main-0", LOSS), ("x-0", "main-0", LOSS), ("x-0", "main-0", WIN)] * 40)
        batch.score[:] = np.array([[-1.0, 1.0], [-1.0, 1.0], [5.0, -5.0]] * 40)
        it.standings.record(batch)
        frozen = [one.reason for one in decide(it, N // 10) if isinstance(one, Freeze)]
        assert frozen == expected


def test_a_player_is_copied_only_from_a_snapshot_of_what_it_is_now(make):
    players = [LivePlayer(f"main-{i}", MAIN) for i in range(3)]
    roster = Roster(players)
    standings = Standings(roster)
    for player in players:
        snapshot = make.snapshot(f"{player.player}@0", player=player.player, role=MAIN)
        roster.admit(snapshot)
        standings.on_admit(snapshot, player.player)
        standings.ratings.variance[roster.index(player.player)] = 1.0
    standings.ratings.mu[roster.index("main-1")] = 60  # since it copied one that is better
    builder = LeagueBuilder(LeagueSettings(preset="population", freeze_every=N).resolve())

    def target(since_reset, since_freeze):
        own = Clock(env_steps=N, updates=0, since_freeze=N, since_reset=N)
        other = replace(own, since_freeze=since_freeze, since_reset=since_reset)
        clocks = {"main-0": own, "main-1": other, "main-2": replace(own, since_freeze=0)}
        found = builder.decide(roster, standings, clocks, np.random.default_rng(0))
        return found[0].reset and found[0].reset.target

    assert target(since_reset=9, since_freeze=9) is None  # its newest snapshot is what it was before
    assert target(since_reset=9, since_freeze=2) == "main-1@0"
