"""Keeps a run's page drawn: looks for news, and draws what has changed, in a thread of its own.

Drawing reads the run's ledger, which disturbs nobody. It takes its time on a large run, so it is done no more
often than a quarter of the time, and not at all while nobody looks.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from analysis.history.history import History
from analysis.report.makers import sections_of
from analysis.report.page import as_of, page
from analysis.report.story import Story
from analysis.report.writing.markup import element
from analysis.report.writing.resources import resource
from analysis.report.writing.section import Section

EVERY_SECONDS = 1.0  # between two looks for news
NOBODY_SECONDS = 30.0  # after the last question nobody looks any more
_PATIENCE = 3.0  # pauses between two drawings are at least so many times as long as a drawing
_NEWS = """
SELECT
    (SELECT max(seq) FROM matches), (SELECT count(*) FROM snapshots), (SELECT count(*) FROM decisions),
    (SELECT count(*) FROM updates), (SELECT count(*) FROM players), (SELECT count(*) FROM runs)
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A section as it was drawn last."""

    section: Section
    mark: str  # another one: it reads differently


@dataclass(frozen=True, slots=True)
class Drawn:
    """The page at one moment."""

    number: int = 0  # grows with each drawing
    page: str = ""
    parts: dict[str, Part] = field(default_factory=dict)
    as_of: str = ""  # the last fact in it
    trouble: str = ""  # why there is nothing newer


class Watch:
    """The newest drawing of a run. `begin` draws the first; from then on a thread sees to it."""

    def __init__(self, run: str | Path, *, every_seconds: float = EVERY_SECONDS) -> None:
        self.run = run
        self.drawn = Drawn()
        self._every = every_seconds
        self._asked = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="drawing of the page", daemon=True)
        self._ready = threading.Event()
        self._failed: BaseException | None = None

    def begin(self) -> None:
        """Draw the page for the first time. Raises what the run raises: NotARun, CorruptLedger."""
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def touch(self) -> None:
        """Somebody looks."""
        self._asked = time.monotonic()

    def _follow(self) -> None:
        """All that is asked of the run is asked in this thread: a History is for one."""
        history: History | None = None
        try:
            history = History(self.run)
            news, pause = _news(history), self._draw(history)
        except BaseException as error:
            self._failed = error
            return
        finally:
            self._ready.set()
        while not self._stop.wait(pause):
            pause = self._every
            if time.monotonic() - self._asked > NOBODY_SECONDS:
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
                # Such as a run that is being replaced: what was drawn stays, the page says why nothing newer
                # comes, and the next look may succeed.
                if history is not None:
                    history.close()
                history = None
                trouble = " ".join(str(error).split()) or type(error).__name__
                if trouble != self.drawn.trouble:
                    self.drawn = replace(self.drawn, number=self.drawn.number + 1, trouble=trouble)
        if history is not None:
            history.close()

    def _draw(self, history: History) -> float:
        """Draw all sections; returns the seconds to the next look."""
        began = time.monotonic()
        story = Story(history)
        shown = sections_of(story)
        number = self.drawn.number + 1
        script = resource("live.js", "analysis.server")
        mark = element("span", id="drawn", data_number=number, hidden=True)
        whole = page(story, shown, data=[mark], scripts=[script], connect="'self'")
        self.drawn = Drawn(
            number, whole, {part.id: Part(part, _mark(part.html)) for part in shown}, as_of(story)
        )
        return max(self._every, _PATIENCE * (time.monotonic() - began))


def _news(history: History) -> tuple[object, ...]:
    """Other than before: the run has recorded something."""
    (row,) = history.sql(_NEWS).astype(object).itertuples(index=False, name=None)
    return tuple(None if value != value else value for value in row)


def _mark(html: str) -> str:
    return hashlib.blake2b(html.encode(), digest_size=8).hexdigest()
