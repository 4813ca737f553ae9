"""The training of the runs of a sweep: one process for each, some at a time, and again after a kill.

What is done is read off the run folders: a run that is trained is not trained again, one that was cut goes
on with --resume, and one that another process still trains is waited for.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from league.sweeps.plan import Plan, Planned, config_path
from storage import query
from storage.disk import remove_tree
from storage.ends import FACTS, State, state_of
from storage.layout import FORMAT, LEDGER
from storage.ledger import lock
from storage.ledger.ledger import is_written

LOOK_SECONDS = 0.2
INTERRUPT_SECONDS = 120.0  # time for a training to end by itself

Say = Callable[[str], None]


def state_in(folder: Path, run: Planned) -> State | None:
    """Return the state of a run of the sweep in `folder`; `None` if it was not begun. Raise StorageError."""
    path = folder / run.name
    if not (path / FORMAT).exists():
        return None
    (facts,) = query(path, FACTS).to_pylist()
    return state_of(facts, is_written(path / LEDGER))


def train_all(plan: Plan, folder: Path, jobs: int, say: Say) -> list[str]:
    """Train what is missing, at most `jobs` runs at a time; return the names of runs that failed.

    Raise RunLocked if another process trains the sweep. An interrupt ends the trainings, which keep what they
    have.
    """
    held = lock.take(folder, "league sweep")
    try:
        return _train_all(plan, folder, jobs, say)
    finally:
        held.release()


def _train_all(plan: Plan, folder: Path, jobs: int, say: Say) -> list[str]:
    waiting, failed = list(plan.runs), []
    under_way: dict[Planned, subprocess.Popen[bytes] | None] = {}  # None: a process of an earlier sweep
    done = 0
    try:
        while waiting or under_way:
            while waiting and len(under_way) < jobs:
                run = waiting.pop(0)
                state = state_in(folder, run)
                if state is not None and state.kind == "trained":
                    done += 1
                    say(f"[{done}/{len(plan.runs)}] {run.name}: is there. {state.sentence}")
                elif state is not None and state.kind == "running":
                    say(f"{run.name}: a process still trains it, from before; waiting for its end")
                    under_way[run] = None
                else:
                    say(f"{run.name}: {'goes on' if state is not None else 'begins'}")
                    under_way[run] = _start(folder, run, resume=state is not None)
            for run, process in list(under_way.items()):
                if process is None and is_written(folder / run.name / LEDGER):
                    continue
                if process is not None and process.poll() is None:
                    continue
                del under_way[run]
                state = state_in(folder, run)
                if state is not None and state.kind == "trained":
                    done += 1
                    say(f"[{done}/{len(plan.runs)}] {run.name}: {state.sentence}")
                elif process is None:
                    waiting.insert(0, run)  # it was cut: it goes on
                else:
                    failed.append(run.name)
                    say(f"{run.name}: {_why(folder, run, state)}")
            if under_way:
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:  # the trainings got it too, and end cleanly
        for process in filter(None, under_way.values()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_SECONDS)
        raise
    return failed


def _start(folder: Path, run: Planned, *, resume: bool) -> subprocess.Popen[bytes]:
    path = folder / run.name
    if not resume:
        for left in folder.glob(f".{run.name}.*"):  # of a run that was cut while it was made
            remove_tree(left)
    command = [sys.executable, "-m", "league.commands.app", "train", str(config_path(folder, run))]
    command += ["--run", str(path), *(["--resume"] if resume else [])]
    with open(_log(folder, run), "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def _log(folder: Path, run: Planned) -> Path:
    return folder / f"{run.name}.log"


def _why(folder: Path, run: Planned, state: State | None) -> str:
    """Return how a training ended that did not come to its end: its last line."""
    lines = _log(folder, run).read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    how = "not begun" if state is None else state.sentence
    return f"{how}; its last line, in {_log(folder, run)}: {last}"
