"""A process that is stopped while it writes a run, and comes back after another one went on."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from storage.archive import Archive
from storage.ledger import lock
from storage.records import Bot

WRITER = """
import sys
import time

import numpy as np

from storage.archive import Archive
from storage.errors import StorageError
from storage.records import Bot

archive = Archive.open(sys.argv[1])
try:
    for number in range(10_000):
        archive.add_bot(Bot(f"child-{number}"))
        archive.save_learner("main-0", {"weight": np.full(9, number, np.float32)}, {"env_steps": number})
        print(number, flush=True)
        time.sleep(0.01)
except StorageError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
finally:
    archive.close()
"""


def learners(run):
    return {path.name: path.read_bytes() for path in (run / "learners").iterdir() if path.is_file()}


@pytest.mark.slow
def test_a_process_that_was_stopped_comes_back_to_one_sentence_and_changes_nothing(run, monkeypatch):
    monkeypatch.setattr(lock, "CUT_OFF_SECONDS", 2.5)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(run)], stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT
    )
    try:
        for _ in range(5):
            child.stdout.readline()
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(0.05)
        with Archive.open(run) as archive:
            acknowledged = len([bot for bot in archive.bots() if bot.name.startswith("child-")])
            archive.add_bot(Bot("parent-0"))
            archive.save_learner("main-0", {"weight": np.ones(9, np.float32)}, {"env_steps": -1})
            before = learners(run)
            os.kill(child.pid, signal.SIGCONT)
            said, _ = child.communicate(timeout=60)
            archive.add_bot(Bot("parent-1"))
            assert learners(run) == before
    finally:
        child.kill()
        child.wait()
    *numbers, sentence = said.splitlines()
    assert sentence.startswith("RunTaken: ")
    assert f"pid {os.getpid()}" in sentence
    assert "this process was cut off and writes nothing more" in sentence
    assert all(int(number) < acknowledged for number in numbers)
    with Archive.open(run) as archive:
        bots = [bot.name for bot in archive.bots()]
        assert [name for name in bots if name.startswith("parent")] == ["parent-0", "parent-1"]
        assert len([name for name in bots if name.startswith("child-")]) == acknowledged
        assert archive.load_learner("main-0")[1] == {"env_steps": -1}
