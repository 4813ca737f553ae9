"""What commands share: the argument RUN, the option --json, rows on a console."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def _run_folder(text: str) -> Path:
    """The folder of a run; of one in an object store, a local copy brought up to date."""
    if "://" not in text:  # and nothing has to be imported
        return Path(text)
    from league.commands.progress import progress_bars
    from storage.remote.mirror import run_folder

    with progress_bars() as progress:
        return run_folder(text, progress)


RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run folder, or the address of its remote", parser=_run_folder),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output")]

AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="STEP|TIME",
        help="The run as it stood then: env steps of the league, or a time (UTC)",
    ),
]


def print_rows(header: Sequence[str], rows: Sequence[tuple[Any, ...]], as_json: bool) -> None:
    """A table for people, or a list of objects."""
    if as_json:
        print(json.dumps([dict(zip(header, row, strict=True)) for row in rows], default=str))
        return
    table = Table(*header)
    for row in rows:
        cells = ("" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row)
        table.add_row(*map(Text, cells))  # as it is: a name may hold what looks like markup
    width = None if sys.stdout.isatty() else 240
    Console(width=width).print(table)
