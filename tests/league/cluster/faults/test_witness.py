import time

import pyarrow as pa
import pytest

from storage.layout import LEDGER
from storage.ledger.ledger import Ledger
from tests.league.cluster.faults import witness as module
from tests.league.cluster.faults.witness import Witness


@pytest.fixture
def witness(monkeypatch, tmp_path):
    """A witness of a run that has no ledger yet; it looks often."""
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    (tmp_path / LEDGER).mkdir()
    witness = Witness(tmp_path)
    yield witness
    witness.close()


def played(match):
    """What is recorded of one match."""
    return {
        "matches": pa.table({"match_id": [match]}),
        "seats": pa.table({"competitor": ["main-0"], "learning": [True]}),
    }


def seen(witness, frames):
    """Wait until the witness has seen so many frames, or has failed."""
    give_up = time.monotonic() + 60.0
    while len(witness.frames) < frames and witness.error is None and time.monotonic() < give_up:
        time.sleep(0.001)
    return sorted(witness.frames)


def test_a_witness_sees_each_match_once_while_segments_are_compacted(witness, tmp_path):
    with Ledger(tmp_path / LEDGER, "test", segment_frames=3) as ledger:
        for match in range(1, 6):
            ledger.append(played(match))
        assert seen(witness, 5) == [1, 2, 3, 4, 5]
        ledger.append(played(6))
        ledger.compact()  # of frames that were seen, and perhaps of one that was not
        ledger.append(played(7))
        assert seen(witness, 7) == [1, 2, 3, 4, 5, 6, 7]
    witness.close()
    assert witness.error is None
    assert witness.match_ids == {1, 2, 3, 4, 5, 6, 7}


def test_a_witness_says_that_a_match_is_there_twice(witness, tmp_path):
    with Ledger(tmp_path / LEDGER, "test") as ledger:
        for match in (1, 2, 1):
            ledger.append(played(match))
        seen(witness, 4)
    assert "matches are there twice: [1]" in str(witness.error)
