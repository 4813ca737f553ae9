"""The commands on run folders: `league runs`, `league du` and `league branch`."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import (
    AsOfOption,
    JsonOption,
    RunArgument,
    RunGroup,
    SetOption,
    print_rows,
    progress_bars,
    working,
)
from storage.errors import printable

if TYPE_CHECKING:
    from storage.records import BranchPoint
    from storage.upkeep.labels import Labels

HEADER = (
    "run",
    "game",
    "preset",
    "state",
    "age",
    "env_steps",
    "matches",
    "snapshots",
    "best",
    "disk",
    "tags",
    "note",
)
_FACTS = """
SELECT (SELECT arg_max(env, started_at) FROM runs) AS game,
    (SELECT arg_max(config, started_at) FROM runs) AS config,
    (SELECT min(started_at) FROM runs) AS began,
    (SELECT coalesce(sum(p.matches), 0) FROM played p WHERE NOT is_placing) AS matches,
    (SELECT count(*) FROM snapshots) AS snapshots"""


runs_app = typer.Typer(cls=RunGroup, help="List, tag, note and remove the runs of a folder.")


@runs_app.command("list")
def list_runs(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="A folder of runs; one called tag is ./tag")
    ] = Path("runs"),
    tagged: Annotated[
        list[str] | None, typer.Option("--tagged", metavar="TAG", help="Runs with this tag; may be repeated")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, game, age, env steps, best, disk, tags.

    `best` is the snapshot that is likely the best by strength: `league ratings RUN` says how sure that is.
    Placing games are in neither env_steps nor matches.
    """
    from storage.errors import Mistake
    from storage.layout import FORMAT
    from storage.upkeep.labels import read_labels

    found = sorted(path.parent for path in folder.glob(f"*/{FORMAT}"))
    if (folder / FORMAT).exists():
        found = [folder]
    if not found:
        raise Mistake(f"{folder}: no run folder in it, expected some (made by: league train)")
    if tagged:
        found = [run for run in found if {*tagged} <= {*read_labels(run).tags}]
        if not found:
            raise Mistake(f"{folder}: no run in it has all of the tags {', '.join(sorted(tagged))}")
    with progress_bars() as progress:
        rows = []
        for number, run in enumerate(found):
            progress("reading runs", number, len(found))
            rows.append(row_of(run, plain=as_json))
    print_rows(HEADER, rows, as_json)


def row_of(run: Path, *, plain: bool = False) -> tuple[Any, ...]:
    """Return what the table says of a run; of one that cannot be read, why.

    With `plain`, sizes are bytes, ages seconds and tags a list.
    """
    from analysis.statistics.strength.recorded_order import recorded_order
    from storage import connect
    from storage.ends import ENV_STEPS, FACTS, span, state_of
    from storage.errors import Failure, Mistake
    from storage.layout import LEDGER
    from storage.ledger.ledger import is_written
    from storage.upkeep.labels import read_labels
    from storage.upkeep.usage import disk_use

    try:
        with connect(run) as live, live.at_one_moment():
            (facts,) = live.sql(f"{_FACTS}, ({ENV_STEPS}) AS env_steps").to_arrow_table().to_pylist()
            (ended,) = live.sql(FACTS).to_arrow_table().to_pylist()
            best = recorded_order(live).best
        labels = read_labels(run)
        state = state_of(ended, is_written(run / LEDGER)).sentence
        size = sum(use.bytes for use in disk_use(run))
    except (Failure, Mistake) as error:
        return (str(run), "", "", " ".join(str(error).split()), *(None,) * (len(HEADER) - 4))
    age = max(0.0, time.time() - facts["began"].timestamp())
    numbers = (int(facts[name]) for name in ("env_steps", "matches", "snapshots"))
    return (
        str(run),
        facts["game"],
        _preset(facts["config"]),
        state,
        age if plain else span(age),
        *numbers,
        None if best is None or not facts["matches"] else best.competitor,
        size if plain else sized(size),
        list(labels.tags) if plain else " ".join(labels.tags),
        labels.note,
    )


def _preset(config: str | None) -> str | None:
    """Return the preset in the settings of a session; `None` for a tournament."""
    import yaml

    settings = yaml.safe_load(config or "")
    league = settings.get("league") if isinstance(settings, dict) else None
    return league.get("preset") if isinstance(league, dict) else None


