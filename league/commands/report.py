"""The command `league report`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from league.commands.console import AsOfOption, RunArgument


def report(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="Where the page is written")
    ] = Path("report.html"),
    as_of: AsOfOption = None,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--static",
            help="Charts to point at (the extra `report`), or plots alone; default: what there is",
        ),
    ] = None,
) -> None:
    """Write one self-contained page on a run: what happened, who is best, what went wrong."""
    import analysis
    from analysis.report import report_page
    from storage.errors import Mistake

    if out.is_dir() or not out.parent.is_dir():
        found = "a folder" if out.is_dir() else "no such folder"
        raise Mistake(f"-o {out}: found {found}, expected a file in a folder that exists")
    with analysis.open_run(run) as history:
        then = history if as_of is None else history.as_of(as_of)
        page = report_page(then, interactive=interactive)
    new = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        new.write_text(page, encoding="utf-8")
        new.replace(out)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Mistake(f"-o {out}: cannot be written ({error.strerror}); choose another file") from None
    print(f"{out}: {len(page.encode()) / 1e6:.2f} MB, one file that needs no network")
