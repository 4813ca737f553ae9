import subprocess
import sys

import pytest

from storage.errors import DiskFailed, RunLocked
from storage.ledger.ledger import Ledger
from storage.ledger.lock import LOCK, is_written

HOLDER = """
import sys, time
from pathlib import Path
from storage.ledger import lock

lock.take(Path(sys.argv[1]), "the child")
print("taken", flush=True)
time.sleep(100)
"""


@pytest.fixture
def child(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "taken\n"
    yield child
    child.kill()
    child.communicate()


@pytest.mark.slow
def test_a_second_writer_is_told_who_writes(tmp_path, child):
    assert is_written(tmp_path)
    with pytest.raises(
        RunLocked, match=rf"another process is writing: the child, pid {child.pid} on .*, since 2"
    ):
        Ledger(tmp_path, "test")


@pytest.mark.slow
def test_a_killed_holder_holds_no_more(tmp_path, child):
    child.kill()
    child.wait()
    assert not is_written(tmp_path)
    Ledger(tmp_path, "test").close()


def test_whoever_only_looks_keeps_no_writer_out(tmp_path):
    assert not is_written(tmp_path)
    for _ in range(20):
        with Ledger(tmp_path, "test"):
            assert is_written(tmp_path)
        assert not is_written(tmp_path)


@pytest.mark.slow
def test_a_holder_without_a_readable_name_is_reported_all_the_same(tmp_path):
    with Ledger(tmp_path, "test"):
        (tmp_path / LOCK).write_bytes(b"\xff{")
        with pytest.raises(RunLocked, match="it left no name"):
            Ledger(tmp_path, "second")


def test_a_folder_that_cannot_be_locked_is_one_sentence(tmp_path):
    with pytest.raises(DiskFailed, match=r"nowhere/LOCK: cannot be locked: No such file or directory$"):
        Ledger(tmp_path / "nowhere", "test")
