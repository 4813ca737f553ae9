import numpy as np
import pytest

from tests.analysis.simulated_games import next_pairs


@pytest.mark.parametrize(("field", "seeds", "pairs"), [(2, 1, 3), (9, 1, 2), (9, 3, 2), (5, 5, 1)])
def test_seeds_meet_everybody_and_the_others_never_meet(make, field, seeds, pairs):
    names = tuple(f"c{i}" for i in range(seeds))
    schedule = make.schedule(field, kind="gauntlet", seeds=names, pairs=pairs)
    played = make.all_pairs(schedule, field)
    wanted = np.zeros((field, field), dtype=np.int64)
    wanted[:seeds] = wanted[:, :seeds] = pairs
    np.fill_diagonal(wanted, 0)
    np.testing.assert_array_equal(make.met(played, field), wanted)
    assert schedule.total_pairs() == len(played)


@pytest.mark.parametrize(("field", "num_teams", "seeds"), [(9, 3, 1), (10, 4, 2), (4, 4, 1), (5, 4, 5)])
def test_where_more_than_two_meet_a_seed_sits_at_every_table_and_meets_everybody(
    make, field, num_teams, seeds
):
    names = tuple(f"c{i}" for i in range(seeds))
    schedule = make.schedule(field, num_teams, kind="gauntlet", seeds=names, pairs=3)
    played = make.all_pairs(schedule, field)
    met = make.met(played, field)[:seeds]
    assert (met[~np.eye(seeds, field, dtype=bool)] >= 3).all()
    assert (played < seeds).any(axis=1).all()
    assert schedule.total_pairs() == len(played)


def test_a_gauntlet_of_many_pairs_comes_in_rounds_of_whole_cycles(make):
    schedule, history, rng = make.schedule(50, kind="gauntlet", seeds=("c0",), pairs=3000), [], None
    while (rows := next_pairs(schedule, history, make.no_games(50), rng)) is not None:
        assert len(rows) % 49 == 0
        assert len(rows) <= 2**16
        history.append(rows)
    assert sum(map(len, history)) == schedule.total_pairs() == 3000 * 49
