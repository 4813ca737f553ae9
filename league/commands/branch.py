"""The command `league branch`."""

from __future__ import annotations

import dataclasses
import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from league.commands.console import JsonOption, RunArgument, SetOption, printable, progress_bars

if TYPE_CHECKING:
    from storage.records import Branch


def branch(
    run: RunArgument,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Run folder to make")],
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="STEPS|TIME",
            help="Moment to go on from: env steps of the league, or a time (UTC); default: now",
        ),
    ] = None,
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


def _described(made: Branch, new: Path) -> list[str]:
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
