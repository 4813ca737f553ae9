import shutil

import pytest

from storage.archive import Archive
from storage.records import MAIN, Freeze, RatingChange, Reset, UpdateRecord


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """The place of the first `filled` run: the others are copies, which take less time."""
    return tmp_path_factory.mktemp("filled") / "run"


@pytest.fixture
def filled(request, made, tmp_path):
    """A run with facts in every table of a league, closed: 80 matches, snapshots at 0, 100 and 200 steps."""
    if made.exists():
        shutil.copytree(made, tmp_path / "run")
    else:
        shutil.copytree(fill(*map(request.getfixturevalue, ("run", "make_results", "weights"))), made)
    return tmp_path / "run"


def fill(run, make_results, weights):
    frozen = "main-0", MAIN, 100, 2, "main-0@0", weights, {}, "mlp", "due"
    with Archive.open(run) as archive:
        archive.append_results(make_results(50), [RatingChange("main-0", 25.0, 8.0, 50)])
        archive.add_snapshot(*frozen, decisions=[Freeze(player="main-0", reason="due")])
        archive.add_snapshot("main-0", MAIN, 200, 4, "main-0@100", *frozen[5:])
        archive.append_decisions([Reset(player="main-0", reason="stuck", target="main-0@0")])
        changes = [RatingChange("main-0", 26.0, 2.0, 80), RatingChange("random", 21.0, 1.0, 40)]
        archive.append_results(make_results(30, 50, seed=1), changes)
        archive.append_updates([UpdateRecord("main-0", 5, 900, 0.5, {"entropy": 1.0, "kl": 0.25})])
    return run


@pytest.fixture
def bare(tmp_path):
    """The folder of a run, in which a test puts a ledger."""
    (tmp_path / "ledger").mkdir()
    (tmp_path / "FORMAT").write_text('{"version": 1}')
    return tmp_path
