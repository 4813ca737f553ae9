"""Sizes that the league finds for itself on Ray: runners, threads, matches of a request."""

import pytest

import analysis
from league.config.loading import load
from league.training.loop import train


def config(env_steps):
    return {
        "env": {"id": "connect_four"},
        "policy": {"hidden": [16]},
        "league": {"preset": "pfsp", "freeze_every": 40_000},
        "rollout": {"slots": "auto", "matches_per_request": "auto", "max_lag": 32},
        "resources": {"learner_threads": "auto"},
        "learner": {"batch_steps": 1024},
        "runners": "auto",
        "stop": {"env_steps": env_steps},
    }


class Sizes:
    """View that notes how many matches a request of main-0 brings."""

    def __init__(self):
        self.seen = []

    def show(self, session):
        self.seen.append(session.matches.pace.matches("main-0"))

    def close(self, session):
        pass


@pytest.mark.long
@pytest.mark.alone
def test_a_run_whose_sizes_are_found_goes_on_where_it_stopped(tmp_path):
    """What was found is not stored: a session may go on elsewhere, so it begins small and finds its own."""
    run = train(load(config(150_000)), tmp_path / "run")
    with analysis.open_run(run) as history:
        matches = history.sql("SELECT count(*) AS n FROM matches")["n"].item()
        stored = set(history.sql("SELECT snapshot_id FROM snapshots")["snapshot_id"])
        updates = history.sql("SELECT max(updates) AS n FROM updates")["n"].item()
    sizes = Sizes()
    train(load(config(400_000)), run, resume=True, make_view=lambda: sizes)
    assert sizes.seen[0] < max(sizes.seen)
    with analysis.open_run(run) as history:
        after = history.sql("SELECT count(*) AS n, count(DISTINCT seq) AS apart FROM matches").iloc[0]
        assert after["n"] == after["apart"] > matches
        assert stored < set(history.sql("SELECT snapshot_id FROM snapshots")["snapshot_id"])
        assert history.sql("SELECT max(updates) AS n FROM updates")["n"].item() > updates
