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
DEATHS = ["learner", "aggregator"]


def test_a_league_goes_on_whatever_dies_or_is_cut_off_and_loses_nothing_that_was_acknowledged(monkeypatch):
    """While a machine was cut off the whole league stood still, for a minute."""
    if not can_be_blind(Path("/tmp")) or (found := network()) is None:
        pytest.skip("mount and network namespaces need root")
    found.close()
    monkeypatch.setattr(siege, "STOPPED", (35.0, 36.0))
    events = lay(SCENES[0], [*DEATHS, "partition"], seed=1, stop_seconds=1.0, slow=SLOW)
    assert [event.kind for event in events] == [*DEATHS, "partition"]
    assert events[-1].kept > 0.4, events[-1]
    assert events[-1].gap < 15.0, events[-1]


def test_deaths_of_every_kind_are_drawn():
    assert {"head", "cut off", "raylet", "supply"} < set(draw(30, seed=1))
    assert draw(30, seed=1) == draw(30, seed=1) != draw(30, seed=2)
