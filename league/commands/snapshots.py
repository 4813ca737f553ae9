"""The command `league snapshots`: list, show, verify, export, distil, import, gc."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from league.commands.console import JsonOption, RunArgument, print_rows, progress_bars

COLUMNS = (
    "snapshot_id",
    "player",
    "role",
    "env_steps",
    "updates",
    "parent_id",
    "bytes",
    "blob_hash",
    "reason",
)


class Action(StrEnum):
    """Actions on a run's snapshots."""

    LIST = "list"
    SHOW = "show"
    VERIFY = "verify"
    EXPORT = "export"
    DISTIL = "distil"
    IMPORT = "import"
    GC = "gc"


class ActionFirst(TyperCommand):
    """The command, also with its action before the run: `snapshots list RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the run before the action, unless there is a folder of the action's name."""
        if len(args) > 1 and args[0] in set(Action) and args[1][:1] != "-" and not Path(args[0]).exists():
            args = [args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)


def snapshots(
    run: RunArgument,
    action: Annotated[
        Action,
        typer.Argument(help="Action: list, show ID, verify, export ID DIR, distil ID DIR, import DIR or gc"),
    ] = Action.LIST,
    given: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID] [DIR]", help="An id or a unique prefix; a folder to write to or to read from"
        ),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="list: snapshots to show, such as \"player = 'main-0'\"")
    ] = None,
    license_: Annotated[
        str, typer.Option("--license", metavar="TEXT", help="export: licence for other users")
    ] = "unspecified",
    decisions: Annotated[
        int,
        typer.Option(min=1, help="distil: number of the mixture's decisions that the network learns from"),
    ] = 3_000_000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="distil: seed of the matches and of the training")
    ] = 0,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="ID", help="import: new id of the snapshot, if its own is taken"),
    ] = None,
    delete: Annotated[
        bool,
        typer.Option("--delete", help="gc: remove the files that were found, instead of only listing them"),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List, show, verify, export, distil or import the snapshots of a run, or remove unused files (gc).

    `distil` trains one network to play as a mixture does (main-0:average, :nash, A+B), and exports it.
    """
    to_folder = {Action.EXPORT: ("ID", "DIR"), Action.DISTIL: ("ID", "DIR")}
    wanted = {Action.SHOW: ("ID",), Action.IMPORT: ("DIR",), **to_folder}.get(action, ())
    arguments = _arguments(action, given or [], wanted)
    match action:
        case Action.LIST:
            _list(run, where, as_json)
        case Action.SHOW:
            _show(run, *arguments)
        case Action.VERIFY:
            _verify(run, as_json)
        case Action.EXPORT:
            _export(run, arguments[0], Path(arguments[1]), license_)
        case Action.DISTIL:
            _distil(run, arguments[0], Path(arguments[1]), license_, decisions, seed)
        case Action.IMPORT:
            _import(run, Path(arguments[0]), name)
        case Action.GC:
            _collect(run, delete, as_json)


def _arguments(action: Action, given: list[str], wanted: tuple[str, ...]) -> list[str]:
    from storage.errors import Mistake

    if len(given) < len(wanted):
        missing = wanted[len(given)]
        means = {"ID": "a snapshot id, a unique prefix, a player or best", "DIR": "a folder"}[missing]
        raise Mistake(f"snapshots {action}: no {missing} given, expected {means}")
    if len(given) > len(wanted):
        raise Mistake(f"snapshots {action}: found '{given[len(wanted)]}', expected nothing more")
    return given


def _list(run: Path, where: str | None, as_json: bool) -> None:
    from storage import query

    condition = "" if where is None else f"WHERE {where}"
    rows = query(
        run, f"SELECT {', '.join(COLUMNS)} FROM snapshots {condition} ORDER BY created_at, snapshot_id"
    )
    found: list[tuple[Any, ...]] = [tuple(row.values()) for row in rows.to_pylist()]
    if not as_json:  # a row must fit on a line: the start of a hash identifies a blob
        place = COLUMNS.index("blob_hash")
        found = [(*row[:place], row[place][:12], *row[place + 1 :]) for row in found]
    print_rows(COLUMNS, found, as_json)


def _show(run: Path, wanted: str) -> None:
    from league.competitors.names import Names
    from storage import open_reader

    reader = open_reader(run)
    found = Names(reader, reader.env()["id"]).snapshot(wanted)
    print(json.dumps(reader.manifest(found.snapshot_id), indent=2))


def _verify(run: Path, as_json: bool) -> None:
    from storage import open_reader
    from storage.errors import Failure
    from storage.upkeep.verification import verify_snapshots

    reader = open_reader(run)
    with progress_bars() as progress:
        problems = verify_snapshots(reader, progress)
    if as_json:
        header = ("snapshot_id", "path", "problem")
        print_rows(header, [(p.snapshot_id, str(p.path), p.message) for p in problems], as_json)
    else:
        for problem in problems:
            print(f"{problem.snapshot_id}: {problem.message}")
    stored = len(reader.snapshots())
    if problems:
        raise Failure(f"{run}: {len(problems)} of {stored} snapshots are damaged; restore them from a copy")
    if not as_json:
        print(f"{stored} snapshots verified")


def _export(run: Path, wanted: str, folder: Path, license_: str) -> None:
    from league.competitors.mixtures import Mixture
    from league.competitors.names import Names
    from storage import open_reader
    from storage.remote.mirror import bring_blob
    from storage.upkeep.exported_mixtures import export_mixture
    from storage.upkeep.exports import export_snapshot

    reader = open_reader(run)
    names = Names(reader, reader.env()["id"])
    mixture = names.mixture(wanted)
    if isinstance(mixture, Mixture):
        members = [(part.snapshot, part.weight, part.temperature) for part in mixture.parts]
        for snapshot, _, _ in members:
            bring_blob(run, snapshot.blob_hash)
        export_mixture(reader, wanted, members, folder, license=license_)
        print(f"{wanted}, {len(members)} snapshots, exported to {folder}")
        return
    snapshot = names.snapshot(wanted)
    bring_blob(run, snapshot.blob_hash)
    export_snapshot(reader, snapshot, folder, license=license_)
    print(f"{snapshot.snapshot_id} exported to {folder}")


def _distil(run: Path, wanted: str, folder: Path, license_: str, decisions: int, seed: int) -> None:
    from league.competitors.distilling import distil_to
    from storage import open_reader

    reader = open_reader(run)
    with progress_bars() as progress:
        found = distil_to(reader, wanted, folder, license_, decisions=decisions, seed=seed, progress=progress)
    print(
        f"{wanted}, distilled into one network, exported to {folder}: {found.decisions:,} decisions, "
        f"{found.first_loss:.3f} nats a decision at first, {found.last_loss:.3f} in the end"
    )


def _import(run: Path, folder: Path, name: str | None) -> None:
    from storage.archive import Archive
    from storage.upkeep.imports import import_snapshot

    with Archive.open(run) as archive:
        known = {snapshot.snapshot_id for snapshot in archive.snapshots()}
        snapshot = import_snapshot(archive, folder, name)
    done = "is here already, as in" if snapshot.snapshot_id in known else "imported from"
    print(f"{snapshot.snapshot_id} ({snapshot.architecture}) {done} {folder}")


def _collect(run: Path, delete: bool, as_json: bool) -> None:
    from storage.upkeep.garbage import collect

    garbage = collect(run, delete=delete)
    print_rows(("path", "bytes", "why"), [(str(p), size, why) for p, size, why in garbage.files], as_json)
    if not as_json:
        done = "removed" if delete else "found; nothing was removed (add --delete)"
        print(f"{len(garbage.files)} files, {garbage.bytes:,} bytes {done}")
