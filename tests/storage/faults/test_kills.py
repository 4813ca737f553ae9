"""A writing process is killed at random moments, one time in five while it opens the run."""

import multiprocessing
import os
import random
import signal
import statistics
import time
from collections import Counter

import pytest

from tests.storage.faults.counts import figure, tried
from tests.storage.faults.writer import live, said

KILLS = tried(16, 20)  # of one run, which grows
WRITING_SECONDS = 0.1  # at most, from the first acknowledgement on
PATIENCE_SECONDS = 60.0
OPENING_SHARE = 0.3  # of kills, aimed at the opening; some come too late


@pytest.fixture(scope="module")
def processes():
    """Forked from one that has imported everything and done nothing, so that they begin at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.storage.faults.writer"])
    return context


@pytest.fixture(scope="module")
def tally():
    """What all kills together came to."""
    tally = Counter()
    yield tally
    figure(
        f"{tally['kills']} kills, {tally['opening']} of them while opening; {tally['done']} items were "
        "acknowledged, 0 lost, 0 twice, 0 failed openings"
    )


class Victims:
    """One run, written by one process after the other."""

    def __init__(self, context, folder, seed):
        self.run, self.log = folder / "run", folder / "log"
        self.log.touch()
        self.opening_seconds = [0.1]
        self.killed_opening = 0
        self._context = context
        self._rng = random.Random(seed)
        self._read = 0

    def kill_one(self):
        process = self._start()
        try:
            self._wait(process, "opening")
            began = time.monotonic()
            if self._rng.random() < OPENING_SHARE:
                time.sleep(self._rng.uniform(0, 0.8 * statistics.median(self.opening_seconds)))
            else:
                self._wait(process, "opened")
                self.opening_seconds.append(time.monotonic() - began)
                self._wait(process, "done")
                time.sleep(self._rng.uniform(0, WRITING_SECONDS))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            self.killed_opening += "opened" not in self._lines()
        self._read = self.log.stat().st_size

    def look(self):
        """Let a last one open the run, check it and end."""
        process = self._start(only_look=True)
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == 0, self._lines()

    def _start(self, **how):
        process = self._context.Process(
            target=live, args=(self.run, self.log, self._rng.random()), kwargs=how
        )
        process.start()
        return process

    def _lines(self):
        """What the present process has said."""
        with open(self.log) as file:
            file.seek(self._read)
            return file.read().splitlines()

    def _wait(self, process, word):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            said_so_far = self._lines()
            if any(line.startswith(word) for line in said_so_far):
                return
            failures = [line for line in said_so_far if line.startswith("failed")]
            assert not failures, failures
            assert process.is_alive(), said_so_far
            assert time.monotonic() < deadline, said_so_far
            time.sleep(0.002)


@pytest.mark.alone
@pytest.mark.parametrize("seed", range(tried(1, 50)))
def test_kill_9_loses_nothing_doubles_nothing_and_hinders_no_opening(processes, scratch, tally, seed):
    victims = Victims(processes, scratch, seed)
    try:
        for _ in range(KILLS):
            victims.kill_one()
        victims.look()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    done = said(victims.log).done
    assert len(done) >= KILLS // 2
    assert victims.killed_opening >= 1
    tally.update(kills=KILLS, opening=victims.killed_opening, done=len(done))
