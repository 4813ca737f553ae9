"""What libraries print past Python stays off the terminal of a command, and messages of ours come through."""

import os
import subprocess
import sys

CODE = """
import os, signal, sys
from pathlib import Path
from league import terminal
from league.interrupts import interrupts
with terminal.ours_alone():
    with terminal.rest_to_file() as move:
        os.write(2, b"raw, early\\n")
        move(Path(sys.argv[1]))
        os.write(2, b"raw\\n")
        print("ours", file=sys.stderr)
        with interrupts():
            signal.raise_signal(signal.SIGTERM)
    os.write(2, b"after\\n")
print("at last", file=sys.stderr)
"""


def test_raw_lines_go_to_a_file_and_ours_to_the_terminal(tmp_path):
    kept = tmp_path / "raw.err"
    done = subprocess.run([sys.executable, "-c", CODE, str(kept)], capture_output=True, text=True, check=True)
    assert kept.read_text() == "raw, early\nraw\n"
    said = [line for line in done.stderr.splitlines() if line]
    assert [line[:16] for line in said] == ["ours", "league: stopping", "after", "at last"]


def test_a_file_that_cannot_be_made_keeps_the_lines_away_all_the_same(tmp_path):
    kept = tmp_path / "no" / "folder"
    done = subprocess.run([sys.executable, "-c", CODE, str(kept)], capture_output=True, text=True, check=True)
    assert "raw" not in done.stderr


def test_a_hangup_of_the_terminal_does_not_make_printing_an_error():
    code = (
        "import os, sys\n"
        "from league import terminal\n"
        "input()\n"
        "terminal.leave()\n"
        "print('nobody reads this', flush=True)\n"
        "print('nor this', file=sys.stderr, flush=True)\n"
        "os.write(int(sys.argv[1]), b'printed')"
    )
    ours, theirs = os.openpty()
    end, report = os.pipe()
    printing = subprocess.Popen(
        [sys.executable, "-c", code, str(report)],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        pass_fds=[report],
    )
    for handle in (ours, theirs, report):
        os.close(handle)
    printing.communicate(b"\n")
    assert printing.returncode == 0
    assert os.read(end, 100) == b"printed"
    os.close(end)
