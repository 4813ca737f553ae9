"""A process that ends suddenly still leaves one sentence; one that ends in its own way leaves none."""

import subprocess
import sys

import pytest

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
