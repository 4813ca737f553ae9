"""`runners: 0`: the same config and seed give the same league, fact by fact."""

import pytest

import league
from storage.ledger.ledger import read_tables
from tests.parameters import mostly_long

pytestmark = pytest.mark.slow

# what no two runs share: clocks, and what is measured by them
CLOCKS = {
    "matches": {"started_at", "seconds"},
    "snapshots": {"created_at"},
    "decisions": {"decided_at"},
    "updates": {"recorded_at", "metrics"},
}
FACTS = ("matches", "seats", "meetings", "recordings", "ratings", "snapshots", "decisions", "updates")


def facts(run):
    tables = read_tables(run / "ledger", FACTS)
    return {
        name: table.drop_columns([c for c in table.column_names if c in CLOCKS.get(name, ())])
        for name, table in tables.items()
    }


@pytest.mark.parametrize("env", mostly_long(["connect_four", "openspiel:leduc_poker", "tron"]))
def test_a_run_without_ray_repeats_every_match_rating_snapshot_and_decision(env, tmp_path):
    config = {
        "env": {"id": env},
        "policy": {"hidden": [16]},
        "league": {
            "preset": "alphastar_paper",
            "freeze_every": 800,
            # a player of a game for four meets three mains at once
            "players": {"main": 4, "main_exploiter": 1, "league_exploiter": 1},
        },
        "rollout": {"slots": 32, "matches_per_request": 64, "record": 0.5},
        "learner": {"batch_steps": 256},
        "log": {"seconds": 1e6},  # updates are written by the clock, and take a place among the frames
        "runners": 0,
        "stop": {"env_steps": 8_000},
    }
    one, other = (facts(league.train(config, tmp_path / name)) for name in ("one", "other"))
    assert set(one) == set(FACTS)
    assert all(len(table) for table in one.values())
    for name in FACTS:
        assert one[name].equals(other[name]), name
