import itertools

import numpy as np
import pandas as pd
import pytest

from analysis.diagnostics.cycles import find_circling, strongest_cycles, sure_results
from analysis.diagnostics.record import Forms
from analysis.diagnostics.significance import Counts
from tests.analysis.diagnostics.remembered import found
from tests.analysis.planted_runs import Plan, cycle
from tests.parameters import mostly_long

LARGE = Plan(matches=1500)
PLAN = Plan(matches=1500, advantage=cycle(LARGE))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(5), 2, variant=True))
def test_a_planted_cycle_is_named_in_its_order(seed):
    told = found("cycle", PLAN, seed)
    first, second, last = (PLAN.snapshot(stage) for stage in (4, 6, 8))
    assert told[0].evidence["competitors"] == [first, last, second]  # each beats the next
    assert all(result["low"] > 0.5 for result in told[0].evidence["results"])
    assert all(name in told[0].sentence for name in (first, second, last))


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


class Measured:
    """Measurements alone, as (snapshot, player, env steps, kind, value)."""

    def __init__(self, *rows):
        columns = ["snapshot_id", "player", "env_steps", "kind", "value"]
        self.measured = pd.DataFrame(list(rows), columns=columns).assign(unit="score")
        self.measured["created_at"] = np.arange(len(rows))


OLD = ("main-0@1", "main-0", 1, "exact", 0.2)
LAST = ("main-0@2", "main-0", 2, "exact", 0.64)


def average(value, kind="exact", snapshot="main-0@2"):
    return (f"{snapshot}:average", "main-0:average", 2, kind, value)


def test_a_last_snapshot_that_is_far_worse_than_its_average_is_told():
    (found,) = find_circling(Measured(OLD, LAST, average(0.16)))
    assert (found.kind, found.severity, found.subject) == ("circling", "warning", "main-0")
    assert "4.0 times less exploitable (0.16 score against 0.64); hand out main-0:average" in found.sentence
    assert found.evidence["snapshot"] == "main-0@2"
    assert found.evidence["exploitability_of_average"] == 0.16


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [OLD, LAST],
        [OLD, LAST, average(0.5)],
        [OLD, LAST, average(0.1, kind="lower_bound")],
        [("main-0@2", "main-0", 2, "lower_bound", 0.64), average(0.1)],
        [LAST, average(0.1), average(0.6)],
    ],
    ids=["nothing", "no average", "not far", "a bound", "of a bound", "measured again"],
)
def test_what_is_not_measured_or_not_far_is_no_finding(rows):
    assert find_circling(Measured(*rows)) == []


def test_the_newest_snapshot_that_has_both_counts():
    (found,) = find_circling(Measured(OLD, LAST, average(0.1, snapshot="main-0@1")))
    assert found.evidence["snapshot"] == "main-0@1"


def test_an_average_that_cannot_be_exploited_is_no_division_by_zero():
    (found,) = find_circling(Measured(LAST, average(0.0)))
    assert "is not at all exploitable" in found.sentence
