"""A league on three machines, two of which do not see its folder, goes on whatever dies.

A share of `make faults-cluster`, whose long form kills hundreds of processes of four leagues.
"""

from pathlib import Path

import pytest

from tests.league.cluster.faults import siege
from tests.league.cluster.faults.leagues import SCENES
from tests.league.cluster.faults.machines import can_be_blind, network
from tests.league.cluster.faults.siege import draw, lay

pytestmark = [pytest.mark.long, pytest.mark.alone]

SLOW = 5.0  # on a busy machine, where each process that starts waits for a core
DEATHS = ["learner", "all runners", "aggregator"]


def test_a_league_goes_on_whatever_dies_and_loses_nothing_that_was_acknowledged():
    if not can_be_blind(Path("/tmp")):
        pytest.skip("mount namespaces need root")
    events = lay(SCENES[0], DEATHS, seed=1, stop_seconds=5.0, slow=SLOW)
    assert [event.kind for event in events] == DEATHS
    assert sum(event.kills for event in events) == 5


def test_a_partition_costs_the_machine_that_is_cut_off_and_nobody_else(monkeypatch):
    """The whole league stood for a minute."""
    if not can_be_blind(Path("/tmp")) or (found := network()) is None:
        pytest.skip("network namespaces need root")
    found.close()
    monkeypatch.setattr(siege, "STOPPED", (40.0, 45.0))
    (event,) = lay(SCENES[0], ["partition"], seed=1, stop_seconds=5.0, slow=SLOW)
    assert event.kept > 0.4, event
    assert event.gap < 15.0, event


def test_deaths_of_every_kind_are_drawn():
    assert {"head", "cut off", "raylet", "supply"} < set(draw(30, seed=1))
    assert draw(30, seed=1) == draw(30, seed=1) != draw(30, seed=2)
