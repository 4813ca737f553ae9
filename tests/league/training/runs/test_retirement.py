"""A run that keeps only so many snapshots seated: what goes is no longer met, and never lost."""

import numpy as np
import pytest

import analysis
import league
from league.rules.building.builder import KeepSettings
from storage.archive import Archive, open_reader
from storage.records import Retire
from storage.snapshots.blobs import verify
from tests.league.rules.building.explains import explains

KEEP = {"snapshots": 3, "by": "diverse", "pinned": ["main-0@0"]}


@pytest.fixture(scope="module")
def settings(tiny):
    made = tiny("tic_tac_toe", stop={"env_steps": 60_000}, rollout={"matches_per_request": 64})
    made["league"]["roles"] = {
        "main": {"keep": KEEP},
        "main_exploiter": {"keep": {"snapshots": 2, "by": "strongest", "initial": False}},
    }
    return made


@pytest.fixture(scope="module")
def run(tmp_path_factory, settings):
    return league.train(settings, tmp_path_factory.mktemp("retirement") / "run")


def retirements(run, player):
    with Archive.open(run) as archive:
        return [d for d in archive.history() if isinstance(d, Retire) and d.player == player]


@pytest.mark.long
def test_all_but_so_many_snapshots_retire_one_after_the_other(run):
    by_role = {"main-0": 3, "main_exploiter-0": 2}
    for player, most in by_role.items():
        stored = [s.snapshot_id for s in open_reader(run).snapshots() if s.player == player]
        gone = [retire.target for retire in retirements(run, player)]
        assert len(gone) == len(set(gone)) >= 3
        assert 0 <= len(stored) - len(gone) - most <= 1  # the last one came with the end of training
        assert set(gone) < set(stored)
    assert "main-0@0" not in {retire.target for retire in retirements(run, "main-0")}
    assert retirements(run, "league_exploiter-0") == []


@pytest.mark.long
def test_every_retirement_is_explained_by_its_evidence(run):
    rules = type("Rules", (), {"keep": KeepSettings(**KEEP)})
    found = retirements(run, "main-0")
    assert all(explains(retire, rules) for retire in found)
    assert all(np.isfinite(list(retire.evidence.values())).all() for retire in found)


@pytest.mark.long
def test_a_retired_snapshot_is_met_no_more_but_keeps_its_weights_and_its_rating(run):
    reader = open_reader(run)
    with analysis.open_run(run) as history:
        late = history.sql(
            """
            WITH retired AS (SELECT snapshot_id, seq FROM decisions WHERE kind = 'retire')
            SELECT snapshot_id, count(*) AS matches FROM retired
            JOIN seats ON competitor = snapshot_id AND seats.seq > retired.seq GROUP BY snapshot_id
            """
        )
        rated = set(history.sql("SELECT competitor FROM leaderboard")["competitor"])
    assert late["matches"].max() <= 64 * 2 or late.empty  # requests under way were drawn before
    for retire in retirements(run, "main-0"):
        verify(reader.blob_path(reader.resolve(retire.target)))
        assert retire.target in rated


@pytest.mark.long
def test_a_resumed_run_remembers_who_is_retired(run, settings):
    before = [retire.target for retire in retirements(run, "main-0")]
    league.train({**settings, "stop": {"env_steps": 80_000}}, run, resume=True)
    after = [retire.target for retire in retirements(run, "main-0")]
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) > len(before)
