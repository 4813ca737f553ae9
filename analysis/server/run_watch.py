"""Watch: checks a run for new facts and redraws its page, in a thread of its own.

Drawing only reads the run's ledger. It is slow for a large run, so it takes at most a quarter of the time,
and stops while no page is open.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import pandas as pd

from analysis.history.history import History
from analysis.report.markup import Html, Section
from analysis.report.page import LivePage, as_of, document, each_section, page
from analysis.report.story import Story, state_now

EVERY_SECONDS = 1.0  # between two checks for new facts
IDLE_SECONDS = 30.0  # after the last request: no page is open any more
_PATIENCE = 3.0  # least length of a pause between two drawings, in lengths of a drawing
MANY_MATCHES = 1_000_000  # of a run whose page takes more than two seconds to draw
_NEWS = """
SELECT
    (SELECT max(seq) FROM played), (SELECT count(*) FROM snapshots), (SELECT count(*) FROM decisions),
    (SELECT count(*) FROM updates), (SELECT count(*) FROM players), (SELECT count(*) FROM runs),
    (SELECT count(*) FROM yardsticks), (SELECT count(*) FROM ends)
"""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The page at one moment."""

    number: int = 0  # increases with each drawing
    page: str = ""
    parts: dict[str, Section] = field(default_factory=dict)  # by id
    as_of: str = ""  # text with the time of the last fact in it
    ended: bool = False  # whether nothing more is recorded, unless the run goes on
    trouble: str = ""  # reason why there is no newer drawing


class RunWatch:
    """Newest drawing of a run, by a thread that keeps it up to date; `begin` starts it."""

    def __init__(
        self,
        run: str | Path,
        *,
        every_seconds: float = EVERY_SECONDS,
        plays: bool = False,
        patience: float = math.inf,
    ) -> None:
        """`plays`: whether the page links to matches that can be played, once it is drawn.

        `patience`: seconds that `begin` waits for the first drawing; until then a page says that it is made.
        """
        self.run = run
        self._plays, self._patience = plays, patience
        name = PurePath(run).name
        reading = Html('Reading the run: its page is here in some seconds<span id="as-of"></span>')
        self.drawn = Drawn(
            page=document(f"{name}: league report", name, reading, [], LivePage(0, plays=False, ended=False))
        )
        self._verdicts: dict[str, str] = {}
        self._every = every_seconds
        self._touched = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="drawing of the page", daemon=True)
        self._ready = threading.Event()
        self._failed: BaseException | None = None

    def begin(self) -> None:
        """Start to draw the page and to follow the run. Raise NotARun or CorruptLedger."""
        self._thread.start()
        self._ready.wait(min(self._patience, threading.TIMEOUT_MAX))
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()

    def touch(self) -> None:
        """Record that a page is open."""
        self._touched = time.monotonic()

    def _follow(self) -> None:
        """Follow the run. Only this thread reads the run: a History belongs to one thread."""
        history: History | None = None
        try:
            history = History(self.run)
            news = _news(history)
            pause = self._draw(history, summary_first=(news[0] or 0) > MANY_MATCHES)
        except BaseException as error:
            self._failed = error
            self._trouble(error)
            return
        finally:
            self._ready.set()
        while not self._stop.wait(pause):
            pause = self._every
            if time.monotonic() - self._touched > IDLE_SECONDS:
                continue
            try:
                if history is None:
                    history = History(self.run)
                latest = _news(history)
                if latest == news and not self.drawn.trouble:
                    continue
                pause = self._draw(history)
                news = latest
            except Exception as error:
                # For example, a run is being replaced: the drawing stays, the page shows the reason, and the
                # next check may succeed.
                if history is not None:
                    history.close()
                history = None
                self._trouble(error)
        if history is not None:
            history.close()

    def _trouble(self, error: BaseException) -> None:
        """Let the page say why there is no newer drawing."""
        trouble = " ".join(str(error).split()) or type(error).__name__
        if trouble != self.drawn.trouble:
            self.drawn = replace(self.drawn, number=self.drawn.number + 1, trouble=trouble)

    def _draw(self, history: History, *, summary_first: bool = False) -> float:
        """Draw all sections, and return the seconds until the next check.

        `summary_first`: a page that waits for its first drawing opens with the summary; it loads itself again
        when the rest is drawn, which takes twice as long.
        """
        began = time.monotonic()
        story = Story(history, self._verdicts)
        shown = []
        for part in each_section(story):
            shown.append(part)
            if summary_first and len(shown) == 1:
                self._show(story, shown)
        self._show(story, shown)
        self._verdicts = story.verdicts
        return max(self._every, _PATIENCE * (time.monotonic() - began))

    def _show(self, story: Story, shown: list[Section]) -> None:
        """Let the page have these sections."""
        number = self.drawn.number + 1
        ended = story.state is not None and story.state.kind not in ("running", "killed")
        whole = page(story, shown, LivePage(number, self._plays, ended))
        self.drawn = Drawn(number, whole, {part.id: part for part in shown}, as_of(story), ended)


def _news(history: History) -> tuple[Any, ...]:
    """Return the last match's number, counts that change whenever the run records a new fact, and its state.

    A run that is killed records nothing, but its state changes.
    """
    (row,) = history.sql(_NEWS).astype(object).itertuples(index=False, name=None)
    return (*(None if pd.isna(value) else value for value in row), state_now(history))
