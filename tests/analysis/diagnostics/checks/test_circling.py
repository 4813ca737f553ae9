"""A last snapshot that circles is told, once it and its average are measured."""

import numpy as np
import pandas as pd
import pytest

from analysis.diagnostics.checks.circling import find_circling


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
