"""The command `league plot`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from league.commands.console import AsOfOption, RunArgument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from analysis import History


class Plot(StrEnum):
    """What to draw."""

    RATINGS = "ratings"
    PAYOFF = "payoff"
    CLUSTERS = "clusters"
    LINEAGE = "lineage"
    MATCH_MIX = "match-mix"
    EXPLOITABILITY = "exploitability"
    RESPONSES = "responses"
    CYCLIC_PLANE = "cyclic-plane"
    ALL = "all"


def plot(
    run: RunArgument,
    name: Annotated[
        Plot, typer.Argument(metavar="NAME", help=f"Which picture: {', '.join(Plot)} (into a folder)")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="An .svg or .png file; of all, a folder. Default: NAME.svg"
        ),
    ] = None,
    as_of: AsOfOption = None,
) -> None:
    """Draw one picture of a run, or all of them, as SVG or PNG."""
    import analysis
    from analysis.plots import save
    from storage.errors import Mistake

    out = out or Path("plots" if name is Plot.ALL else f"{name}.svg")
    if name is not Plot.ALL and out.suffix.lower() not in (".svg", ".png"):
        raise Mistake(f"-o {out}: found suffix '{out.suffix}', expected .svg or .png")
    if name is Plot.ALL and out.exists() and not out.is_dir():
        raise Mistake(f"-o {out}: found a file, expected a folder for the pictures")
    if name is not Plot.ALL and out.is_dir():
        raise Mistake(f"-o {out}: found a folder, expected a file")
    with analysis.open_run(run) as history:
        then = history if as_of is None else history.as_of(as_of)
        draw = _figures(then)
        for each in list(draw) if name is Plot.ALL else [name]:
            path = out / f"{each}.svg" if name is Plot.ALL else out
            save(draw[each](), path)
            print(path)


def _figures(history: History) -> dict[Plot, Callable[[], Figure]]:
    """How each picture is made of what the history holds; each asks for no more than it needs."""
    from analysis import plots

    board, payoff = history.leaderboard, history.payoff
    return {
        Plot.RATINGS: lambda: plots.ratings(history.ratings(), board()),
        Plot.PAYOFF: lambda: plots.payoff_heatmap(payoff(), board()),
        Plot.CLUSTERS: lambda: plots.payoff_heatmap(payoff(), board(), "nash_cluster"),
        Plot.LINEAGE: lambda: plots.lineage_tree(history.snapshots(), board()),
        Plot.MATCH_MIX: lambda: plots.match_mix(history.match_mix(over_time=True)),
        Plot.EXPLOITABILITY: lambda: plots.exploitability(history.exploitability()),
        Plot.RESPONSES: lambda: plots.response_graph(payoff(), board()),
        Plot.CYCLIC_PLANE: lambda: plots.cyclic_plane(payoff(), board()),
    }
