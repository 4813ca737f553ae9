"""The command `league`. Exit codes: 0 done, 2 a user's mistake (one message), 1 a failure.

Heavy imports are inside the commands, so that `league --help` is fast.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

# Spinning threads of numpy are hundreds of times slower while other processes train.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported
# Looking for plugins, pydantic reads the entry points of all that is installed: a tenth of `config show`.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer
from rich.console import Console

from league.cluster.head import end_process
from league.commands.configs import config_app
from league.commands.console import (
    AsOfOption,
    JsonOption,
    RunArgument,
    SetOption,
    hard_limits,
    print_rows,
    progress_bars,
    usage,
    working,
)
from league.commands.demo import demo
from league.commands.diagnose import diagnose
from league.commands.envs import envs_app
from league.commands.evaluate import evaluate
from league.commands.exploit import exploit
from league.commands.matches import play, replay
from league.commands.pages import plot, report, serve
from league.commands.rate import rate
from league.commands.ratings import best_of, ratings
from league.commands.runs import branch, du, runs_app, sized
from league.commands.snapshots import export, snapshots_app
from league.commands.sprt import sprt
from league.commands.sweep import sweep
from league.commands.teaching import clone, games
from league.commands.tournaments import compare, tournament
from league.commands.yardstick import yardstick
from league.interrupts import last_words, signals_end, terminated
from league.terminal import ours_alone
from storage.errors import printable

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(config_app, name="config")
app.add_typer(envs_app, name="envs")
app.add_typer(runs_app, name="runs")
app.add_typer(snapshots_app, name="snapshots")

INTERRUPTED = 130  # exit code of a command that Ctrl-C ended
KEPT = ". What was recorded is kept: go on with --resume"
MOST_OF_RAY = 300  # characters of a message of Ray's
GRACE_SECONDS = 5.0  # time for DuckDB to stop by itself
OF_MATCHES = re.compile(r"\b(matches|seats|recordings)\b", re.IGNORECASE)  # they lack what was summed up
SQL_BYTES = 8 * 2**30  # twice DuckDB's own limit for a query


class Format(StrEnum):
    """Formats of printed rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"league {version('checkpoint-league')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # printed by its callback
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit"),
    ] = False,
) -> None:
    """Train, evaluate and analyse leagues of game-playing policies."""


@app.command()
def train(
    config: Annotated[
        Path,
        typer.Argument(
            help="A YAML file, such as configs/connect_four.yaml, or the id of a game, such as tic_tac_toe; "
            "to --resume, also a run folder"
        ),
    ],
    run: Annotated[Path | None, typer.Option(help="Run folder; default runs/<name>")] = None,
    set_: SetOption = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped or killed")
    ] = False,
) -> None:
    """Train a league. Ctrl-C once stops cleanly, with everything saved."""
    from league.config.loading import is_game, load
    from storage.errors import Mistake
    from storage.layout import require_new

    if ":/" in str(config):  # a path has one slash of an address
        address = str(config).replace(":/", "://", 1)
        raise Mistake(
            f"train: found the address {address}, expected a config or a run folder here; to go on from what "
            f"is there: league branch {address} NEW, then league train NEW --resume"
        )
    if resume and config.is_dir():
        from league.training.resume import newest_settings

        settings, folder = newest_settings(config, set_ or ()), run or config
    else:
        settings = load(config, set_ or ())
        folder = run or Path("runs") / settings.name
        if not resume and is_game(config):
            require_new(folder)  # a mistake is answered before anything is said
            print(
                f"{settings.env.id} with settings for untuned games, all of them in {folder}/config.yaml. "
                "Next: --set stop.minutes=10, runners=auto, learner.lr=3e-4, policy.hidden=[512,512], ... "
                "(league config reference), or a config of your own",
                flush=True,
            )
    # here, as they import torch: a mistake in the settings is answered before
    from league.training.loop import train as run_loop
    from league.training.view import LiveView, PlainView, View
    from storage.ends import End

    console = Console()

    def view() -> View:
        return LiveView(console) if console.is_terminal else PlainView(console, settings.log.seconds)

    sudden = (
        f"league: the process that trained {folder} ended suddenly: it was killed, memory ran out, or the "
        "head node of its Ray cluster was lost. What was recorded is kept: go on with --resume"
    )
    ends: list[End] = []
    if settings.most_runners:  # seconds pass before the first line of the view
        print(
            f"Starting Ray with {settings.least_runners + settings.evaluation.runners} processes that play",
            flush=True,
        )
    with last_words(printable(sudden)), progress_bars() as progress:
        run_loop(settings, folder, resume=resume, make_view=view, progress=progress, on_end=ends.append)
    (end,) = ends
    if end.state == "trained":
        with working(f"rating the competitors of {folder}"):
            best = best_of(folder)
        console.print(best, highlight=False, soft_wrap=True, markup=False)
        line = (
            f"Trained: {folder}. Next: league ratings {folder}; as a page: league report {folder}, or live: "
            f"league serve {folder}"
        )
    else:
        line = f"{end.sentence()}: {folder}. Next: league train {folder} --resume"
    console.print(line, highlight=False, soft_wrap=True, markup=False)
    if end.state == "untrained":
        raise typer.Exit(2)
    if end.state != "trained" and (end.of_seconds or end.of_env_steps or terminated()):
        raise typer.Exit(INTERRUPTED)


