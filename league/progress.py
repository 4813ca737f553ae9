"""Progress of what takes long, shown on a terminal and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import TaskID

from storage.progress import Progress


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress]:
    """A bar on standard error for each thing that is told of, until all of them are done.

    Whatever else draws on the terminal may do so between two things.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what, done, total: None
        return
    shown = _Shown(console)
    try:
        yield shown.tell
    finally:
        shown.clear()


class _Shown:
    """The bars now on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def tell(self, what: str, done: int, total: int) -> None:
        if self._bars is None:
            self._bars = Bars(console=self._console, transient=True)
            self._bars.start()
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total)
        self._bars.update(self._tasks[what], completed=done, total=total)
        if self._bars.finished:
            self.clear()

    def clear(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._tasks = None, {}
