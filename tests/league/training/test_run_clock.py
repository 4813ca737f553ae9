"""The clock of a run: training ends a little before `stop`, so that what comes after it ends in time."""

import pytest

from league.config.sections import StopSettings
from league.rules.rating.rating import RatingSettings
from league.training import run_clock
from league.training.run_clock import FEWEST_STEPS, RunClock
from league.training.state.state import LeagueState


@pytest.mark.parametrize(("reserve", "ends"), [(0.0, 60.0), (2.0, 58.0), (30.0, 57.0)])
def test_training_ends_before_the_run_by_what_is_reserved_and_a_twentieth_at_most(monkeypatch, reserve, ends):
    now = [1000.0]
    monkeypatch.setattr(run_clock.time, "monotonic", lambda: now[0])
    clock = RunClock(StopSettings(minutes=1.0), LeagueState({}, RatingSettings(), 0.99))
    clock.begin()
    clock.reserve = reserve
    now[0] += ends - 0.1
    assert (clock.finished(), clock.over()) == (False, False)
    now[0] += 0.1
    assert (clock.finished(), clock.over()) == (True, True)
    now[0] = 1060.0
    assert (clock.end().seconds, clock.end().state) == (60.0, "untrained")


def test_what_takes_long_is_shown_once_a_second(monkeypatch):
    now, shown = [1000.0], []
    monkeypatch.setattr(run_clock.time, "monotonic", lambda: now[0])
    clock = RunClock(StopSettings(minutes=1.0), LeagueState({}, RatingSettings(), 0.99))
    clock.begin()
    for _ in range(10):
        now[0] += 0.3
        assert not clock.looked(lambda: shown.append(now[0]))
    assert len(shown) == 3


def test_a_run_of_matches_that_do_not_end_is_over_where_steps_are_its_stop():
    clock = RunClock(StopSettings(env_steps=10), LeagueState({}, RatingSettings(), 0.99))
    clock.begin()
    assert clock.overdue(FEWEST_STEPS + 1, lambda: None)
    assert clock.finished()
    assert "rollout.fragment_steps" in clock.end().reason