def sized(number: int) -> str:
    """Return a number of bytes for people: "512 B", "3.4 MB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} B"


@runs_app.command()
def tag(
    run: Path,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the tags away")] = False,
    as_json: JsonOption = False,
) -> None:
    """Give a run tags, or take them away."""
    from storage.layout import require_run
    from storage.upkeep.labels import change_tags

    require_run(run)
    _print_labels(run, change_tags(run, () if remove else tags, tags if remove else ()), as_json)


@runs_app.command()
def note(
    run: Path,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='The note; "" removes it')],
    as_json: JsonOption = False,
) -> None:
    """Give a run a note in place of the one it has."""
    from storage.layout import require_run
    from storage.upkeep.labels import change_note

    require_run(run)
    _print_labels(run, change_note(run, text), as_json)


def _print_labels(run: Path, labels: Labels, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"run": str(run), "tags": list(labels.tags), "note": labels.note}))
    else:
        print(f"{run}: tags: {' '.join(labels.tags) or 'none'}; note: {labels.note or 'none'}")


@runs_app.command("rm")
def remove_runs(
    found: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
) -> None:
    """Remove runs for good, after a question to a terminal."""
    from storage.errors import Mistake
    from storage.layout import LEDGER, require_run
    from storage.ledger.ledger import is_written
    from storage.upkeep.usage import disk_use, remove_run

    for run in found:  # all of them first: a mistake removes nothing
        require_run(run)
        if is_written(run / LEDGER):
            raise Mistake(f"{run}: a process writes it now; stop that first. Nothing was removed")
    sizes = [sum(use.bytes for use in disk_use(run)) for run in found]
    if not yes:
        what = ", ".join(f"{run} ({sized(size)})" for run, size in zip(found, sizes, strict=True))
        if not sys.stdin.isatty():
            raise Mistake(f"runs rm: {what} would be removed for good; give --yes to do so")
        if not typer.confirm(f"Remove {what} for good?"):
            print("Nothing was removed")
            return
    for run, size in zip(found, sizes, strict=True):
        remove_run(run)
        print(f"{run}: removed, {sized(size)} freed")


def du(run: RunArgument, as_json: JsonOption = False) -> None:
    """Show what takes the disk in a run folder: facts by table, weights, states of learners, the copy."""
    from storage.upkeep.usage import disk_use

    with working(f"looking through {run}"):
        uses = disk_use(run)
    if as_json:
        parts = [{"part": u.part, "files": u.files, "bytes": u.bytes, "what": u.what} for u in uses]
        print(json.dumps({"run": str(run), "bytes": sum(u.bytes for u in uses), "parts": parts}))
        return
    total = sum(use.bytes for use in uses)
    rows = [(u.part, u.files, sized(u.bytes), f"{u.bytes / max(1, total):.0%}", u.what) for u in uses]
    rows.append(("all", sum(u.files for u in uses), sized(total), "100%", ""))
    print_rows(("part", "files", "disk", "share", "what"), rows, as_json=False)


def branch(
    run: RunArgument,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Run folder to make")],
    as_of: AsOfOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new run that goes on from any past moment of RUN, which is only read and may be training.

    Snapshots are linked, not copied. Continue the new run by `league train NEW --resume`.
    """
    from league.training.resume import branch as make

    with progress_bars() as progress:
        made = make(run, new, as_of, set_ or (), progress)
    if as_json:
        print(json.dumps({"run": str(new)} | dataclasses.asdict(made)))
    else:
        print(*map(printable, _described(made, new)), sep="\n")


def _described(made: BranchPoint, new: Path) -> list[str]:
    from storage.records import STATE

    when = datetime.fromtimestamp(made.moment_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lines = [
        f"{new}: branched from {made.parent} at {made.env_steps:,} env steps ({made.matches:,} matches, "
        f"{when} UTC)"
    ]
    lines += [f"set: {change}" for change in made.changes]
    for player, origin in made.learners.items():
        if origin == STATE:
            lines.append(f"{player}: goes on from the state of its learner")
        else:
            lines.append(
                f"{player}: goes on from the weights of {origin or 'its seed'} with a fresh optimizer, as no "
                "state of its learner from then is left"
            )
    return [*lines, f"Next: league train {shlex.quote(str(new))} --resume"]
