"""The command `league export`: an agent to take along."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from league.commands.console import JsonOption, RunArgument, TrustOption, working


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
    license_: Annotated[
        str, typer.Option("--license", metavar="TEXT", help="Licence for other users, such as mit")
    ] = "unspecified",
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
    import json

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
