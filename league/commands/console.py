"""Parts that the commands share: arguments, options, tables and progress bars on a console."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import TaskID
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from storage.disk import Progress
from storage.errors import printable
from storage.suggestions import or_near

MOST_CAUSES = 5  # of forfeits, that are printed
SOON_SECONDS = 0.5  # a task that ends within this time gets no bar
PIPED_SECONDS, PIPED_EVERY_SECONDS = 2.0, 10.0  # of lines in place of bars, without a terminal
LONG_SECONDS = 2.0  # from which on work in one piece is shown


def run_folder(text: str) -> Path:
    """Return the folder of a run; for an address of an object store, an up-to-date local copy."""
    if "://" not in text:  # and nothing has to be imported
        return Path(text)
    from storage import run_folder as mirrored

    with progress_bars() as progress:
        return mirrored(text, progress)


def named_anchors(texts: list[str] | None) -> dict[str, dict[str, float]] | None:
    """Return the ratings of --anchor by name, as settings have them. Raise Mistake."""
    from analysis.statistics.hierarchy.anchors import parse_anchor
    from storage.errors import Mistake

    found: dict[str, dict[str, float]] = {}
    for name, anchor in map(parse_anchor, texts or ()):
        if name in found:
            raise Mistake(f"--anchor: found '{name}' twice, expected each once")
        found[name] = {"elo": anchor.elo, "error": anchor.error}
    return found or None


def _admitted(paths: list[str] | None) -> list[str] | None:
    """Allow this process to import the code that --trust names."""
    from league.import_paths import trust

    trust(*(paths or ()))
    return paths


RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run folder, or the address of its remote", parser=run_folder),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print machine-readable output")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Override a setting; may be repeated")
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="A network or connector of your own that snapshots may be built from",
        callback=_admitted,
    ),
]
PlayerOption = Annotated[
    str | None, typer.Option(help="Measure a curve: all snapshots of this player, instead of ID")
]
EveryOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="K", help="Measure a curve: every K-th snapshot, of all mains or of --player"
    ),
]
GateOption = Annotated[
    list[str] | None,
    typer.Option(
        "--gate", help='Condition on the result, such as "elo > 20 against main-0@0"; exit code 1 if it fails'
    ),
]
ExportOption = Annotated[
    Path | None,
    typer.Option("--export", metavar="FILE", help="Write the table to a .csv, .parquet or .json file"),
]
AnchorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--anchor",
        metavar="NAME[=ELO[+-ERROR]]",
        help="Competitor whose rating is given (0 without ELO), fixed or with an error; may be repeated; "
        "default: the mean of all ratings is 0",
    ),
]


def _past(moment: str | None) -> str | None:
    """Return the moment of --as-of. Raise Mistake for a time that is yet to come: a slip of the year."""
    if moment is not None:
        from storage.errors import Mistake
        from storage.tables.moments import parse_moment

        wanted = parse_moment(moment)
        if isinstance(wanted, float) and wanted > time.time():
            raise Mistake(f"--as-of {moment}: found a time to come, expected one of the run's past")
    return moment


AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="STEP|TIME",
        help="The run at an earlier moment: env steps of the league, or a time (UTC); default: now",
        callback=_past,
    ),
]


class RunGroup(TyperGroup):
    """Commands on runs, which may come before the command: `snapshots RUN show ID`. Without one, `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments with the command first."""
        return super().parse_args(ctx, self.command_first(args))

    def command_first(self, args: list[str]) -> list[str]:
        """Return `args` with the command first. A folder of a command's name is a run."""
        first, second = (*args, "", "")[:2]
        if first in ("-h", "--help") or (first in self.commands and not Path(first).exists()):
            return args
        if first[:1] not in ("", "-") and second[:1] not in ("", "-"):
            return [second, first, *args[2:]]
        return ["list", *args]


def print_rows(header: Sequence[str], rows: Sequence[tuple[Any, ...]], as_json: bool) -> None:
    """Print rows as a table, or as a JSON list of objects."""
    if as_json:
        print(json.dumps([dict(zip(header, row, strict=True)) for row in rows], default=str))
        return
    table = Table(*header)
    for row in rows:
        cells = ("" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row)
        plain = ("\n".join(map(printable, cell.split("\n"))) for cell in cells)
        table.add_row(*map(Text, plain))  # plain text: a name may contain what looks like markup
    width = None if sys.stdout.isatty() else 240
    Console(width=width).print(table)


def forfeits(failures: Mapping[str, int]) -> list[str]:
    """Return a line for each of the most frequent causes of `failures`, which are counted by cause."""
    ordered = sorted(failures.items(), key=lambda item: -item[1])
    lines = [printable(f"{count:,} forfeits: {cause}") for cause, count in ordered[:MOST_CAUSES]]
    if rest := ordered[MOST_CAUSES:]:
        lines.append(f"{sum(count for _, count in rest):,} forfeits by {len(rest):,} other causes")
    return lines


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress]:
    """Show a bar on standard error for each task that takes over SOON_SECONDS, until all of them are done.

    Without a terminal it is a line for each task that takes over PIPED_SECONDS, and another one every
    PIPED_EVERY_SECONDS. Other output may be drawn between two tasks.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        due: dict[str, float] = {}

        def show(what: str, done: int, total: int) -> None:
            """Print that `done` of `total` parts of the task `what` are done, if it is time."""
            now = time.monotonic()
            if now >= due.setdefault(what, now + PIPED_SECONDS):
                due[what] = now + PIPED_EVERY_SECONDS
                print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)

        yield show
        return
    bars = _TaskBars(console)
    try:
        yield bars.show
    finally:
        bars.clear()


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show on standard error that `what` is under way, if the block takes over LONG_SECONDS.

    On a terminal it is gone when the block is left. Elsewhere it is a line, and another one every
    PIPED_EVERY_SECONDS. The block prints nothing itself. For what is done in one piece: of work in parts,
    `progress_bars` shows how much is done.
    """
    console, done, began = Console(stderr=True), threading.Event(), time.monotonic()

    def watch() -> None:
        wait = LONG_SECONDS
        while not done.wait(wait):
            seconds, wait = time.monotonic() - began, PIPED_EVERY_SECONDS
            if console.is_terminal:
                with console.status(Text(f"{what}...")):
                    done.wait()
            else:
                print(f"{what}: {seconds:.0f} s so far", file=sys.stderr, flush=True)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextlib.contextmanager
def hard_limits(seconds: float, max_bytes: int) -> Iterator[None]:
    """End this process with exit code 2 if the block takes longer, or more memory.

    DuckDB checks its own limits only between two blocks of rows, and a single value may be gigantic.
    """
    import psutil  # which no other command needs

    done, process = threading.Event(), psutil.Process()

    def watch() -> None:
        end = time.monotonic() + seconds
        while not done.wait(0.1):
            if time.monotonic() > end or process.memory_info().rss > max_bytes:
                limits = f"{seconds:g} seconds or {max_bytes >> 30} GiB"
                print(f"league: sql: the statement took more than {limits}; ask for less", file=sys.stderr)
                sys.stderr.flush()
                os._exit(2)

    threading.Thread(target=watch, name="hard limits", daemon=True).start()
    try:
        yield
    finally:
        done.set()


class _TaskBars:
    """Progress bars of the tasks that are running now."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._begun: dict[str, float] = {}

    def show(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` parts of the task `what` are done."""
        begun = self._begun.setdefault(what, time.monotonic())
        if what not in self._tasks and (done >= total or time.monotonic() - begun < SOON_SECONDS):
            return
        if self._bars is None:
            self._bars = Bars(console=self._console, transient=True)
            self._bars.start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)
        if self._bars.finished:
            self.clear()

    def clear(self) -> None:
        """Remove all bars."""
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._tasks, self._begun = None, {}, {}


def check_page(out: Path) -> None:
    """Raise Mistake unless a page can be written to the file `out`."""
    from storage.errors import Mistake

    if out.is_dir() or not out.parent.is_dir():
        found = "a folder" if out.is_dir() else "no such folder"
        raise Mistake(f"-o {out}: found {found}, expected a file in a folder that exists")


def write_page(out: Path, page: str) -> None:
    """Write a page to the file `out`, whole or not at all. Raise Mistake if it cannot be written."""
    from storage.errors import Mistake

    new = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        new.write_text(page, encoding="utf-8")
        new.replace(out)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Mistake(f"-o {out}: cannot be written ({error.strerror}); choose another file") from None


def usage(error: Any) -> str:
    """Return the message of an error of the command line: one line as all mistakes have, or the help."""
    from league.mistakes import PREFIX

    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.format_message())
    path = getattr(getattr(error, "ctx", None), "command_path", "league")
    message = " ".join(str(error.format_message()).replace(PREFIX, "").split()).rstrip(".")
    choices = re.search(r"'([^']*)' is not one of ('.*')$", message)
    if choices is not None:
        known = re.findall(r"'([^']*)'", choices[2])
        message += or_near(choices[1], known)
    where = path.removeprefix("league").strip()
    return f"league: {where}{': ' if where else ''}{printable(message)} (see {path} --help)"
