from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from league.rules.builder import Clock, FreezeSettings, LeagueBuilder, ResetSettings
from league.rules.matchmaker import Matchmaker
from league.rules.presets import LeagueSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, Freeze, LivePlayer, Outcome, Reset

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
    return LeagueBuilder(roles).decide(it.roster, it.standings, named, np.random.default_rng(seed))


def win_against(it, make, player, names, wins, losses=0):
    for name in names:
        batch = [(player, name, WIN)] * wins + [(player, name, LOSS)] * losses
        it.standings.record(make.games(*batch))


def with_reset(role, **reset):
    freeze = FreezeSettings(max_steps=10)
    return {role: SimpleNamespace(freeze=freeze, reset=ResetSettings(probability=1.0, **reset))}


def test_a_main_is_frozen_every_n_steps_and_never_reset(make):
    it = league(make, "main-0")
    assert decide(it, N - 1) == []
    (freeze,) = decide(it, N)
    assert freeze == Freeze(
        player="main-0", reason="schedule", evidence={"steps_since_freeze": N, "max_steps": N}
    )


def test_a_main_exploiter_that_beats_all_mains_is_frozen_then_reset(make):
    it = league(make, "main-0", "x-0")
    win_against(it, make, "x-0", ["main-0"], wins=60)
    freeze, reset = decide(it, N // 10)
    assert isinstance(freeze, Freeze)
    assert (freeze.player, freeze.reason) == ("x-0", "beats all mains")
    assert freeze.evidence["win_rate"] > 0.7 == freeze.evidence["win_rate_threshold"]
    assert freeze.evidence["games"] == 60
    assert reset == Reset(player="x-0", reason="initial", evidence={"probability": 1.0}, target="x-0@0")


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


def test_a_league_exploiter_is_reset_in_a_quarter_of_the_cases(make):
    it = league(make, "l-0")
    resets = sum(len(decide(it, N, seed=seed)) - 1 for seed in range(2_000))
    assert resets == pytest.approx(500, abs=80)


def test_nobody_is_frozen_twice_with_the_same_weights(make):
    it = league(make, "main-0", "x-0")
    win_against(it, make, "x-0", ["main-0"], wins=60)
    roles = {
        **PAPER,
        MAIN_EXPLOITER: SimpleNamespace(
            freeze=FreezeSettings(beats="mains", min_steps=0), reset=ResetSettings()
        ),
    }
    assert decide(it, 0, roles) == []
    assert len(decide(it, 1, roles)) == 1


def test_preset_none_decides_nothing(make):
    it = league(make, "main-0")
    assert decide(it, 10**12, LeagueSettings(preset="none").resolve()) == []


def test_reset_to_the_latest_main(make):
    it = league(make, "main-0", "x-0")
    it.roster.admit(make.snapshot("main-0@1"))
    it.standings.on_admit(it.roster["main-0@1"], "main-0")
    roles = {MAIN: PAPER[MAIN], **with_reset(MAIN_EXPLOITER, target="latest_main")}
    assert decide(it, 10, roles)[1].target == "main-0@1"
    it.roster.retire("main-0@1")
    it.roster.retire("main-0@0")
    assert decide(it, 10, roles)[1].target == "x-0@0"


def test_reset_to_a_named_snapshot(make):
    it = league(make, "main-0", "x-0")
    roles = {MAIN: PAPER[MAIN], **with_reset(MAIN_EXPLOITER, target="named", snapshot="main-0@0")}
    assert decide(it, 10, roles)[1].target == "main-0@0"


def test_inherit_takes_the_past_exploiter_closest_to_even_within_the_bounds(make):
    it = league(make, "main-0", "x-0")
    roles = {MAIN: PAPER[MAIN], **with_reset(MAIN_EXPLOITER, target="inherit")}
    for wins in (1, 3, 4, 6):  # of 10 against the main
        name = f"x-0@{wins}"
        it.roster.admit(make.snapshot(name, player="x-0", role=MAIN_EXPLOITER))
        it.standings.on_admit(it.roster[name], "x-0")
        win_against(it, make, name, ["main-0"], wins=wins, losses=10 - wins)
    win_against(it, make, "x-0@0", ["main-0"], wins=0, losses=10)
    reset = decide(it, 10, roles)[1]
    assert (reset.target, reset.reason) == ("x-0@4", "inherited")
    assert reset.evidence["win_rate"] == pytest.approx(0.4, abs=0.02)
    it.roster.retire("x-0@4")
    it.roster.retire("x-0@3")
    assert decide(it, 10, roles)[1].reason == "initial"


def test_a_reset_without_anything_to_go_back_to_is_refused():
    roster = Roster([LivePlayer("x-0", MAIN_EXPLOITER)])
    it = SimpleNamespace(roster=roster, standings=Standings(roster))
    with pytest.raises(ValueError, match="'x-0' is to be reset but has no snapshot"):
        decide(it, 10, with_reset(MAIN_EXPLOITER))


@pytest.mark.parametrize(
    ("settings", "fields", "message"),
    [
        (
            FreezeSettings,
            {"min_steps": 10, "max_steps": 5},
            "max_steps is 5, expected at least min_steps, 10",
        ),
        (FreezeSettings, {"win_rate": 1.2}, "less than or equal to 1"),
        (FreezeSettings, {"max_steps": -1}, "greater than 0"),
        (ResetSettings, {"target": "named"}, "'named' with no snapshot"),
        (ResetSettings, {"snapshot": "a"}, "'initial' with snapshot 'a'"),
        (ResetSettings, {"inherit_above": 0.6}, "inherit_above is 0.6"),
    ],
)
def test_contradictory_settings_are_refused(settings, fields, message):
    with pytest.raises(ValidationError, match=message):
        settings.model_validate(fields)


def test_a_made_up_league_goes_through_its_cycles(make):
    """The loop without training: exploiters always win, so they are frozen and reset again and again."""
    settings = LeagueSettings(
        freeze_every=400, players={"main": 2, "main_exploiter": 2, "league_exploiter": 1}
    )
    roles, rng = settings.resolve(), np.random.default_rng(0)
    roster = Roster()
    standings = Standings(roster)
    matchmaker = Matchmaker(roles, num_seats=2, env="made-up", seed=0)
    builder = LeagueBuilder(roles)
    steps, frozen_at, reset_at, cycles, last = {}, {}, {}, {}, {}

    def freeze(player):
        new = make.snapshot(f"{player.player}@{steps[player.player]}", player.player, player.role)
        roster.admit(new)
        standings.on_admit(new, player.player)
        frozen_at[player.player] = steps[player.player]

    for role, names in settings.player_names().items():
        for name in names:
            player = LivePlayer(name, role)
            roster.admit(player)
            standings.on_admit(player)
            steps[name] = reset_at[name] = cycles[name] = 0
            freeze(player)
    next_id = 0
    for _ in range(120):
        for player in roster.players:
            batch = matchmaker.next_matches(player, 64, roster, standings, rng, next_id)
            next_id += 64
            strength = np.array([0.0 if c.startswith("main-") else 2.0 for c in batch.competitors])
            gap = strength[batch.seat[:, 0]] - strength[batch.seat[:, 1]]
            first = np.where(rng.random(64) < 1 / (1 + np.exp(-gap)), WIN, LOSS)
            standings.record(make.results(batch, np.stack([first, 2 - first], axis=1)))
            steps[player.player] += 64
        clocks = {
            name: Clock(
                env_steps=s, updates=s, since_freeze=s - frozen_at[name], since_reset=s - reset_at[name]
            )
            for name, s in steps.items()
        }
        last.clear()
        for decision in builder.decide(roster, standings, clocks, rng):
            if isinstance(decision, Freeze):
                freeze(roster[decision.player])
            else:
                assert isinstance(decision, Reset)
                assert last[decision.player] == "freeze"
                standings.on_reset(decision.player, decision.target)
                assert decision.target == f"{decision.player}@0"
                index = roster.index(decision.player)
                assert standings.payoff.games(index, np.arange(len(roster))).sum() == 0
                reset_at[decision.player] = steps[decision.player]
                cycles[decision.player] += 1
            last[decision.player] = decision.kind
    assert all(cycles[name] >= 5 for name in ("main_exploiter-0", "main_exploiter-1"))
    assert cycles["main-0"] == cycles["main-1"] == 0
    assert len(set(roster.ids)) == len(roster)
    assert np.isfinite(standings.ratings.mu).all()
