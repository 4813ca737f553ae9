"""Closed segments become Parquet while the run is written; a failure costs nothing but speed."""

import logging
import threading

import pytest

import storage.archive
from storage.archive import Archive, open_reader
from storage.ends import End
from storage.ledger import compaction
from storage.ledger.ledger import Ledger, read_frames
from storage.records import UpdateRecord
from tests.steps import wait_for

RECORD = UpdateRecord("main-0", 1, 1, 0.0, {})


@pytest.fixture
def small_segments(monkeypatch):
    """Ledgers whose segments are closed after four frames."""
    monkeypatch.setattr(
        storage.archive, "Ledger", lambda folder, owner: Ledger(folder, owner, segment_frames=4)
    )


def journals(run):
    return len(list((run / "ledger").glob("*.journal")))


@pytest.mark.slow
def test_closed_segments_are_compacted_while_the_run_is_written(run, small_segments):
    with Archive.open(run) as archive:
        for _ in range(21):
            archive.append_updates([RECORD])
        wait_for(lambda: journals(run) == 1)
        assert archive.next_seq == 22
        assert len(list((run / "ledger").glob("*.updates.parquet"))) >= 5
        assert len(list(read_frames(run / "ledger", tables=("updates",)))) == 21
    assert open_reader(run).snapshots()[0].snapshot_id == "main-0@0"


@pytest.mark.slow
def test_what_an_earlier_writer_left_is_compacted_when_the_run_is_opened(run, small_segments, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "compact", lambda self, most=None: 0)
        with Archive.open(run) as archive:
            for _ in range(9):
                archive.append_updates([RECORD])
        assert journals(run) > 2
    with Archive.open(run):
        wait_for(lambda: journals(run) == 1)
    assert len(list(read_frames(run / "ledger", tables=("updates",)))) == 9


def test_what_fails_is_tried_again_and_logged_once_while_the_run_goes_on(
    run, small_segments, monkeypatch, caplog
):
    tried = []
    monkeypatch.setattr(compaction, "RETRY_SECONDS", 0.01)

    def broken(self, most=None):
        tried.append(self)
        raise MemoryError("no memory\nleft")

    monkeypatch.setattr(Ledger, "compact", broken)
    with caplog.at_level(logging.WARNING), Archive.open(run) as archive:
        for _ in range(20):
            archive.append_updates([RECORD])
        wait_for(lambda: len(tried) > 2)
        archive.append_updates([RECORD])
    assert [r.getMessage().split("/")[-1] for r in caplog.records if "compacted" in r.getMessage()] == [
        "ledger: not compacted for now: no memory left"
    ]
    assert len(list(read_frames(run / "ledger", tables=("updates",)))) == 21


def test_closing_a_run_ends_its_thread(run):
    with Archive.open(run):
        assert [t.name for t in threading.enumerate()].count("compaction") == 1
    assert "compaction" not in [t.name for t in threading.enumerate()]


@pytest.mark.slow
def test_what_a_session_recorded_is_compacted_when_it_ends_and_the_next_one_goes_on(run, monkeypatch):
    monkeypatch.setattr(storage.archive, "SETTLED_BYTES", 1)
    with Archive.open(run) as archive:
        archive.append_updates([RECORD])
        archive.append_end(End(state="trained", seconds=1.0, env_steps=1, ended_at=1e9))
    assert len(list((run / "ledger").glob("*.ends.parquet"))) == 1
    assert journals(run) == 1  # the next one, still empty
    with Archive.open(run) as archive:
        archive.append_updates([RECORD])
    assert len(list(read_frames(run / "ledger", tables=("updates",)))) == 2
