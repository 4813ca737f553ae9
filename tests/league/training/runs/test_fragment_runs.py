"""Runs whose matches are longer than their fragments."""

import itertools

import pytest
import yaml

import analysis
import league
from league.config.loading import load
from league.training.loop import train
from storage.archive import Archive
from storage.ledger.ledger import read_tables

pytestmark = pytest.mark.slow

LENGTH = 40


@pytest.fixture
def config():
    def make(**rollout):
        return {
            "env": {"id": "recall", "options": {"length": LENGTH}},
            "policy": {"hidden": [8], "memory": {"kind": "gru", "size": 8}},
            "league": {"preset": "none", "roles": {"main": {"freeze": {"max_steps": 1000}}}},
            "rollout": {"slots": 16, "matches_per_request": 16, "fragment_steps": 6, **rollout},
            "learner": {"batch_steps": 96},
            "log": {"seconds": 1e6},
            "stop": {"env_steps": 3_000},
        }

    return make


def facts(run):
    with analysis.open_run(run) as history:
        return history.sql("SELECT match_id, env_steps, reason FROM matches ORDER BY seq")


def test_results_stay_whole_facts_and_freezing_counts_steps_as_they_arrive(config, tmp_path):
    learner = {"learner": {"batch_steps": 96, "sequence_length": 12}}  # what is learned from at once
    run = league.train(config() | learner, tmp_path / "run")
    found = facts(run)
    assert found["match_id"].is_unique
    assert (found["env_steps"] == LENGTH).all()
    frozen = read_tables(run / "ledger", ["snapshots"])["snapshots"]["env_steps"].to_pylist()
    # 16 matches side by side play 96 steps in a request, and 640 until the first of them ends
    assert max(b - a for a, b in itertools.pairwise(frozen)) < 1000 + 2 * 96
    assert len(frozen) >= 4


def test_a_resumed_run_has_dropped_what_was_under_way_and_records_each_match_once(config, tmp_path):
    run = league.train(config(), tmp_path / "run")
    before = len(facts(run))
    with Archive.open(run) as archive:
        trained = archive.load_learner("main-0")[1]["env_steps"]
    league.train(config() | {"stop": {"env_steps": 5_000}}, run, resume=True)
    after = facts(run)
    assert after["match_id"].is_unique
    assert (after["env_steps"] == LENGTH).all()
    assert len(after) > before + 20
    with Archive.open(run) as archive:
        assert archive.load_learner("main-0")[1]["env_steps"] > trained + 1500


def test_a_session_stops_at_its_steps_with_those_of_unfinished_matches_counted(config, tmp_path):
    settings = load(config() | {"stop": {"env_steps": 16 * 30}})  # no match is over then
    seen = []

    class View:
        def show(self, session):
            seen.append((session.totals.env_steps, session.totals.played_steps))

        def close(self, session):
            pass

    run = train(settings, tmp_path / "run", make_view=View)
    assert seen[-1] == (0, 16 * 30)
    assert facts(run).empty


@pytest.mark.parametrize(
    "weights",
    [
        pytest.param("newest", marks=pytest.mark.long),
        pytest.param("began", marks=[pytest.mark.long, pytest.mark.variant]),
    ],
)
def test_a_league_in_fragments_repeats_every_fact(weights, tmp_path):
    config = yaml.safe_load(f"""
        env: {{id: tron}}
        policy: {{hidden: [8]}}
        league: {{preset: alphastar_paper, freeze_every: 600, players: {{main: 4, main_exploiter: 1}}}}
        rollout:
          {{slots: 16, matches_per_request: 16, record: 0.5, fragment_steps: 5, fragment_weights: {weights}}}
        learner: {{batch_steps: 128}}
        log: {{seconds: 1.0e+6}}
        stop: {{env_steps: 3000}}
    """)
    tables = ("seats", "meetings", "recordings", "ratings", "snapshots")
    one, other = (
        read_tables(league.train(config, tmp_path / name) / "ledger", tables) for name in ("one", "other")
    )
    for name in tables:
        columns = [c for c in one[name].column_names if c != "created_at"]
        assert len(one[name])
        assert one[name].select(columns).equals(other[name].select(columns)), name
