"""The command `league serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from league.commands.console import RunArgument


def serve(
    run: RunArgument,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Where it listens, on this machine only; 0: any that is free"),
    ] = 8642,
) -> None:
    """The report of a run, live: for browsers on this machine only. Ctrl-C ends it."""
    from analysis.server import serve as serve_until_interrupted

    def ready(address: str) -> None:
        print(f"{run}: {address} (Ctrl-C ends it)", flush=True)

    serve_until_interrupted(run, port, ready=ready)