@app.command()
def sql(
    run: RunArgument,
    statement: Annotated[
        str, typer.Argument(metavar="SQL", help="A statement, such as SELECT * FROM leaderboard; or @name")
    ] = "",
    format_: Annotated[Format, typer.Option("--format", help="Format of the printed rows")] = Format.TABLE,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of rows")] = 1_000_000,
    timeout: Annotated[float, typer.Option(min=0.001, max=1e7, help="Time limit in seconds")] = 60.0,
    as_of: AsOfOption = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Copy all tables and views into this DuckDB file; then SQL may be left out"
        ),
    ] = None,
) -> None:
    """Query the run's history in SQL, also while it trains; `@` lists the named queries."""
    from analysis.history.named_queries import answers, expand, frame_of
    from storage import query
    from storage.errors import Mistake

    if statement.strip() == "@":
        known = [(f"@{name}", what) for name, what in answers().items()]
        print_rows(("query", "answers"), known, format_ is Format.JSON)
        return
    if save is not None:
        from storage.tables import database_file

        database_file.require_replaceable(save)
        with progress_bars() as progress:
            database_file.save(run, save, as_of=as_of, progress=progress)
        print(f"{save}: all tables of {run}, {sized(save.stat().st_size)}", file=sys.stderr)
        if not statement:
            return
    if frame_of(statement):
        import pyarrow as pa

        import analysis

        with working(f"asking {run}"), analysis.open_run(run) as history:
            then = history if as_of is None else history.as_of(as_of)
            _print_rows(pa.Table.from_pandas(then.sql(statement), preserve_index=False), format_)
        return
    statement = expand(statement)
    if not statement.strip(" \t\r\n;"):
        raise Mistake("sql: found no statement, expected one such as: SELECT * FROM leaderboard")
    with working(f"asking {run}"), hard_limits(timeout + GRACE_SECONDS, SQL_BYTES):
        rows = query(run, statement, timeout_seconds=timeout, max_rows=limit + 1, as_of=as_of)
    if len(rows) > limit:
        rows = rows.slice(0, limit)
        print(f"league: only the first {limit:,} rows are shown; --limit shows more", file=sys.stderr)
    _say_what_is_summed(run, statement)
    _print_rows(rows, format_)


def _print_rows(rows: Any, format_: Format) -> None:
    from storage.errors import Mistake

    if format_ is Format.TABLE:
        print_rows(rows.column_names, [tuple(row.values()) for row in rows.to_pylist()], as_json=False)
    elif format_ is Format.JSON:
        print(json.dumps(rows.to_pylist(), default=str))
    elif format_ is Format.CSV:
        sys.stdout.write(rows.to_pandas().to_csv(index=False))
    else:
        import pyarrow.parquet

        if sys.stdout.isatty():
            raise Mistake(
                "--format parquet: standard output is a terminal, expected a file: add > rows.parquet"
            )
        pyarrow.parquet.write_table(rows, sys.stdout.buffer)


def _say_what_is_summed(run: Path, statement: str) -> None:
    """Print which matches are sums if the statement reads tables that lack them."""
    if not OF_MATCHES.search(statement):
        return
    from storage.retention.retention import what_is_summed

    if said := what_is_summed(run):
        print(f"league: {said}; ask the views played and seated for all matches", file=sys.stderr)


