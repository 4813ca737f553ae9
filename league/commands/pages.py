"""The commands `league plot`, `league report` and `league serve`: pictures and pages of a run."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from league.commands.console import AsOfOption, RunArgument, check_page, run_folder, working, write_page


class Plot(StrEnum):
    """Names of the pictures."""

    STRENGTHS = "strengths"
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


OF_SEVERAL = (Plot.STRENGTHS, Plot.SCORES, Plot.WIN_RATES, Plot.LEARNING)  # that show several runs


class Over(StrEnum):
    """Axes of learning curves."""

    STEPS = "steps"
    TIME = "time"


def plot(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... [NAME]",
            help=f"Runs, and the name of the picture: {', '.join(Plot)} (into a folder). Of several runs: "
            f"{', '.join(OF_SEVERAL)}. Default: strengths",
        ),
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
        Over, typer.Option(help="Axis of strengths, scores, win-rates, ends and learning")
    ] = Over.STEPS,
    as_of: AsOfOption = None,
) -> None:
    """Draw one picture of a run or of several runs, or all of them, as SVG or PNG."""
    from storage.errors import Mistake

    runs, name = _runs_and_name(ctx, words)
    if len(runs) > 1 and name not in (*OF_SEVERAL, Plot.ALL):
        raise Mistake(
            f"plot {name}: found {len(runs)} runs, expected one; of several there are {', '.join(OF_SEVERAL)}"
        )
    import analysis
    from analysis import plots
    from analysis.history.history import RATING_POINTS

    out = out or Path("plots" if name is Plot.ALL else f"{name}.svg")
    if name is not Plot.ALL and out.suffix.lower() not in (".svg", ".png"):
        raise Mistake(f"-o {out}: found suffix '{out.suffix}', expected .svg or .png")
    if name is Plot.ALL and out.exists() and not out.is_dir():
        raise Mistake(f"-o {out}: found a file, expected a folder for the pictures")
    if name is not Plot.ALL and out.is_dir():
        raise Mistake(f"-o {out}: found a folder, expected a file")
    with analysis.open_run(*runs) as history:
        then = history if as_of is None else history.as_of(as_of)
        order = functools.cache(then.order)
        curves = functools.cache(then.curves)

        def roles() -> dict[str, str]:
            """Return the role of each player, which has a colour."""
            players = then.players()
            return dict(zip(players["player"], players["role"], strict=True))

        def board() -> Any:
            """Return the leaderboard in order of strength."""
            return then.standing(order())

        def staged() -> tuple[Any, Any]:
            """Return payoff and leaderboard: a live player has a row for each stage of its training."""
            return then.payoff(stages=True), then.standing(order(), stages=True)

        draw = {  # functions: a picture reads no more than it needs
            Plot.STRENGTHS: lambda: plots.strengths(then.strengths(everyone=len(runs) == 1), over.value),
            Plot.SCORES: lambda: plots.scores(curves(), over.value, roles()),
            Plot.WIN_RATES: lambda: plots.win_rates(curves(), over.value),
            Plot.ENDS: lambda: plots.ends(curves(), over.value),
            Plot.LEARNING: lambda: plots.learning(curves(), over.value, roles()),
            Plot.RATINGS: lambda: plots.ratings(then.ratings(points=RATING_POINTS), board()),
            Plot.PAYOFF: lambda: plots.payoff_heatmap(*staged()),
            Plot.CLUSTERS: lambda: plots.payoff_heatmap(*staged(), "nash_cluster"),
            Plot.LINEAGE: lambda: plots.lineage_tree(then.snapshots(), board()),
            Plot.MATCH_MIX: lambda: plots.match_mix(then.match_mix(over_time=True)),
            Plot.EXPLOITABILITY: lambda: plots.exploitability(then.exploitability()),
            Plot.YARDSTICKS: lambda: plots.yardsticks(then.yardsticks()),
            Plot.RESPONSES: lambda: plots.response_graph(*staged()),
            Plot.CYCLIC_PLANE: lambda: plots.cyclic_plane(*staged()),
        }
        every = list(draw) if len(runs) == 1 else list(OF_SEVERAL)
        for each in every if name is Plot.ALL else [name]:
            path = out / f"{each}.svg" if name is Plot.ALL else out
            with working(f"drawing {each} of {', '.join(map(str, runs))}"):
                plots.save(draw[each](), path)
            print(path)


def _runs_and_name(ctx: typer.Context, words: list[str]) -> tuple[list[Path], Plot]:
    """Return the runs and the picture that words of the command line name. Raise BadParameter."""
    from storage.layout import FORMAT

    *runs, last = words
    if last in tuple(Plot):
        name = Plot(last)
    elif not runs or "://" in last or (Path(last) / FORMAT).exists():
        runs, name = words, Plot.STRENGTHS
    else:
        known = ", ".join(repr(str(each)) for each in Plot)
        raise typer.BadParameter(f"{last!r} is not one of {known}", ctx=ctx, param_hint="'NAME'")
    if not runs:
        raise typer.BadParameter("found no run, expected the folder of one", ctx=ctx, param_hint="'RUN'")
    return [run_folder(run) for run in runs], name


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, or addresses of their remotes. Several: a page with all beside each other",
            parser=run_folder,
        ),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="File to write the page to")
    ] = Path("report.html"),
    as_of: AsOfOption = None,
    own_sections: Annotated[
        list[str] | None,
        typer.Option("--section", metavar="MODULE:NAME", help="A section of your own; repeatable"),
    ] = None,
) -> None:
    """Write one self-contained page: what happened, who is best, what went wrong. Or on several runs."""
    import analysis
    from storage.errors import Mistake

    check_page(out)
    if len(runs) > 1 and own_sections:
        raise Mistake(f"report: found --section with {len(runs)} runs, expected one run; leave it out")
    makers = [_own_section(path) for path in own_sections or ()]
    what = f"writing the report of {', '.join(map(str, runs))}"
    with working(what), analysis.open_run(*runs) as history:
        then = history if as_of is None else history.as_of(as_of)
        if len(runs) > 1:
            from analysis.report.comparison import several_page

            page = several_page(then)
        else:
            from analysis.report import report_page

            playback = functools.partial(_playback, runs[0])
            page = report_page(then, own_sections=makers, playback=playback if as_of is None else None)
    write_page(out, page)
    print(f"{out}: {len(page.encode()) / 1e6:.2f} MB, one file that needs no network")


def _playback(run: Path, match_id: int) -> Any:
    """Return the frames of a recorded match, for the report; the code of games is loaded only here."""
    from league.watching.browser.playback import for_report

    return for_report(run, match_id)


def _own_section(path: str) -> Callable[..., Any]:
    """Import a function that makes a section. Raise Mistake if it cannot be imported, or when it fails."""
    from analysis.report.markup import Section
    from league.import_paths import import_callable, running
    from storage.errors import Mistake

    try:
        call = import_callable(path, "a function of a Story")
    except ValueError as error:
        raise Mistake(f"--section {error}") from None

    def make(story: Any) -> Section:
        with running("--section", path, Mistake):
            made = call(story)
            if not isinstance(made, Section):
                raise ValueError(f"returned a {type(made).__name__}, expected what `section` returns")
            return made

    return make


def serve(
    run: RunArgument,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port"),
    ] = 8642,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Others than this machine's own ask for a token and play no matches; "
            "0.0.0.0: all"
        ),
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="LEAGUE_TOKEN", help="Token that a --host asks for; default: a new one"),
    ] = None,
) -> None:
    """Serve the report of a run as a live page, to this machine unless there is a --host. Ctrl-C ends it.

    The command waits for a run that is not there yet.
    """
    from analysis.server import serve as serve_until_interrupted
    from analysis.server.app import checked_token, new_token
    from analysis.server.server import is_loopback, wait_for
    from league.commands.matches import room_of
    from storage.errors import Mistake

    alone = is_loopback(host)
    if alone and token is not None and os.environ.get("LEAGUE_TOKEN") != token:
        raise Mistake("--token: found one without a --host that other machines reach; leave it out")
    chosen = None if alone else new_token() if token is None else checked_token(token)

    def ready(address: str) -> None:
        print(f"{run}: {address} (Ctrl-C ends it)", flush=True)
        if not alone:
            print("Pages need this token; matches can be played without --host alone", flush=True)

    def waiting() -> None:
        print(f"{run}: there is no run yet, waiting for one (Ctrl-C ends it)", flush=True)

    try:
        wait_for(run, waiting)
    except KeyboardInterrupt:  # as it ends a server
        return
    serve_until_interrupted(run, port, ready=ready, room=lambda: room_of(run), host=host, token=chosen)
