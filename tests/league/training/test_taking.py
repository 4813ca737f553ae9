"""What one turn of the loop takes: results that are ready together, with play and learning made free."""

import numpy as np
import pytest

from league.training.requests import matches_of_a_turn
from league.training.state.state import LeagueState
from storage.records import ResultBatch
from tests.bench.driver import DEPTH, FreePlay, Shape, league_of


@pytest.mark.slow
def test_results_ready_together_are_one_frame_whose_replay_is_the_state_to_the_bit():
    with league_of(Shape(snapshots=3), 64, FreePlay(64)) as session:
        for _ in range(5):
            session.ask()
            session.take()
        settings, live = session.settings, session.state
        again = LeagueState(session._roles, settings.ratings, settings.league.decay)
        taken = []
        for fact in session.archive.history():
            again.apply(fact)
            taken += [len(fact)] if isinstance(fact, ResultBatch) else []
    assert taken == [DEPTH * 64] * 5
    assert again.totals.matches == live.totals.matches == 5 * DEPTH * 64
    for kept in ("mu", "variance", "games"):
        assert np.array_equal(getattr(again.standings.ratings, kept), getattr(live.standings.ratings, kept))
    for counts in ("_wins", "_draws", "_recorded", "_totals"):
        assert np.array_equal(getattr(again.standings.payoff, counts), getattr(live.standings.payoff, counts))
    assert (again.tally.types, again.tally.opponents) == (live.tally.types, live.tally.opponents)


@pytest.mark.slow
@pytest.mark.parametrize("seats", [8, 16])
def test_a_turn_records_a_limited_number_of_matches_however_many_are_ready(seats, monkeypatch):
    monkeypatch.setattr("tests.bench.driver.DEPTH", 20)
    with league_of(Shape(seats=seats, players=2, snapshots=3), 512, FreePlay(512, seats)) as session:
        recorded = [0]
        session.ask()
        while session.totals.matches < 20 * 512:
            session.take()
            recorded.append(session.totals.matches)
    assert max(np.diff(recorded)) <= matches_of_a_turn(seats)
    assert len(recorded) > 20 * 512 / matches_of_a_turn(seats)
