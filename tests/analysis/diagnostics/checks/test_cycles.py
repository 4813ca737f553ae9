import itertools

import numpy as np
import pytest

from analysis.diagnostics import diagnose
from analysis.diagnostics.checks.cycles import strongest_cycles, sure_results
from analysis.diagnostics.record import Forms
from analysis.diagnostics.significance import Counts
from tests.analysis.diagnostics.remembered import Remembered
from tests.analysis.planted_runs import Plan, cycle
from tests.parameters import mostly_long

LARGE = Plan(matches=1500)
PLAN = Plan(matches=1500, advantage=cycle(LARGE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(10), 2))
def test_a_planted_cycle_is_named_in_its_order(seed):
    found = [f for f in diagnose(Remembered(np.random.default_rng(seed), PLAN)) if f.kind == "cycle"]
    first, second, last = (PLAN.snapshot(stage) for stage in (4, 6, 8))
    assert found[0].evidence["competitors"] == [first, last, second]  # each beats the next
    assert all(result["low"] > 0.5 for result in found[0].evidence["results"])
    assert all(name in found[0].sentence for name in (first, second, last))


def met(chance, games, rng):
    """Who of N beat whom in so many games of each pairing."""
    n = len(chance)
    wins = np.triu(rng.binomial(games, chance), 1).astype(float)
    played = games * (1.0 - np.eye(n))
    wins = wins + np.tril(played - wins.T, -1)
    return Forms(tuple(f"c{i}" for i in range(n)), Counts(played, wins, np.zeros((n, n))))


def test_among_many_transitive_competitors_no_cycle_is_found_by_chance():
    rng = np.random.default_rng(0)
    strength = 0.3 * rng.standard_normal(60)
    chance = 1.0 / (1.0 + np.exp(strength[None, :] - strength[:, None]))
    for _ in range(20):
        forms = met(chance, 40, rng)
        sure, bound = sure_results(forms)
        assert strongest_cycles(np.where(sure, bound, 0.0), 3) == []
        points = forms.counts.score > 0.5  # as it looks, cycles are everywhere
        assert len(strongest_cycles(np.where(points, forms.counts.score, 0.0), 3)) == 3


def test_rock_paper_scissors_is_the_one_cycle_there_is():
    chance = np.array(
        [[0.5, 0.2, 0.8, 0.9], [0.8, 0.5, 0.2, 0.9], [0.2, 0.8, 0.5, 0.9], [0.1, 0.1, 0.1, 0.5]]
    )
    forms = met(chance, 200, np.random.default_rng(1))
    sure, bound = sure_results(forms)
    assert sorted(strongest_cycles(np.where(sure, bound, 0.0), 3)[0]) == [0, 1, 2]
    assert len(strongest_cycles(np.where(sure, bound, 0.0), 3)) == 1


def test_the_strongest_cycle_is_that_of_a_search_through_all_triples():
    rng = np.random.default_rng(2)
    for _ in range(20):
        weight = np.triu(rng.random((9, 9)), 1)
        turned = rng.random((9, 9)) < 0.5
        weight = np.where(turned, weight, 0.0) + np.where(turned, 0.0, weight).T
        best = max(
            min(weight[i, j], weight[j, k], weight[k, i]) for i, j, k in itertools.permutations(range(9), 3)
        )
        found = strongest_cycles(weight, 1)
        assert [min(weight[i, j], weight[j, k], weight[k, i]) for i, j, k in found] == (
            [best] if best else []
        )


def test_several_cycles_share_no_result():
    rng = np.random.default_rng(3)
    weight = np.where(rng.random((30, 30)) < 0.5, 0.6 + 0.4 * rng.random((30, 30)), 0.0)
    weight[weight < weight.T] = 0.0
    edges = [edge for i, j, k in strongest_cycles(weight, 5) for edge in ((i, j), (j, k), (k, i))]
    assert len(edges) == len(set(edges)) == 15
