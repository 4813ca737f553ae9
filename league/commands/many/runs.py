"""The commands `league runs` and `league du`: the runs of a folder, their labels, and what takes the disk."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from league.commands.console import JsonOption, RunArgument, print_rows, progress_bars, working

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
ACTIONS = ("tag", "note", "rm")
_FACTS = """
SELECT (SELECT arg_max(env, started_at) FROM runs) AS game,
    (SELECT arg_max(config, started_at) FROM runs) AS config,
    (SELECT min(started_at) FROM runs) AS began,
    (SELECT coalesce(sum(p.matches), 0) FROM played p) AS matches,
    (SELECT coalesce(sum(env_steps), 0) FROM played) AS env_steps,
    (SELECT count(*) FROM snapshots) AS snapshots
"""


def runs(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FOLDER | tag RUN TAG... | note RUN TEXT | rm RUN...]",
            help="A folder of runs (default: runs; a folder called tag is ./tag); or what to do with a run",
        ),
    ] = None,
    tagged: Annotated[
        list[str] | None, typer.Option("--tagged", metavar="TAG", help="Runs with this tag; may be repeated")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="tag: take the tags away")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="rm: do not ask")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the runs of a folder: state, game, age, env steps, best, disk, tags. Or tag, note and remove runs.

    `best` is the snapshot that is likely the best by strength: `league ratings RUN` says how sure that is.
    """
    from storage.errors import Mistake

    given = list(words or ())
    action = given.pop(0) if given and given[0] in ACTIONS else ""
    if remove and action != "tag":
        raise Mistake("runs: found --remove, which goes with `runs tag RUN TAG...`; leave it out")
    if yes and action != "rm":
        raise Mistake("runs: found --yes, which goes with `runs rm RUN...`; leave it out")
    if action and (tagged or (as_json and action == "rm")):
        raise Mistake(f"runs {action}: found --tagged or --json, which go with the list; leave them out")
    if action == "rm":
        _remove([Path(run) for run in given], yes)
    elif action:
        _label(action, given, remove, as_json)
    elif len(given) > 1:
        raise Mistake(
            f"runs: found {len(given)} words, expected one folder, or one of {', '.join(ACTIONS)} first"
        )
    else:
        _list(Path(given[0] if given else "runs"), set(tagged or ()), as_json)


def _list(folder: Path, tagged: set[str], as_json: bool) -> None:
    from storage.errors import Mistake
    from storage.layout import FORMAT
    from storage.upkeep.labels import read_labels

    found = sorted(path.parent for path in folder.glob(f"*/{FORMAT}"))
    if (folder / FORMAT).exists():
        found = [folder]
    if not found:
        raise Mistake(f"{folder}: no run folder in it, expected some (made by: league train)")
    if tagged:
        found = [run for run in found if tagged <= {*read_labels(run).tags}]
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
    from analysis.statistics.strength.recorded import recorded_order
    from storage import connect
    from storage.ends import FACTS, span, state_of
    from storage.errors import Failure, Mistake
    from storage.layout import LEDGER
    from storage.ledger.ledger import is_written
    from storage.upkeep.labels import read_labels
    from storage.upkeep.usage import disk_use

    try:
        with connect(run) as live, live.at_one_moment():
            (facts,) = live.sql(_FACTS).to_arrow_table().to_pylist()
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


def _label(action: str, given: Sequence[str], remove: bool, as_json: bool) -> None:
    from storage.errors import Mistake
    from storage.layout import require_run
    from storage.upkeep.labels import change_note, change_tags

    if not given or (action == "note" and len(given) != 2) or (action == "tag" and len(given) < 2):
        expected = "RUN TAG..." if action == "tag" else 'RUN "TEXT" ("" removes the note)'
        raise Mistake(f"runs {action}: found {len(given)} words, expected {expected}")
    run, *rest = given
    require_run(Path(run))
    if action == "note":
        labels = change_note(Path(run), rest[0])
    else:
        labels = change_tags(Path(run), () if remove else rest, rest if remove else ())
    if as_json:
        print(json.dumps({"run": run, "tags": list(labels.tags), "note": labels.note}))
    else:
        print(f"{run}: tags: {' '.join(labels.tags) or 'none'}; note: {labels.note or 'none'}")


def _remove(found: Sequence[Path], yes: bool) -> None:
    """Remove runs for good, after a question to a terminal."""
    from storage.errors import Mistake
    from storage.layout import LEDGER, require_run
    from storage.ledger.ledger import is_written
    from storage.upkeep.usage import disk_use, remove_run

    if not found:
        raise Mistake("runs rm: found no run, expected the folders of one or more")
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