@app.command()
def rules(
    run: RunArgument,
    preset: Annotated[str, typer.Option(help="Preset to compare with, such as alphastar_pseudocode")],
    every: Annotated[
        int, typer.Option(min=1, help="Number of batches of results between two decisions of the preset")
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """Show what another preset would have drawn and decided in this run, without training.

    All matches are folded again, one by one: at about 8 us each, 100 million take 13 minutes.
    """
    from league.training.counterfactual import replay

    with working(f"drawing the matches of {run} by other rules"):
        found = replay(run, preset, every=every)
    if as_json:
        tables = ("draws", "opponents", "decisions")
        fields: dict[str, Any] = {"recorded": found.recorded, "preset": found.preset}
        fields["left_out"] = list(found.left_out)
        print(json.dumps(fields | {name: [r._asdict() for r in getattr(found, name)] for name in tables}))
        return
    print(f"{run}: recorded by preset {found.recorded}, beside what {found.preset} would have drawn")
    if found.left_out:
        print(f"left out, as {found.preset} has no rules for these roles: {', '.join(found.left_out)}")
    print_rows(found.draws[0]._fields if found.draws else (), found.draws, as_json=False)
    print_rows(found.opponents[0]._fields if found.opponents else (), found.opponents[:40], as_json=False)
    header = ("source", "seconds", "env_steps", "kind", "player", "player_env_steps", "snapshot", "reason")
    print_rows(header, [row[:8] for row in found.decisions], as_json=False)


for _command in (
    *(demo, ratings, rate, du, sweep, branch, export, replay, play, games, clone, tournament),
    *(compare, sprt, evaluate, exploit, yardstick, diagnose, plot, report, serve),
):
    app.command()(_command)


def main() -> None:
    """Run the command line and exit; a user's mistake becomes one message on stderr and exit code 2."""
    atexit.register(gc.freeze)  # Python's own collections at exit would take a tenth of a second
    try:
        with ours_alone(), signals_end():
            code = _run()
    except KeyboardInterrupt:  # during imports; within commands typer handles it
        code = INTERRUPTED
    if code in (1, INTERRUPTED):
        code = terminated() or code
    end_process(code)  # behind the except clause: frames of a pending traceback keep libraries from closing


def _run() -> int:
    """Run the command line and return the exit code."""
    from league.cluster.cards import failure_of
    from storage.errors import Failure, Mistake

    with contextlib.suppress(FileNotFoundError):  # a deleted folder contains no games
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # so that module:Class finds the user's games, as with python -m
    try:
        code = app(standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (Mistake, Failure) as error:
        print(f"league: {_sentence(error)}{_kept(error)}", file=sys.stderr)
        return 2 if isinstance(error, Mistake) else 1
    except Exception as error:  # DuckDB turns Ctrl-C into errors of its own
        if hasattr(error, "format_message"):  # of the parser of the command line
            print(usage(error), file=sys.stderr)
            return 2
        if "Query interrupted" in str(error) or "KeyboardInterrupt" in str(error):
            return INTERRUPTED
        failure = failure_of(error)  # of a card that nothing else has named
        if failure is not None:
            print(f"league: {_sentence(failure)}{_kept(failure)}", file=sys.stderr)
            return 1
        if not type(error).__module__.startswith("ray.") or hasattr(error, "cause"):  # of code that it called
            raise
        said = f"Ray has failed: {_sentence(error)[:MOST_OF_RAY]}"
        print(f"league: {said}{KEPT}", file=sys.stderr)
        return 1


def _kept(error: Exception) -> str:
    """Return how to go on after a failure of a GPU; nothing for other errors and commands."""
    from league.cluster.cards import CardBroken, CardFull

    resumes = sys.argv[1:2] in (["train"], ["tournament"])
    return KEPT if resumes and isinstance(error, CardBroken | CardFull) else ""


def _sentence(error: Exception) -> str:
    """Return the message on one line, without control characters.

    An error of Ray has the type of its cause, but its message is a traceback.
    """
    return printable(" ".join(str(getattr(error, "cause", error)).split()))


if __name__ == "__main__":
    main()
