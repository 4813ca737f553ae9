"""Incidents: one sentence for people, one row for SQL, and the same record again from the ledger."""

import dataclasses

import storage
from storage.archive import Archive
from storage.incidents import Incident

RUNNER = Incident(
    kind="runner",
    who="runner 2",
    node="host-7",
    cause="killed",
    matches=1024,
    remedy="its matches are played again",
    happened_at=1.7e9,
)
LEARNER = Incident(
    kind="learner",
    who="learners of shard 0",
    players=("main-0", "main-1"),
    env_steps=4096,
    updates=1,
    remedy="they go on from a copy 5 s old",
    happened_at=1.7e9 + 1,
)
ASIDE = Incident(kind="set_aside", who="8 matches", matches=8, kept="incidents/a.json", happened_at=1.7e9 + 2)


def test_an_incident_is_a_sentence_who_where_why_what_it_cost_what_came_instead():
    assert RUNNER.sentence() == (
        "runner 2 on node host-7 died (killed): cost 1,024 matches; its matches are played again"
    )
    assert LEARNER.sentence() == (
        "learners of shard 0 died: cost 4,096 steps, 1 update of main-0, main-1; "
        "they go on from a copy 5 s old"
    )
    assert ASIDE.sentence() == "8 matches set aside: cost 8 matches; kept in incidents/a.json"
    idle = dataclasses.replace(LEARNER, env_steps=0, updates=0, remedy="")
    assert idle.sentence() == "learners of shard 0 died: cost nothing"


def test_an_archive_remembers_incidents_whose_rows_can_be_queried_while_it_is_open(tmp_path):
    run_row = {"name": "x", "env": "tic_tac_toe", "seed": 0}
    with Archive.create(tmp_path / "run", "seed: 0\n", run_row) as archive:
        before = archive.append_incidents([])
        assert archive.append_incidents([RUNNER, LEARNER]) == before + 1
        assert archive.incidents() == [RUNNER, LEARNER]
        assert list(archive.history()) == []  # nothing that a league is a fold of
        rows = storage.query(tmp_path / "run", "SELECT who, players, matches FROM incidents")
        assert rows["players"].to_pylist() == ["[]", '["main-0", "main-1"]']
    with Archive.open(tmp_path / "run") as archive:
        assert archive.incidents() == [RUNNER, LEARNER]
