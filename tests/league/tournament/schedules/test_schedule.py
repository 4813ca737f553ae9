import numpy as np
import pytest

from league.tournament.schedules.schedule import in_tiles


def seated(pairings, request=1024):
    """Entrants in each request of consecutive rows."""
    return [len(np.unique(pairings[start : start + request])) for start in range(0, len(pairings), request)]


def as_rows(pairings):
    return sorted(map(tuple, np.sort(pairings, axis=1).tolist()))


@pytest.mark.slow
@pytest.mark.parametrize(("pairs", "field", "most"), [(2, 200, 90), (1, 1000, 110), (10, 200, 90)])
def test_a_request_of_a_round_robin_seats_few_different_entrants(make, pairs, field, most):
    rows = make.all_pairs(make.schedule(field, pairs=pairs), field)[: 2**16]
    assert np.mean(seated(rows)) <= most
    shuffled = np.random.default_rng(0).permutation(rows)
    assert np.mean(seated(shuffled)) > 0.85 * field


def test_a_request_of_a_gauntlet_seats_few_different_entrants(make):
    rows = make.all_pairs(make.schedule(400, kind="gauntlet", seeds=("c7",), pairs=50), 400)
    assert np.mean(seated(rows)) <= 64


@pytest.mark.parametrize("num_teams", [2, 3, 5])
def test_tiles_have_the_same_rows(num_teams):
    rng = np.random.default_rng(0)
    rows = np.array([rng.choice(100, num_teams, replace=False) for _ in range(3000)])
    assert as_rows(in_tiles(rows).pairings) == as_rows(rows)


def test_no_rows_have_no_tiles():
    assert in_tiles(np.zeros((0, 2), dtype=np.int64)).pairings.shape == (0, 2)
