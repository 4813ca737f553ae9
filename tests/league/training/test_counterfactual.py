"""Another preset's draws and decisions, from a run's ledger alone."""

import itertools
import shutil
from collections import Counter

import numpy as np
import pytest
import yaml

import analysis
import league
from league.config.loading import load
from league.rules import presets
from league.rules.building.builder import KeepSettings
from league.training import counterfactual
from league.training.counterfactual import replay
from storage.archive import Archive
from storage.errors import Mistake
from storage.records import Freeze, Reset
from tests.league.rules.building.explains import explains

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory, tiny):
    """A league of three that froze and reset its exploiters several times."""
    settings = tiny(
        "tic_tac_toe", stop={"env_steps": 60_000}, rollout={"slots": 64, "matches_per_request": 64}
    )
    return league.train(settings, tmp_path_factory.mktemp("counterfactual") / "run")


@pytest.fixture(scope="module")
def same(run):
    return replay(run, "alphastar_paper")


@pytest.fixture(scope="module")
def history(run):
    with analysis.open_run(run) as opened:
        yield opened


def by_kind(decisions, source):
    return Counter((d.player, d.kind) for d in decisions if d.source == source)


def test_recorded_draws_are_those_of_the_match_mix(same, history):
    mix = history.sql("SELECT player, match_type, matches, share FROM match_mix WHERE purpose = 'training'")
    expected = {(row.player, row.match_type): (row.matches, row.share) for row in mix.itertuples()}
    recorded = {
        (row.player, row.match_type): (row.matches, row.recorded) for row in same.draws if row.matches
    }
    assert recorded == {key: (n, pytest.approx(share)) for key, (n, share) in expected.items()}


def test_recorded_opponents_are_those_that_sat_elsewhere(same, history):
    met = history.sql(
        """
        SELECT h.competitor AS player, a.competitor AS opponent, count(*) AS n
        FROM seats h JOIN seats a ON h.seq = a.seq AND h.seat <> a.seat
        WHERE h.learning AND NOT a.learning
        GROUP BY 1, 2
        """
    )
    expected = {(row.player, row.opponent): row.n for row in met.itertuples()}
    recorded = {
        (row.player, row.opponent): row.seats
        for row in same.opponents
        if row.seats and row.player != row.opponent
    }
    assert recorded == expected
    alone = {row.player: row.seats for row in same.opponents if row.player == row.opponent}
    types = {row.player: row.matches for row in same.draws if row.match_type == "self_play"}
    assert alone == types


def test_recorded_decisions_are_those_of_the_ledger_with_their_snapshots(same, history):
    stored = history.sql("SELECT kind, player, snapshot_id, reason FROM decisions ORDER BY seq")
    recorded = [[d.kind, d.player, d.snapshot_id, d.reason] for d in same.decisions if d.source == "recorded"]
    assert recorded == stored.values.tolist()
    times = [d.seconds for d in same.decisions]
    assert times == sorted(times)
    assert times[0] >= 0.0
    assert [d.env_steps for d in same.decisions] == sorted(d.env_steps for d in same.decisions)


def test_a_runs_own_preset_draws_alike(same):
    """Shares of both are draws from the same weights: they differ by chance, and by what was in flight."""
    assert same.left_out == ()
    totals = Counter()
    for row in same.draws:
        totals[row.player] += row.matches
    assert min(totals.values()) > 1000
    for row in same.draws:
        assert row.preset == pytest.approx(row.recorded, abs=5 * np.sqrt(0.5 / totals[row.player]))
    for rows in (same.draws, same.opponents):
        for player in totals:
            assert sum(row.recorded for row in rows if row.player == player) == pytest.approx(1.0)
            assert sum(row.preset for row in rows if row.player == player) == pytest.approx(1.0)


def test_a_runs_own_preset_decides_alike(run, same):
    recorded, preset = by_kind(same.decisions, "recorded"), by_kind(same.decisions, "preset")
    # the first snapshots and the main's last are the session's own
    assert abs(recorded["main-0", "freeze"] - 2 - preset["main-0", "freeze"]) <= 1
    assert preset["main_exploiter-0", "reset"] == preset["main_exploiter-0", "freeze"] >= 3
    assert abs(recorded["main_exploiter-0", "reset"] - preset["main_exploiter-0", "reset"]) <= 1


def test_every_decision_of_the_rules_explains_itself_recorded_or_not(run, same):
    roles = load(yaml.safe_load((run / "config.yaml").read_text())).league.resolve()
    role_of = {row.player: row.role for row in same.draws}
    by_the_session = ("initial weights", "end of training")
    checked = Counter()
    for row in same.decisions:
        if row.reason not in by_the_session:
            common = {"player": row.player, "reason": row.reason, "evidence": row.evidence}
            decision = Freeze(**common) if row.kind == "freeze" else Reset(target=row.snapshot_id, **common)
            assert explains(decision, roles[role_of[row.player]]), row
            checked[row.source, row.kind] += 1
    assert min(checked[key] for key in itertools.product(("recorded", "preset"), ("freeze", "reset"))) >= 3


def test_twice_the_steps_between_freezes_are_half_the_freezes(run, same):
    slow = by_kind(replay(run, "alphastar_paper", freeze_every=2000).decisions, "preset")
    fast = by_kind(replay(run, "alphastar_paper", freeze_every=500).decisions, "preset")
    usual = by_kind(same.decisions, "preset")["main-0", "freeze"]
    assert slow["main-0", "freeze"] == pytest.approx(usual / 2, abs=2)
    assert fast["main-0", "freeze"] > 1.4 * usual


