"""Leagues on Ray of which a learner is stopped by a signal: the others play on, and it is replaced.

The same reactions with a Ray that is a fake: tests/league/learning/groups/test_hangs.py.
"""

import os
import signal
import time
from collections import Counter

import pytest

import analysis
from league.config.loading import load
from league.training.loop import train
from tests.league.training.runs.test_killed_runs import config, pid_of

pytestmark = [pytest.mark.long, pytest.mark.alone]


class Stopper:
    """View that stops a process once every player has learned, and notes what the other player plays then.

    It ends the run once `enough` of the session is true afterwards.
    """

    def __init__(self, victim, enough):
        self._victim, self._enough = victim, enough
        self.pid, self.stopped_at = None, 0.0
        self.played = []  # (seconds since the stop, matches of main-1 that were learned from)

    def show(self, session):
        if self.pid is None:
            if all(session.members[name].updates > 5 for name in ("main-0", "main-1")):
                self.pid = pid_of(self._victim(session.learners))
                os.kill(self.pid, signal.SIGSTOP)
                self.stopped_at = time.monotonic()
                self.before = Counter({name: m.updates for name, m in session.members.items()})
            return
        self.played.append((time.monotonic() - self.stopped_at, session.members["main-1"].updates))
        if self._enough(session, self):
            session.clock.finished = lambda: True

    def close(self, session):
        if self.pid is not None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


def run_with(tmp_path, victim, enough, **learners):
    stopper = Stopper(victim, enough)
    settings = config(
        learners={"shards": 2, "copy_seconds": 1.0, **learners},
        resources={"patience_seconds": 15.0},  # another test may run beside this one
        stop={"minutes": 8.0},
    )
    run = train(load(settings), tmp_path / "run", make_view=lambda: stopper)
    with analysis.open_run(run) as history:
        return stopper, history.incidents()


def first_process(learners):
    return learners._of("main-0").processes[0]


def learned_again(session, stopper):
    """Whether main-0 has learned since its learner was made again."""
    member = session.members["main-0"]
    return member.since_version > 0 and member.updates > member.since_version + 5


def test_a_learner_that_is_stopped_costs_others_nothing_and_is_made_again_with_one_incident(tmp_path):
    """No player played or learned for as long as it was stopped, and nothing said so."""
    stopper, incidents = run_with(tmp_path, first_process, learned_again)
    assert [(i.kind, "main-0" in i.who) for i in incidents.itertuples()] == [("learner", True)], incidents
    assert incidents["cause"][0].startswith("did not answer for ")
    meanwhile = [updates for seconds, updates in stopper.played if 4.0 < seconds < 8.0]
    assert meanwhile[-1] > meanwhile[0] + 1  # others learned on before it was replaced


def test_an_aggregator_that_is_stopped_is_replaced_with_one_incident(tmp_path):
    def victim(learners):
        return learners._of("main-0").aggregators[0]

    def enough(session, stopper):
        if not session.incidents.counts:
            stopper.after = session.members["main-0"].updates
        return session.members["main-0"].updates > stopper.after + 5 and session.incidents.counts

    _, incidents = run_with(tmp_path, victim, enough, aggregators=2)
    kinds = Counter(incidents["kind"])
    assert kinds.pop("aggregator") == 1
    assert set(kinds) <= {"experience"}  # further blocks that it had
    assert incidents["cause"][0].startswith("did not answer for ")
