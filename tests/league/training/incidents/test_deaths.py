"""A league whose runners and learners die, as a session sees it: it goes on, and each death is a fact."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

import analysis
import league
from league.learning.groups.learners import LearnerLoss
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.shard_learners import Counters
from league.rollout.runner_group import LocalRunnerGroup, LostRequests
from league.training.incidents import quarantine
from league.training.requests import Ticket
from league.training.session import Session
from league.training.state.state import TrainingPlayer
from league.training.state.under_way import HOPELESS
from storage.archive import Archive, open_reader
from storage.errors import Failure
from storage.incidents import Incident
from storage.records import MAIN, LivePlayer

pytestmark = pytest.mark.slow

DIED = Incident(kind="runner", who="runner 0", node="host-7", cause="killed", happened_at=1.7e9)


SMALL = {"rollout": {"matches_per_request": 64}, "stop": {"env_steps": 5_000}}


class Dying(LocalRunnerGroup):
    """Runner that dies at some requests: `dies` returns whether it does."""

    dies = staticmethod(lambda number, request: False)

    def __init__(self, setup):
        super().__init__(setup)
        self._lost, self._number = [], 0

    def ready(self, timeout_seconds):
        self._number += 1
        if self._queue and Dying.dies(self._number, self._queue[0][1]):
            lost = self._queue.popleft()[0]
            self._lost.append(LostRequests((lost,), lost, DIED))
            return []
        return super().ready(timeout_seconds)

    def losses(self):
        lost, self._lost = self._lost, []
        return lost


@pytest.fixture
def train(tiny, tmp_path, monkeypatch):
    """Train a small league with a runner that dies where `dies` is true."""

    def train(dies, **rollout):
        monkeypatch.setattr(Dying, "dies", staticmethod(dies))
        monkeypatch.setattr("league.training.engine.LocalRunnerGroup", Dying)
        more = {**SMALL, "rollout": {**SMALL["rollout"], **rollout}}
        return league.train(tiny(**more), tmp_path / "run")

    return train


def test_matches_that_died_with_their_runners_are_each_played_again_once(train):
    run = train(lambda number, request: number % 11 == 2)
    with analysis.open_run(run) as history:
        ids = history.matches()["match_id"].to_numpy()
        incidents = history.incidents()
    assert len(set(ids)) == len(ids)
    missing = np.setdiff1d(np.arange(ids.max() + 1), ids)
    assert len(missing) <= 64  # one request: of a player that was reset while it waited to be played again
    assert len(incidents) > 2
    assert incidents["kind"].eq("runner").all()
    assert set(incidents["matches"]) <= {64, 8, 1}
    assert set(incidents["node"]) == {"host-7"}


def test_a_match_that_kills_every_runner_is_a_crash_with_seeds_and_the_run_ends_well(train, capsys):
    run = train(lambda number, request: 300 in request.matches.match_id)
    with analysis.open_run(run) as history:
        crashed = history.matches().query("reason == 'crash'")
        incidents = history.incidents()
        rated = history.sql("SELECT sum(games) AS n FROM payoff WHERE home <> away")
    assert 300 in set(crashed["match_id"])
    assert crashed["match_id"].tolist() == [300]
    assert rated["n"].item() > 0
    assert incidents["kind"].tolist() == ["runner"] * 4 + ["set_aside"]
    (last,) = incidents[incidents["kind"] == "set_aside"].to_dict("records")
    kept = json.loads((run / last["kept"]).read_text())
    assert [match["match_id"] for match in kept["matches"]] == crashed["match_id"].tolist()
    assert [match["seed"] for match in kept["matches"]] == crashed["seed"].tolist()
    assert kept["deaths"] == 4
    assert str(run) in kept["reproduce"]
    quarantine.play(run, last["kept"])
    said = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("match ") for line in said) == 1
    assert "match 300: " in "\n".join(said)


def test_where_nothing_can_be_played_the_run_ends_in_one_sentence_with_all_kept(train, tmp_path):
    with pytest.raises(Failure, match=r"nothing can be played: .*killed.*FROM incidents"):
        train(lambda number, request: number > 4)
    with Archive.open(tmp_path / "run") as archive:
        kinds = [incident.kind for incident in archive.incidents()]
        assert kinds.count("set_aside") == HOPELESS
        assert archive.load_learner("main-0") is not None


FRAGMENTS = {"slots": 64, "fragment_steps": 2}


def test_in_fragments_what_a_lost_request_brought_is_replayed_what_went_on_dropped(train):
    brought = set()

    def dies(number, request):
        if number % 11 != 3:
            return False
        brought.update(request.matches.match_id.tolist())
        return True

    run = train(dies, **FRAGMENTS)
    with analysis.open_run(run) as history:
        ids = history.matches()["match_id"].to_numpy()
        incidents = history.incidents()
    assert len(set(ids)) == len(ids)
    assert len(incidents) > 2
    assert incidents["kind"].eq("runner").all()
    assert (incidents["matches"] > 0).any()
    recorded = brought & set(ids.tolist())  # the others had begun again when a runner died once more
    assert len(recorded) > len(brought) / 4
    assert len(np.setdiff1d(np.arange(ids.max() + 1), ids))


def test_where_no_fragment_can_be_played_the_run_ends_in_one_sentence_too(train):
    with pytest.raises(Failure, match=r"nothing can be played: .*killed.*FROM incidents"):
        train(lambda number, request: number > 4, **FRAGMENTS)


def test_a_run_goes_on_after_incidents_when_it_is_resumed(train, tiny):
    run = train(lambda number, request: number == 7)
    before = len(open_reader(run).snapshots())
    league.train(tiny(**{**SMALL, "stop": {"env_steps": 8_000}}), run, resume=True)
    assert len(open_reader(run).snapshots()) > before


class Reviving(LocalLearners):
    """Learners of which one dies once, and goes on from the state of the last save, as those on Ray do."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._kept, self._turn, self._lost = {}, 0, []

    def state(self, player):
        self._kept[player] = super().state(player)
        return self._kept[player]

    def ready(self, timeout_seconds):
        reports = super().ready(timeout_seconds)
        self._turn += 1
        if self._turn == 20:
            kept = self._kept["main-0"]
            version = self.live("main-0").version + 1
            self.load_state("main-0", dataclasses.replace(kept, updates=version))
            incident = Incident(
                kind="learner", who="learner", players=("main-0",), updates=5, happened_at=1.0
            )
            self._lost.append(LearnerLoss(incident, {"main-0": Counters(version, kept.env_steps)}))
        return reports

    def losses(self):
        lost, self._lost = self._lost, []
        return lost


