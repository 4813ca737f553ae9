import numpy as np
import pytest

from analysis.statistics.games import Games, games_of
from league.tournament.schedules import make_schedule
from league.tournament.schedules.settings import ScheduleSettings
from tests.bench.schedules import Truth, names, rounds


class Make:
    """Schedules, and tournaments by them on simulated fields."""

    truth = Truth

    def schedule(self, field, num_teams=2, **settings):
        return make_schedule(ScheduleSettings(**settings), names(field), num_teams)

    def no_games(self, field) -> Games:
        return games_of([], names(field))

    def history(self, schedule, truth, seed=0):
        """[rounds] of the whole tournament."""
        recorded = []
        for _ in rounds(truth, Recorder(schedule, recorded), seed):
            pass
        return recorded

    def all_pairs(self, schedule, field, seed=0):
        """[n, T] of all rounds, of a schedule that nothing is learnt from."""
        history = []
        rng = np.random.default_rng(seed)
        while (drawn := schedule.next_round(history, self.no_games(field), rng)) is not None:
            history.append(drawn.pairings)
        return np.concatenate(history)

    def met(self, pairings, field):
        """[N, N] how often any two were in one row, counted one by one."""
        met = np.zeros((field, field), dtype=np.int64)
        for row in pairings.tolist():
            assert len(set(row)) == len(row)
            for one in row:
                for other in row:
                    met[one, other] += one != other
        return met


class Recorder:
    def __init__(self, schedule, recorded):
        self.schedule, self.recorded = schedule, recorded

    def next_round(self, history, games, rng):
        drawn = self.schedule.next_round(history, games, rng)
        if drawn is not None:
            self.recorded.append(drawn.pairings)
        return drawn


@pytest.fixture
def make():
    return Make()
