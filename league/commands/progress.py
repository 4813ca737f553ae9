"""Progress of what takes long, shown on a terminal and nowhere else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress as Bars
from rich.progress import TaskID

from storage.disk import Progress

SOON_SECONDS = 0.5  # what is done by then needs no bar


@contextlib.contextmanager
def progress_bars() -> Iterator[Progress]:
    """A bar on standard error for each thing that takes over SOON_SECONDS, until all of them are done.

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
        self._begun: dict[str, float] = {}

    def tell(self, what: str, done: int, total: int) -> None:
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
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._tasks, self._begun = None, {}, {}
