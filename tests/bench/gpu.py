"""What one GPU does, as a page: tests, speed, numerics, a run, and what follows when the card fails.

    python -m tests.bench.gpu [--out gpu_report] [--minutes 25] [--device cuda] [--quick] [--only speed ...]

Any machine with one card will do; neither Ray nor a network is needed. What it imports beside the standard
library is listed in gpu_stages.NEEDED; the page says what is missing. Each stage has a process of its own and
a limit of time, so that one that fails or hangs costs no other. The page (report.md) and the raw numbers
(report.json) are written every few seconds, so that nothing is lost where all of it is cut off; what was
printed is in report.log. `--minutes`: of all stages together, each of which measures for its share of them.
`--quick` runs every line in a few minutes, on a double of a card too
(`python -m tests.gpu.double -m tests.bench.gpu --quick`); such figures say nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import gpu_stages
from tests.bench.shared import parser_of

NO_GPU = "no GPU here: torch sees none, so nothing was measured; --device cpu --quick only tries the code"
LEAST_SECONDS = 20.0  # of a stage: importing torch may take most of them
SECONDS_TO_STOP = 10.0  # after an interrupt; then a stage is killed
LOG_LINES = 25  # of a stage that failed, on the page
PAGE_SECONDS = 5.0  # between two writings of the page

Found = dict[str, Any]  # of a stage: its notes, and how it ended


def run_stage(
    name: str,
    given: argparse.Namespace,
    seconds: float,
    log: Path,
    show: Callable[[Found], None] = lambda found: None,
) -> Found:
    """Run a stage in a process of its own; return what it found. `show` gets what it has found so far."""
    began, start = time.monotonic(), log.stat().st_size if log.exists() else 0
    with tempfile.TemporaryDirectory() as folder, log.open("ab") as output:
        notes = Path(folder) / "notes"
        notes.touch()
        command = [sys.executable, "-u", "-m", __spec__.name, "--stage", name, "--notes", str(notes)]
        command += ["--seconds", str(seconds), "--device", given.device]
        command += ["--quick"] if given.quick else []
        output.write(f"\n===== {name}: at most {seconds:.0f} s\n".encode())
        output.flush()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

        def found(ended: str) -> Found:
            lines = log.read_bytes()[start:].decode(errors="replace").splitlines()
            return {
                "stage": name,
                "ended": ended,
                "seconds": round(time.monotonic() - began, 1),
                "limit": round(seconds, 1),
                "notes": [json.loads(line) for line in notes.read_text().splitlines() if line.endswith("}")],
                "log": [] if ended in ("done", "under way") else lines[-LOG_LINES:],
            }

        ended = "stopped"
        while (left := began + seconds - time.monotonic()) > 0.0:
            try:
                code = process.wait(min(left, PAGE_SECONDS))
            except subprocess.TimeoutExpired:
                show(found("under way"))
                continue
            ended = f"failed with exit code {code}" if code else "done"
            break
        _end(process)
        return found(ended)


def _end(process: subprocess.Popen) -> None:
    """End a stage and all that it started: first by an interrupt, after which it still writes its notes."""
    for number, patience in ((signal.SIGINT, SECONDS_TO_STOP), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def page(stages: Sequence[Found]) -> str:
    """Return what was found as Markdown: a section for each stage, a table for each kind of rows."""
    lines = ["# One GPU: what it does", ""]
    for found in stages:
        title = gpu_stages.STAGES[found["stage"]].title
        lines += [f"## {title}", "", f"`{found['stage']}`: {found['ended']} after {found['seconds']} s", ""]
        tables: dict[str, list[dict[str, Any]]] = {}
        for note in found["notes"]:
            row = {key: value for key, value in note.items() if key != "table"}
            tables.setdefault(note["table"], []).append(row)
        for name, rows in tables.items():
            lines += [f"### {name}", "", *_table(rows), ""]
        if found["log"]:
            lines += ["```text", *found["log"], "```", ""]
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_shown(row.get(column, "")) for column in columns] for row in rows]
    return [_row(columns), _row(["---"] * len(columns)), *map(_row, cells)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return " ".join(str(value).replace("|", "/").split())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu_report"), help="folder of the page")
    parser.add_argument("--minutes", type=float, default=25.0, help="of all stages together")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--quick", action="store_true", help="the least of everything, to try the code")
    parser.add_argument("--only", nargs="+", choices=[*gpu_stages.STAGES], help="stages")
    parser.add_argument("--stage", choices=[*gpu_stages.STAGES], help=argparse.SUPPRESS)
    parser.add_argument("--notes", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.stage:
        gpu_stages.run(given.stage, gpu_stages.Notes(given.notes), given.device, given.seconds, given.quick)
        return
    if given.device == "cuda" and not gpu_stages.sees_card():
        print(NO_GPU)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    log = given.out / "report.log"
    log.write_text("")
    names = given.only or list(gpu_stages.STAGES)
    ends, done = time.monotonic() + 60.0 * given.minutes, []

    def write(*under_way: Found) -> None:
        stages = [*done, *under_way]
        (given.out / "report.json").write_text(json.dumps(stages, indent=1))
        (given.out / "report.md").write_text(page(stages))

    for number, name in enumerate(names):
        shares = [gpu_stages.STAGES[later].share for later in names[number:]]
        # what earlier stages left is for all that follow
        share = (ends - time.monotonic() - SECONDS_TO_STOP) * shares[0] / sum(shares)
        done.append(run_stage(name, given, max(LEAST_SECONDS, share), log, write))
        write()
        print(f"{name}: {done[-1]['ended']} after {done[-1]['seconds']} s", flush=True)
    print(f"\n{(given.out / 'report.md').read_text()}")


if __name__ == "__main__":
    main()
