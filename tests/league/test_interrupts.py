"""Signals end a process cleanly; one that ends suddenly still leaves one sentence, another one none."""

import signal
import subprocess
import sys

import pytest

from league.interrupts import interrupts, signals_blocked, signals_end, terminated

CODE = """
import os, signal, sys, time
from league.interrupts import last_words
with last_words("it's over: 100% \\\\n"):
    {deed}
"""


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", True),
        ("os._exit(1)", True),  # as Ray does when its head node is lost
        ("pass", False),
        ("sys.exit(1)", False),
    ],
)
def test_a_sudden_end_prints_one_sentence_and_another_end_none(deed, said):
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(deed=deed)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ("it's over: 100% \\n\n" if said else "")


def test_an_error_is_raised_as_it_is():
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(deed="raise ValueError('mine')")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "ValueError: mine"


ENDS = """
import os, signal, sys, time
from league.commands import app
from league.interrupts import interrupts
def run():
    with interrupts() as interrupted:
        {deed}
        return 130 if interrupted.is_set() else 0
app._run = run
app.main()
"""
TWICE = "for _ in range(2): os.kill(os.getpid(), signal.{name}); time.sleep(0.01)"


@pytest.mark.parametrize(
    ("deed", "code"),
    [
        (TWICE.format(name="SIGTERM"), 143),  # as `timeout` sends it
        (TWICE.format(name="SIGHUP"), 129),
        ("os.kill(os.getpid(), signal.SIGINT)", 130),
        (TWICE.format(name="SIGINT"), 130),  # the second ends it at once
        ("pass", 0),
    ],
)
def test_the_exit_code_is_that_of_the_signal_that_has_stopped_it(deed, code):
    done = subprocess.run([sys.executable, "-c", ENDS.format(deed=deed)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert ("league: stopping" in done.stderr) == (code != 0)


def test_a_signal_before_there_is_anything_to_save_ends_as_ctrl_c_does():
    with pytest.raises(KeyboardInterrupt), signals_end():
        signal.raise_signal(signal.SIGTERM)
    assert terminated() == 143


def test_a_hangup_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_end(), interrupts() as interrupted:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupted.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_started_with_blocked_signals_never_gets_them():
    former = signal.getsignal(signal.SIGTERM)
    with signals_blocked():
        signal.signal(signal.SIGTERM, lambda *_: None)  # as Ray does
        sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert signal.getsignal(signal.SIGTERM) is former
    sleeping.send_signal(signal.SIGTERM)
    sleeping.send_signal(signal.SIGHUP)
    sleeping.communicate(b"\n")
    assert sleeping.returncode == 0


def test_what_outlives_sigterm_can_still_end_what_it_has_started():
    code = (
        "import os, signal, subprocess, sys, time\n"
        "from league.interrupts import outlive_sigterm\n"
        "outlive_sigterm()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "started = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "started.terminate()\n"
        "ready, say = os.pipe()\n"
        "if (forked := os.fork()) == 0:\n"
        "    os.write(say, b'x')\n"
        "    time.sleep(60)\n"
        "os.read(ready, 1)\n"
        "os.kill(forked, signal.SIGTERM)\n"
        "print(started.wait(), os.waitpid(forked, 0)[1])\n"
    )
    with signals_blocked():
        living = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert living.communicate()[0] == "-15 15\n"
