"""The command `league demo`: a small league, from its first step to an exported agent."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for all that it makes")] = Path(
        "demo"
    ),
    game: Annotated[str, typer.Option(help="Id of a game (league envs list), or a config")] = "connect_four",
    minutes: Annotated[float, typer.Option(min=0.01, help="Minutes of training")] = 2.0,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs of each two entrants of the tournament")] = 20,
    page: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Show the report as a page until Ctrl-C, at the end")
    ] = True,
) -> None:
    """Train a league of a small game, play a tournament of its snapshots, write a report and export the best.

    Each step is a command of its own, printed before it runs. Where one fails, the demo ends with its exit
    code.
    """
    from league.commands.matches import open_page
    from storage.errors import Mistake

    if folder.exists():
        raise Mistake(f"{folder}: exists, expected a new folder; name another one: league demo DIR")
    run, report = str(folder / "run"), folder / "report.html"
    steps = [
        ["train", game, "--run", run, "--set", f"stop.minutes={minutes:g}"],
        ["tournament", run, "--pairs", str(pairs), "--run", str(folder / "tournament")],
        ["report", run, "-o", str(report)],
        ["export", run, "best", str(folder / "agent"), "--to", "folder"],
    ]
    for step in steps:
        if code := _run(step):
            raise typer.Exit(code)
    print(f"\n{folder} was made by:")
    for step in steps:
        print(f"  league {shlex.join(step)}")
    print(f"Next, against you:\n  league play {shlex.quote(run)} best human --browser")
    if page:
        open_page(report.resolve().as_uri())
        raise typer.Exit(_run(["serve", run]))


def _run(step: list[str]) -> int:
    """Print a command of `league` and run it; return its exit code."""
    print(f"\n$ league {shlex.join(step)}", flush=True)
    return subprocess.run([sys.executable, "-m", "league", *step], check=False).returncode
