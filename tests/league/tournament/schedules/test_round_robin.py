import numpy as np
import pytest

from league.tournament.schedules import designs
from tests.analysis.simulated_games import next_pairs


@pytest.mark.parametrize(("field", "pairs"), [(2, 1), (3, 1), (8, 3), (9, 2), (40, 2)])
def test_any_two_meet_in_exactly_so_many_pairs(make, field, pairs):
    schedule = make.schedule(field, pairs=pairs)
    met = make.met(make.all_pairs(schedule, field), field)
    np.testing.assert_array_equal(met, pairs * (1 - np.eye(field)))
    assert schedule.total_pairs() == pairs * field * (field - 1) // 2


@pytest.mark.parametrize(
    ("field", "num_teams", "pairs", "most"),
    [(4, 4, 2, 2), (7, 3, 1, 1), (5, 4, 1, 3), (32, 3, 2, 3), (50, 4, 1, 2), (50, 4, 4, 5), (50, 8, 1, 4)],
)
def test_where_more_than_two_meet_any_two_do_so_nearly_alike_and_all_play_alike(
    make, field, num_teams, pairs, most
):
    schedule = make.schedule(field, num_teams, pairs=pairs)
    played = make.all_pairs(schedule, field)
    met = make.met(played, field)[~np.eye(field, dtype=bool)]
    assert met.min() >= pairs
    assert met.max() <= most
    assert len(set(np.bincount(played.ravel()).tolist())) == 1
    assert schedule.total_pairs() == len(played)


def test_seven_in_threes_are_the_fano_plane(make):
    assert len(make.all_pairs(make.schedule(7, 3, pairs=1), 7)) == 7


@pytest.mark.slow
def test_a_large_tournament_comes_in_rounds_that_fit_into_memory(make):
    schedule, history, rng = make.schedule(1000, pairs=1), [], np.random.default_rng(0)
    while (pairings := next_pairs(schedule, history, make.no_games(1000), rng)) is not None:
        assert len(pairings) <= 2**16
        history.append(pairings)
    assert sum(map(len, history)) == schedule.total_pairs() == 499_500


def test_a_small_field_that_is_stopped_early_has_let_all_meet_alike(make):
    rows = make.all_pairs(make.schedule(9, pairs=20), 9)[: 36 * 5]
    met = make.met(rows, 9)[~np.eye(9, dtype=bool)]
    assert (met == 5).all()


def test_of_many_pairs_the_rows_that_repeat_are_worked_out_once(make, monkeypatch):
    worked_out = []
    shifts = designs.shifts

    def counted(row, field):
        worked_out.append(tuple(row.tolist()))
        return shifts(row, field)

    monkeypatch.setattr(designs, "shifts", counted)
    schedule = make.schedule(4, pairs=1000)
    assert len(make.all_pairs(schedule, 4)) == schedule.total_pairs() == 6 * 1000
    assert len(worked_out) < 10
