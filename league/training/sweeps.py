"""Sweeps: the runs of a grid of settings and seeds, or of a search, which are written down in a file.

    sweep.json         the runs in their order: of a grid all of them, of a search those chosen so far
    configs/<run>.yaml the resolved settings of each run
    <run>/             its run folder, and <run>.log what its training printed

The order is seed by seed, so that a sweep that is cut short has all settings with fewer seeds. Each run is
trained by a process of its own, some at a time, and again after a kill. What is done is read off the run
folders: a run that is trained is not trained again, one that was cut goes on with --resume, and one that
another process still trains is waited for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from league.config.file import PLAN, PLANNED, fields_of, to_yaml
from league.config.loading import is_game, load, of_game
from league.interrupts import terminated
from storage import query
from storage.disk import make_new_folder, remove_tree, write_json, write_whole
from storage.ends import FACTS, RunState, state_of
from storage.errors import Mistake
from storage.layout import FORMAT, LEDGER
from storage.ledger import lock
from storage.ledger.ledger import is_written

MOST_RUNS = 1000


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a sweep."""

    name: str  # of its folder
    setting: str  # such as "learner.lr=1e-3"; runs of one setting differ by their seeds
    seed: int
    overrides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All runs of a sweep, in order; of a search those that are chosen."""

    config: str
    runs: tuple[Planned, ...]
    search: Mapping[str, Any] | None = None  # space, trials, common overrides; None: a grid
    results: Mapping[str, Any] = field(default_factory=dict)  # of trials that are over, by their names

    @property
    def settings(self) -> list[str]:
        """The settings, each once, in order."""
        return list(dict.fromkeys(run.setting for run in self.runs))


def make_plan(config: Path, overrides: Sequence[str], seeds: int) -> Plan:
    """Return the grid of `config`: `overrides` with several values between commas are its axes.

    Each run has one of `seeds` seeds, from the config's own on. Raise ConfigError for settings that are not
    possible, Mistake for an axis that is given twice, and for too many runs.
    """
    common: list[str] = []
    axes: dict[str, list[str]] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        values = values_of(text) if equals else []
        if key in axes or any(other.startswith(f"{key}=") for other in common):
            raise Mistake(f"--set {override}: {key} is given twice, expected once, with commas: {key}=V1,V2")
        if len(values) < 2:
            common.append(override)
            continue
        if len({*values}) < len(values):
            raise Mistake(f"--set {override}: a value is given twice, expected each once")
        axes[key] = values
    if "seed" in axes:
        raise Mistake("--set seed: seeds are no axis, expected their number: --seeds N")
    combined = list(itertools.product(*axes.values()))
    if len(combined) * seeds > MOST_RUNS:
        raise Mistake(f"sweep: {len(combined) * seeds:,} runs, expected at most {MOST_RUNS:,}")
    first = load(config, common).seed
    last = [key.rpartition(".")[2] for key in axes]  # in names of runs, unless others end alike
    short = {key: key if last.count(end) > 1 else end for key, end in zip(axes, last, strict=True)}
    runs = []
    for seed in range(first, first + seeds):
        for point in combined:
            chosen = [f"{key}={value}" for key, value in zip(axes, point, strict=True)]
            words = [f"{short[key]}={value}" for key, value in zip(axes, point, strict=True)]
            name = re.sub(r"[^A-Za-z0-9._=+-]", "-", "+".join([*words, f"seed={seed}"]))
            setting = ", ".join(chosen) or "the config"
            runs.append(Planned(name, setting, seed, (*common, *chosen, f"seed={seed}")))
    if len({run.name for run in runs}) < len(runs):
        raise Mistake("sweep: two settings give one name of a run; write their values without odd characters")
    for run in runs:
        load(config, run.overrides)
    return Plan(str(config), tuple(runs))


def values_of(text: str) -> list[str]:
    """Return the values between the commas of `text`; commas in brackets and quotes separate nothing."""
    values, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and not depth:
            values.append("")
            continue
        values[-1] += letter
    return [value.strip() for value in values]


def begin(plan: Plan, folder: Path) -> None:
    """Write the plan and the settings of its runs into `folder`, or find the same plan there.

    Raise Mistake if another sweep, or something else, is there.
    """
    path = folder / PLAN
    if path.exists():
        found = read_plan(folder)
        if found.search != plan.search or (plan.search is None and found.runs != plan.runs):
            raise Mistake(
                f"{folder}: another sweep is there, of {len(found.runs)} runs; go on with it by: league "
                f"sweep {folder}, or choose another --run"
            )
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Mistake(f"{folder}: is there and no sweep, expected a new folder; choose another --run")
    make_new_folder(folder / PLANNED)
    if plan.search is not None:
        source = of_game(plan.config) if is_game(plan.config) else plan.config
        fields = fields_of(source, plan.search["common"])[1]
        write_whole(base_path(folder), [to_yaml(fields).encode()])
    for run in plan.runs:
        begin_run(folder, run, Path(plan.config))
    save(plan, folder)


def begin_run(folder: Path, run: Planned, config: Path) -> None:
    """Write the settings of a run into `folder`. Raise ConfigError for settings that are not possible."""
    settings = load(config, run.overrides)
    write_whole(config_path(folder, run), [settings.to_yaml().encode()])


def base_path(folder: Path) -> Path:
    """Return the path of the settings that all runs of a search share, as they were given."""
    return folder / PLANNED / "base.yaml"


def save(plan: Plan, folder: Path) -> None:
    """Write the plan into `folder`, whole or not at all."""
    written = {"version": 1, "config": plan.config, "runs": [dataclasses.asdict(run) for run in plan.runs]}
    if plan.search is not None:
        written |= {"search": plan.search, "results": plan.results}
    write_json(folder / PLAN, written)


def read_plan(folder: Path) -> Plan:
    """Return the plan in `folder`. Raise Mistake if there is none."""
    path = folder / PLAN
    if not path.exists():
        raise Mistake(f"{folder}: found no {PLAN} in it, expected the folder of a sweep, or a YAML file")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        runs = [Planned(**entry | {"overrides": tuple(entry["overrides"])}) for entry in found["runs"]]
        return Plan(found["config"], tuple(runs), found.get("search"), found.get("results", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Mistake(f"{path}: no plan of a sweep ({error}), expected what `league sweep` wrote") from None


def config_path(folder: Path, run: Planned) -> Path:
    """Return the path of the settings of a run."""
    return folder / PLANNED / f"{run.name}.yaml"


LOOK_SECONDS = 0.2
INTERRUPT_SECONDS = 120.0  # time for a training to end by itself

Say = Callable[[str], None]


def state_in(folder: Path, run: Planned) -> RunState | None:
    """Return the state of a run of the sweep in `folder`; `None` if it was not begun. Raise StorageError."""
    path = folder / run.name
    if not (path / FORMAT).exists():
        return None
    (facts,) = query(path, FACTS).to_pylist()
    return state_of(facts, is_written(path / LEDGER))


class Grid:
    """The runs of a plan, one after the other, each to its end."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._waiting = [run for run in plan.runs if run.name not in plan.results]

    @property
    def total(self) -> int:
        """Number of all runs."""
        return len(self.plan.runs)

    @property
    def done(self) -> int:
        """Number of runs that are over, and that `next` does not return."""
        return len(self.plan.results)

    def next(self) -> Planned | None:
        """Return the next run; `None` if there is none."""
        return self._waiting.pop(0) if self._waiting else None

    def look(self, run: Planned) -> str:
        """Return why a run that is under way is to be stopped; "" if it goes on."""
        return ""

    def ended(self, run: Planned, state: RunState | None, stopped: str) -> bool:
        """Note that a run has ended, and why it was `stopped`; return whether it is over."""
        return state is not None and state.kind == "trained"


