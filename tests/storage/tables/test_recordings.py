"""Recorded actions come back to the bit: from a batch, the index, a live reader and compacted segments."""

from dataclasses import replace

import numpy as np
import pytest

from storage import query
from storage.archive import Archive
from storage.ledger.ledger import Ledger, read_frames
from storage.records import Recordings
from storage.tables import columns
from storage.tables.live import connect

TABLES = ("matches", "seats", "recordings")


@pytest.fixture
def recorded(make_results):
    """M matches, of which every third was recorded: 0 to 5 numbers each, some of them no numbers."""

    def make(num_matches, first_match_id=0):
        rng = np.random.default_rng(first_match_id)
        row = np.arange(2, num_matches, 3)
        offset = np.append(0, np.cumsum(rng.integers(6, size=len(row))))
        action = rng.normal(size=offset[-1]).astype(np.float32)
        action[::7] = np.nan
        return replace(make_results(num_matches, first_match_id), recordings=Recordings(row, offset, action))

    return make


def assert_same(found, expected):
    for field in ("row", "offset", "action"):
        mine, theirs = getattr(found, field), getattr(expected, field)
        assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes()), field


def test_a_batch_of_which_nothing_was_recorded_says_nothing_of_it(make_results, recorded):
    nothing = Recordings(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.float32))
    for results in (make_results(5), replace(make_results(5), recordings=nothing)):
        tables = columns.result_tables(results, [], seq=1, batch=1)
        assert "recordings" not in tables
        assert columns.results_of(tables).recordings is None


@pytest.mark.slow
def test_a_run_shows_them_while_it_is_written_and_when_it_is_compacted(recorded, make_results, tmp_path):
    run = tmp_path / "run"
    batches = [recorded(30), make_results(10, 30), recorded(5, 40)]
    rows = []
    row = {"name": "x", "env": "any", "seed": 0}
    with Archive.create(run, "name: x", row) as archive, connect(run) as live:
        for results in batches:
            first = archive.next_seq
            archive.append_results(results, [])
            if results.recordings is not None:
                parts = np.split(results.recordings.action, results.recordings.offset[1:-1])
                rows += zip((first + results.recordings.row).tolist(), parts, strict=True)
            assert_rows(live.execute("FROM recordings ORDER BY seq").fetchall(), rows)
    for compacted in (False, True):
        if compacted:
            with Ledger(run / "ledger", "test", segment_frames=1) as ledger:
                ledger.append({})
                assert ledger.compact() > 0
        found = [columns.results_of(f.tables).recordings for f in read_frames(run / "ledger", tables=TABLES)]
        assert found.pop(1) is None
        assert_same(found[0], batches[0].recordings)
        assert_same(found[1], batches[2].recordings)
        answer = query(run, "SELECT seq, actions FROM recordings ORDER BY seq").to_pylist()
        assert_rows([tuple(row.values()) for row in answer], rows)


def assert_rows(found, expected):
    assert [seq for seq, _ in found] == [seq for seq, _ in expected]
    for (_, actions), (_, written) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.array(actions, np.float32), written)