def test_a_player_whose_learner_died_counts_on_from_its_copy_freezing_nothing_twice(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("league.training.engine.LocalLearners", Reviving)
    run = league.train(tiny(**SMALL), tmp_path / "run")
    with analysis.open_run(run) as history:
        assert history.incidents()["who"].tolist() == ["learner"]
        frozen = history.snapshots().query("player == 'main-0'")
        assert frozen["env_steps"].is_monotonic_increasing
        assert frozen["updates"].is_monotonic_increasing
        assert frozen["snapshot_id"].is_unique


def test_experience_that_was_played_by_weights_that_died_is_dropped_and_counted():
    session, dropped, submitted = Session.__new__(Session), [], []
    session.members = {"main-0": TrainingPlayer(LivePlayer("main-0", MAIN), share=1.0, since_version=8)}
    session.learners = SimpleNamespace(
        lost=lambda *arguments: dropped.append(arguments),
        away=lambda: (),
        submit=lambda player, episodes, *others: submitted.append(episodes),
    )
    session._progress = lambda player: 0.0
    for version in (7, 8, 9):
        rollout = SimpleNamespace(episodes={"main-0": version})
        session._learn_from("main-0", rollout, Ticket("training", versions={"main-0": version}), 64)
    assert dropped == [("main-0", 64)]
    assert submitted == [8, 9]
