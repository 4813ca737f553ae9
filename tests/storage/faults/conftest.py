import shutil
import tempfile
from pathlib import Path

import pytest

import storage.archive
from tests.storage.faults.workload import CompactionInStep, small_ledger

MEMORY = Path("/dev/shm")  # where there is one: thousands of folders are made and thrown away


@pytest.fixture
def scratch(tmp_path):
    """A folder, in memory if there is such a place."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="league-faults-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def small_segments(monkeypatch):
    """Ledgers have small segments, which are compacted in step with the writes."""
    monkeypatch.setattr(storage.archive, "Ledger", small_ledger)
    monkeypatch.setattr(storage.archive, "Compaction", CompactionInStep)
