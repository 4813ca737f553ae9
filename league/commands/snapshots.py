"""Commands on the snapshots of a run: `league snapshots`, and `league export`: an agent to take along."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from league.commands.console import (
    JsonOption,
    RunArgument,
    RunGroup,
    TrustOption,
    print_rows,
    progress_bars,
    working,
)

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
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A snapshot id, a unique prefix, a player or best")
]
MixtureArgument = Annotated[str, typer.Argument(metavar="ID", help="A snapshot, player, best or mixture")]
NewFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A new folder")]
LicenseOption = Annotated[
    str, typer.Option("--license", metavar="TEXT", help="Licence for other users, such as mit")
]

snapshots_app = typer.Typer(cls=RunGroup, help="List, show, verify, export, distil and import snapshots.")


@snapshots_app.command("list")
def list_snapshots(
    run: RunArgument,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Snapshots to show, such as \"player = 'main-0'\"")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the snapshots of a run in order of freezing."""
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


@snapshots_app.command()
def show(run: RunArgument, wanted: IdArgument) -> None:
    """Print the manifest of a snapshot: what it needs to play, its parents and its hashes."""
    from league.competitors.names import Names
    from storage import open_reader

    reader = open_reader(run)
    found = Names(reader).snapshot(wanted)
    print(json.dumps(reader.manifest(found.snapshot_id), indent=2))


@snapshots_app.command()
def verify(run: RunArgument, as_json: JsonOption = False) -> None:
    """Read all snapshots and compare them with their hashes; exit with 1 if one is damaged."""
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


@snapshots_app.command("export")
def export_folder(
    run: RunArgument,
    wanted: MixtureArgument,
    folder: NewFolder,
    license_: LicenseOption = "unspecified",
    trust: TrustOption = None,
) -> None:
    """Write a snapshot or mixture to a folder with its card, and check it: as league export --to folder."""
    export(run, wanted, folder, To.FOLDER, license_)


@snapshots_app.command()
def distil(
    run: RunArgument,
    wanted: Annotated[str, typer.Argument(metavar="ID", help="A mixture: main-0:average, :nash, A+B")],
    folder: NewFolder,
    license_: LicenseOption = "unspecified",
    decisions: Annotated[
        int, typer.Option(min=1, help="Number of the mixture's decisions that the network learns from")
    ] = 3_000_000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the matches and of the training")
    ] = 0,
) -> None:
    """Train one network to play as a mixture does, and export it."""
    from league.competitors.distillation import distil_to
    from storage import open_reader

    reader = open_reader(run)
    with progress_bars() as progress:
        found = distil_to(reader, wanted, folder, license_, decisions=decisions, seed=seed, progress=progress)
    print(
        f"{wanted}, distilled into one network, exported to {folder}: {found.decisions:,} decisions, "
        f"{found.first_loss:.3f} nats a decision at first, {found.last_loss:.3f} in the end"
    )


@snapshots_app.command("import")
def import_folder(
    run: RunArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that was exported")],
    name: Annotated[
        str | None, typer.Option("--as", metavar="ID", help="New id of the snapshot, if its own is taken")
    ] = None,
) -> None:
    """Take a snapshot that was exported from another run."""
    from storage.archive import Archive
    from storage.upkeep.imports import import_snapshot

    with Archive.open(run) as archive:
        known = {snapshot.snapshot_id for snapshot in archive.snapshots()}
        snapshot = import_snapshot(archive, folder, name)
    done = "is here already, as in" if snapshot.snapshot_id in known else "imported from"
    print(f"{snapshot.snapshot_id} ({snapshot.architecture}) {done} {folder}")


@snapshots_app.command()
def gc(
    run: RunArgument,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the files that were found, instead of only listing them")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List files that no snapshot needs, such as those that a crash has left."""
    from storage.upkeep.garbage import collect

    garbage = collect(run, delete=delete)
    print_rows(("path", "bytes", "why"), [(str(p), size, why) for p, size, why in garbage.files], as_json)
    if not as_json:
        done = "removed" if delete else "found; nothing was removed (add --delete)"
        print(f"{len(garbage.files)} files, {garbage.bytes:,} bytes {done}")


class To(StrEnum):
    """Formats of an exported agent."""

    ONNX = "onnx"
    FOLDER = "folder"


def _format(text: str) -> To:
    """Return the format of this name. Raise BadParameter for another one, and for those that were removed."""
    if text in ("torchscript", "torch"):
        raise typer.BadParameter(
            f"{text} was removed; take onnx, which plays with onnxruntime, or folder, which "
            "league.load_export plays with torch"
        )
    if text not in set(To):
        raise typer.BadParameter(f"'{text}' is not one of 'onnx', 'folder'")
    return To(text)


def export(
    run: RunArgument,
    who: Annotated[
        str,
        typer.Argument(metavar="ID", help="A snapshot, player, best or mixture; name:greedy is one too"),
    ],
    file: Annotated[Path, typer.Argument(help="File to write, or folder with --to folder; it must be new")],
    to: Annotated[
        To,
        typer.Option(
            parser=_format,
            metavar="[onnx|folder]",
            help="onnx: plays with onnxruntime alone; folder: weights, a card for model hubs, and agent.onnx",
        ),
    ] = To.ONNX,
    license_: LicenseOption = "unspecified",
    decisions: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of fresh decisions on which the copy is checked")
    ] = 1_000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Seed of the matches in which these are taken")
    ] = 0,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an agent that plays without this library: connectors, memory and draw included.

    It is opened again and compared with the competitor on decisions of fresh matches before the command
    ends. If it differs by more than 1e-5, the exit code is 1 and nothing is kept.
    """
    from league.competitors.portable_export import export_to
    from storage import open_reader

    with working(f"exporting {who} of {run}"):
        reader = open_reader(run)
        done = export_to(reader, who, str(to), file, license=license_, decisions=decisions, seed=seed)
    if as_json:
        found = {"name": done.name, "file": str(done.path), "to": str(to), "decisions": done.decisions}
        print(json.dumps(found | {"difference": done.difference, "note": done.note or None}))
        return
    print(f"{done.name} exported to {done.path}")
    print(f"{done.decisions:,} fresh decisions: the largest difference is {done.difference:.1e}")
    if done.note:
        print(done.note)
