"""The recorded session in a terminal that the README shows.

    python -m tests.bench.session_picture [OUT]

Trains a league of tic-tac-toe for twenty seconds, asks who is best, compares the best with a bot and exports
it. What these commands print becomes an SVG without fonts or scripts, by default analysis/report/session.svg.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.bench.shared import parser_of

WIDTH = 118  # columns
MOST_LINES = 11  # of one command
COMMANDS = (
    "train tic_tac_toe --run first --set stop.minutes=0.3 --set log.seconds=5",
    "ratings first",
    "compare first best random --pairs 200",
    "export first best agent.onnx",
)


def session(folder: Path) -> Console:
    """Return a console on which the commands were typed in `folder`, and what each printed."""
    console = Console(record=True, width=WIDTH, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    for command in COMMANDS:
        console.print(Text(f"$ league {command}", style="bold green"))
        run = [sys.executable, "-m", "league", *command.split()]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        shown = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 4], "...", *lines[-3:]]
        for line in shown:
            console.print(Text(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"))
    return console


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=Path("analysis/report/session.svg"))
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        drawn = session(Path(folder)).export_svg(title="checkpoint-league", unique_id="session")
    out.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.S))  # they would be fetched
    print(f"{out}: {out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