def test_between_two_recorded_snapshots_a_players_steps_are_those_of_its_seats(run):
    found = replay(run, "alphastar_paper", freeze_every=500).decisions
    freezes = [d for d in found if (d.player, d.kind) == ("main-0", "freeze")]
    known = np.array([(d.env_steps, d.player_env_steps) for d in freezes if d.source == "recorded"])
    asked = np.array([(d.env_steps, d.player_env_steps) for d in freezes if d.source == "preset"])
    error = asked[:, 1] - np.interp(asked[:, 0], known[:, 0], known[:, 1])
    assert len(asked) > 10
    assert abs(error.mean()) < 50
    assert np.abs(error).max() < 250


def test_another_preset_draws_its_own_way_and_leaves_out_whom_it_does_not_know(run):
    alone = replay(run, "none")
    assert (alone.recorded, alone.preset) == ("alphastar_paper", "none")
    assert alone.left_out == ("main_exploiter-0", "league_exploiter-0")
    shares = {(row.player, row.match_type): row.preset for row in alone.draws}
    assert shares["main-0", "self_play"] == 1.0
    assert shares["main-0", "pfsp"] == 0.0
    assert shares["league_exploiter-0", "pfsp"] is None
    assert not [d for d in alone.decisions if d.source == "preset"]
    assert [row.preset for row in alone.opponents if row.player == row.opponent == "main-0"] == [1.0]


@pytest.mark.parametrize("preset", presets.PRESETS)
def test_every_preset_can_be_asked_of_any_run(preset, run, same):
    found = replay(run, preset)
    for recorded, rows in ((same.draws, found.draws), (same.opponents, found.opponents)):
        assert {row[:3] for row in recorded if row[-3]} <= {row[:3] for row in rows}
    for player in {row.player for row in found.draws} - set(found.left_out):
        shares = [row.preset for row in found.draws if row.player == player]
        assert sum(shares) == pytest.approx(1.0)
        assert all(0.0 <= share <= 1.0 for share in shares)
    assert {row.player for row in found.draws if row.preset is None} == set(found.left_out)
    for row in found.decisions:
        assert all(np.isfinite(value) for value in row.evidence.values())


def test_what_a_preset_retires_it_draws_no_more(run, monkeypatch):
    keep = KeepSettings(snapshots=2, by="newest")

    def narrow(n):
        paper = presets.PRESETS["alphastar_paper"](n)
        return {role: rules.model_copy(update={"keep": keep}) for role, rules in paper.items()}

    known = {**presets.PRESETS, "narrow": narrow}
    monkeypatch.setattr(counterfactual, "PRESETS", known)
    monkeypatch.setattr(presets, "PRESETS", known)
    found = replay(run, "narrow")
    retired = [d for d in found.decisions if d.kind == "retire"]
    mains = [d.snapshot_id for d in found.decisions if d.kind == "freeze" and d.player == "main-0"]
    mains = [snapshot_id for snapshot_id in mains if snapshot_id is not None]
    assert [d.snapshot_id for d in retired] == mains[1:-2]  # the first stays, the last two came at the end
    assert found.left_out == ("main_exploiter-0", "league_exploiter-0")
    drawn = {row.opponent for row in found.opponents if row.preset}
    assert drawn <= {"main-0", *mains}
    seated = {row.opponent: row.preset for row in found.opponents if row.player == "main-0"}
    assert seated["main-0@0"] > 3 * max(seated.get(name, 0.0) for name in mains[1:])


def test_every_nth_batch_gives_the_same_picture_from_fewer_draws(run, same):
    thin = replay(run, "alphastar_paper", every=4)
    usual = {row[:3]: row for row in same.draws}
    for row in thin.draws:
        assert row[:5] == usual[row[:3]][:5]
        assert row.preset == pytest.approx(usual[row[:3]].preset, abs=0.12)


def test_a_replay_is_repeatable_and_changes_nothing(run, same):
    def bytes_of():
        return {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}

    before = bytes_of()
    assert replay(run, "alphastar_paper") == same
    assert bytes_of() == before


def test_a_run_that_is_being_written_can_be_replayed(run, same):
    with Archive.open(run):
        assert replay(run, "alphastar_paper").draws == same.draws


def test_a_run_of_settings_that_are_no_more_is_refused_in_one_sentence(run, tmp_path):
    old = tmp_path / "run"
    shutil.copytree(run, old)
    config = yaml.safe_load((old / "config.yaml").read_text())
    config["ratings"]["kappa"] = 1
    (old / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(Mistake, match=r"kappa'; .*another version trained this run"):
        replay(old, "none")


def test_the_code_of_a_users_builder_is_not_needed(run, same, tmp_path):
    old = tmp_path / "run"
    shutil.copytree(run, old)
    config = yaml.safe_load((old / "config.yaml").read_text())
    config["league"]["builder"] = "nowhere_at_all:Mine"
    (old / "config.yaml").write_text(yaml.safe_dump(config))
    assert replay(old, "alphastar_paper").draws == same.draws


def test_a_preset_that_needs_opponents_is_refused_in_a_game_for_one(tmp_path, tiny):
    settings = tiny("recall", league={"preset": "none", "players": {"main": 1}}, stop={"env_steps": 2_000})
    run = league.train(settings, tmp_path / "run")
    with pytest.raises(Mistake, match=r"this preset cannot be played here: .* has 1 seat"):
        replay(run, "alphastar_paper")
    assert [row.preset for row in replay(run, "none").draws] == [1.0]
