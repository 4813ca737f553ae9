"""The commands `league plot`, `league report` and `league serve`: pictures and pages of a run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from league.commands.console import AsOfOption, RunArgument, working


class Plot(StrEnum):
    """Names of the pictures."""

    SCORES = "scores"
    WIN_RATES = "win-rates"
    ENDS = "ends"
    LEARNING = "learning"
    RATINGS = "ratings"
    PAYOFF = "payoff"
    CLUSTERS = "clusters"
    LINEAGE = "lineage"
    MATCH_MIX = "match-mix"
    EXPLOITABILITY = "exploitability"
    YARDSTICKS = "yardsticks"
    RESPONSES = "responses"
    CYCLIC_PLANE = "cyclic-plane"
    ALL = "all"


class Over(StrEnum):
    """Axes of learning curves."""

    STEPS = "steps"
    TIME = "time"


def plot(
    run: RunArgument,
    name: Annotated[
        Plot, typer.Argument(metavar="NAME", help=f"Name of the picture: {', '.join(Plot)} (into a folder)")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="An .svg or .png file; for all, a folder. Default: NAME.svg, or plots",
        ),
    ] = None,
    over: Annotated[
        Over, typer.Option(help="Axis of learning curves (scores, win-rates, ends, learning)")
    ] = Over.STEPS,
    as_of: AsOfOption = None,
) -> None:
    """Draw one picture of a run, or all of them, as SVG or PNG."""
    import analysis
    from analysis import plots
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
        order = functools.cache(then.order)
        curves = functools.cache(then.curves)

        def board() -> Any:
            """Return the leaderboard in order of strength."""
            return then.standing(order())

        def staged() -> tuple[Any, Any]:
            """Return payoff and leaderboard: a live player has a row for each stage of its training."""
            return then.payoff(stages=True), then.standing(order(), stages=True)

        draw = {  # functions: a picture reads no more than it needs
            Plot.SCORES: lambda: plots.scores(curves(), over.value),
            Plot.WIN_RATES: lambda: plots.win_rates(curves(), over.value),
            Plot.ENDS: lambda: plots.ends(curves(), over.value),
            Plot.LEARNING: lambda: plots.learning(curves(), over.value),
            Plot.RATINGS: lambda: plots.ratings(then.ratings(), board()),
            Plot.PAYOFF: lambda: plots.payoff_heatmap(*staged()),
            Plot.CLUSTERS: lambda: plots.payoff_heatmap(*staged(), "nash_cluster"),
            Plot.LINEAGE: lambda: plots.lineage_tree(then.snapshots(), board()),
            Plot.MATCH_MIX: lambda: plots.match_mix(then.match_mix(over_time=True)),
            Plot.EXPLOITABILITY: lambda: plots.exploitability(then.exploitability()),
            Plot.YARDSTICKS: lambda: plots.yardsticks(then.yardsticks()),
            Plot.RESPONSES: lambda: plots.response_graph(*staged()),
            Plot.CYCLIC_PLANE: lambda: plots.cyclic_plane(*staged()),
        }
        for each in list(draw) if name is Plot.ALL else [name]:
            path = out / f"{each}.svg" if name is Plot.ALL else out
            with working(f"drawing {each} of {run}"):
                plots.save(draw[each](), path)
            print(path)


def report(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="File to write the page to")
    ] = Path("report.html"),
    as_of: AsOfOption = None,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--static",
            help="Interactive charts (the extra `report`), or plots alone; default: whatever is installed",
        ),
    ] = None,
    own_sections: Annotated[
        list[str] | None,
        typer.Option("--section", metavar="MODULE:NAME", help="A section of your own; repeatable"),
    ] = None,
) -> None:
    """Write one self-contained page on a run: what happened, who is best, what went wrong."""
    import analysis
    from analysis.report import report_page
    from storage.errors import Mistake

    if out.is_dir() or not out.parent.is_dir():
        found = "a folder" if out.is_dir() else "no such folder"
        raise Mistake(f"-o {out}: found {found}, expected a file in a folder that exists")
    makers = [_own_section(path) for path in own_sections or ()]
    with working(f"writing the report of {run}"), analysis.open_run(run) as history:
        then = history if as_of is None else history.as_of(as_of)
        page = report_page(then, interactive=interactive, own_sections=makers)
    new = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        new.write_text(page, encoding="utf-8")
        new.replace(out)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Mistake(f"-o {out}: cannot be written ({error.strerror}); choose another file") from None
    print(f"{out}: {len(page.encode()) / 1e6:.2f} MB, one file that needs no network")


def _own_section(path: str) -> Callable[..., Any]:
    """Import a function that makes a section. Raise Mistake if it cannot be imported or called."""
    from league.import_paths import import_callable
    from storage.errors import Mistake

    try:
        return import_callable(path, "a function of a Story")
    except ValueError as error:
        raise Mistake(f"--section {error}") from None


def serve(
    run: RunArgument,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port to listen on, on this machine only; 0: any free port"),
    ] = 8642,
) -> None:
    """Serve the report of a run as a live page, to browsers on this machine only. Ctrl-C ends it."""
    from analysis.server import serve as serve_until_interrupted
    from league.commands.matches import room_of

    def ready(address: str) -> None:
        print(f"{run}: {address} (Ctrl-C ends it)", flush=True)

    serve_until_interrupted(run, port, ready=ready, room=lambda: room_of(run))
