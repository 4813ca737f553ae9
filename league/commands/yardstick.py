"""The command `league yardstick`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from league.commands.console import (
    EveryOption,
    JsonOption,
    PlayerOption,
    RunArgument,
    TrustOption,
    print_rows,
    working,
)

if TYPE_CHECKING:
    from storage.records import YardstickRecord

HEADER = ("competitor", "yardstick", "part", "samples", "measure", "mode", "value", "low", "high")


def yardstick(
    run: RunArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID...", help="Snapshots by id or unique prefix; a player means its newest one; or bots"
        ),
    ] = None,
    player: PlayerOption = None,
    every: EveryOption = None,
    positions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Positions of your own, one on a line: actions, a colon, a score for each action (a point "
            "if it is not legal): 3 3 2 : -2 -2 1 0 . 0 -3",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Play games against a snapshot or bot of the run, too; repeatable"),
    ] = None,
    games: Annotated[int, typer.Option(min=2, help="Least number of games against each opponent")] = 256,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the games")] = 0,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure snapshots and bots on positions whose best moves are known, and in games against opponents.

    Results are stored in the run: for its report, `league plot RUN yardsticks`, and the table `yardsticks`.
    """
    from league.yardsticks.measure import YardstickOptions, measure

    options = YardstickOptions(
        positions=positions, against=tuple(against or ()), games=games, seed=seed, trust=tuple(trust or ())
    )
    found: list[YardstickRecord] = []
    try:
        with working(f"measuring snapshots of {run}"):
            for figures in measure(run, names or (), player=player, every=every, options=options):
                found += figures
    finally:  # results are printed even if a later measurement fails
        if found and as_json:
            print(json.dumps([dataclasses.asdict(record) for record in found]))
        elif found:
            rows = [tuple(getattr(record, name) for name in HEADER) for record in found]
            print_rows(HEADER, rows, as_json=False)
