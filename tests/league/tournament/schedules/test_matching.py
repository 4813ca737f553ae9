import itertools

import numpy as np
import pytest

from league.tournament.schedules.matching import largest_matching


def most_couples(allowed):
    """By trying all: the most couples there can be."""
    n = len(allowed)
    best = {0: 0}
    for people in range(1, 1 << n):
        first = (people & -people).bit_length() - 1
        rest = people & ~(1 << first)
        found = best[rest]
        for other in range(first + 1, n):
            if rest >> other & 1 and allowed[first, other]:
                found = max(found, 1 + best[rest & ~(1 << other)])
        best[people] = found
    return best[(1 << n) - 1]


@pytest.mark.parametrize("density", [0.1, 0.2, 0.3, 0.5, 0.9])
def test_there_are_as_many_couples_as_there_can_be(density):
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 11))
        upper = np.triu(rng.random((n, n)) < density, k=1)
        allowed = upper | upper.T
        partner = largest_matching(allowed)
        coupled = np.flatnonzero(partner >= 0)
        np.testing.assert_array_equal(partner[partner[coupled]], coupled)
        assert allowed[coupled, partner[coupled]].all()
        assert len(coupled) // 2 == most_couples(allowed)


def test_chains_of_triangles_are_coupled_wholly():
    # Each triangle is an odd cycle, which has to be shrunk before the chain through it is found.
    n = 30
    allowed = np.zeros((n, n), dtype=bool)
    for corner in range(0, n, 3):
        for a, b in itertools.combinations(range(corner, corner + 3), 2):
            allowed[a, b] = allowed[b, a] = True
        if corner:
            allowed[corner, corner - 1] = allowed[corner - 1, corner] = True
    order = np.random.default_rng(1).permutation(n)
    assert (largest_matching(allowed[np.ix_(order, order)]) >= 0).all()


def test_the_nearest_in_the_order_are_coupled_where_all_may_be():
    np.testing.assert_array_equal(largest_matching(~np.eye(6, dtype=bool)), [1, 0, 3, 2, 5, 4])
