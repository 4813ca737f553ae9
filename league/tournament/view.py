"""Display of a tournament's progress: a bar on a terminal, else one line per interval."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from league.tournament.loop import Standing


class TournamentView:
    """Display of the progress of a tournament on `console`."""

    def __init__(self, console: Console, every_seconds: float) -> None:
        self._console, self._every = console, every_seconds
        self._began = self._shown = time.monotonic()
        self._last: Standing | None = None
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("pairs"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("pairs", total=None, rate="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._last is not None and self._last.games > self._last.resumed_games:
            self._line(self._last)

    def show(self, standing: Standing) -> None:
        """Show the progress if it has changed; call it often."""
        if standing == self._last and self._bar is None:
            return
        if self._last is None:  # games of earlier sessions do not count for the rate
            self._began = time.monotonic()
        self._last = standing
        if self._bar is not None:
            rate = f"{self._rate(standing):,.0f} games/s"
            self._bar.update(self._task, total=standing.total_pairs, completed=standing.pairs, rate=rate)
        elif time.monotonic() - self._shown >= self._every:
            self._line(standing)

    def tell(self, sentence: str) -> None:
        """Print a sentence."""
        self._console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def _rate(self, standing: Standing) -> float:
        """Return the games per second of this session."""
        return (standing.games - standing.resumed_games) / max(time.monotonic() - self._began, 1e-9)

    def _line(self, standing: Standing) -> None:
        self._shown = time.monotonic()
        rate = self._rate(standing)
        left = ""
        if rate > 0 and standing.pairs:
            games = (standing.total_pairs - standing.pairs) * standing.games / standing.pairs
            left = f"  {_clock(games / rate)} left"
        self._console.print(
            f"{standing.pairs:,} of {standing.total_pairs:,} pairs  {standing.games:,} games  "
            f"{rate:,.0f} games/s{left}",
            highlight=False,
            soft_wrap=True,
        )


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