def train_all(source: Grid, folder: Path, jobs: int, say: Say) -> list[str]:
    """Train what is missing, at most `jobs` runs at a time; return the names of runs that failed.

    Raise RunLocked if another process trains the sweep. An interrupt ends the trainings, which keep what they
    have.
    """
    held = lock.take(folder, "league sweep")
    try:
        return _train_all(source, folder, jobs, say)
    finally:
        held.release()


def _train_all(source: Grid, folder: Path, jobs: int, say: Say) -> list[str]:
    failed: list[str] = []
    again: list[Planned] = []
    under_way: dict[Planned, subprocess.Popen[bytes] | None] = {}  # None: a process of an earlier sweep
    stopped: dict[Planned, str] = {}  # why
    done = source.done
    try:
        while True:
            while len(under_way) < jobs and (run := again.pop() if again else source.next()) is not None:
                state = state_in(folder, run)
                if state is not None and state.kind == "trained":
                    done += 1
                    source.ended(run, state, "")
                    say(f"[{done}/{source.total}] {run.name}: is there. {state.sentence}")
                elif state is not None and state.kind == "running":
                    say(f"{run.name}: a process still trains it, from before; waiting for its end")
                    under_way[run] = None
                else:
                    say(f"{run.name}: {'goes on' if state is not None else 'begins'}")
                    under_way[run] = _start(folder, run, resume=state is not None)
            if not under_way:
                return failed
            for run, process in list(under_way.items()):
                if process is None and is_written(folder / run.name / LEDGER):
                    continue
                if process is not None and process.poll() is None:
                    if run not in stopped and (why := source.look(run)):
                        stopped[run] = why
                        process.terminate()  # it keeps what it has
                    continue
                del under_way[run]
                state = state_in(folder, run)
                trained = state is not None and state.kind == "trained"
                why = "" if trained else stopped.get(run, "")
                if process is None and not trained:
                    again.append(run)  # it was cut: it goes on
                elif source.ended(run, state, why):
                    done += 1
                    said = f"stopped early: {why}" if why else "" if state is None else state.sentence
                    say(f"[{done}/{source.total}] {run.name}: {said}")
                else:
                    failed.append(run.name)
                    say(f"{run.name}: {_why(folder, run, state)}")
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:  # the trainings got a Ctrl-C too, and end cleanly
        for process in filter(None, under_way.values()):
            if terminated():
                process.terminate()
        for process in filter(None, under_way.values()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_SECONDS)
        raise


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


def _why(folder: Path, run: Planned, state: RunState | None) -> str:
    """Return how a training ended that did not come to its end: its last line."""
    lines = _log(folder, run).read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    how = "not begun" if state is None else state.sentence
    return f"{how}; its last line, in {_log(folder, run)}: {last}"
