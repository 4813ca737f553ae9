"""Answers: how long a runner may keep the driver waiting, from what its requests took before.

A process that is stopped, a game with an endless loop and a node that is cut off look alike from the driver:
no answer comes. What takes long is known by what it took before, of the same kind and of its size:

    auto        TIMES the longest request of its kind so far, scaled to its number of matches, and at least
                LEAST_SECONDS; FIRST_SECONDS before the first answer
    a number    the number, but at least LEAST_TIMES the longest such request
    a start     START_TIMES the longest start of the group; START_SECONDS before any runner has begun. A start
                counts only once it has a process: one that waits for a node may wait for ever

Seconds count as they pass between two looks, and a look that comes late counts as a short one: where the
driver itself was stopped, no runner hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Literal

LEAST_SECONDS, TIMES, LEAST_TIMES = 30.0, 10.0, 2.0
FIRST_SECONDS = 120.0
START_SECONDS, START_TIMES = 600.0, 2.0
LOOK_SECONDS, MOST_SECONDS = 1.0, 2.0  # between two looks, and those that count of a longer time
FADING = 0.95  # of the longest, with each further request


class Times:
    """What requests took, by kind and by size, and how long the next one may take."""

    def __init__(self, setting: float | Literal["auto"]) -> None:
        """Know nothing yet. `setting`: `resources.patience_seconds`."""
        self._setting = setting
        self._longest: dict[Hashable, dict[int, float]] = {}  # seconds, by kind and by bits of the size

    def note(self, kind: Hashable, size: int, seconds: float) -> None:
        """Note that a request of `size` matches took so many seconds."""
        own, bits = self._longest.setdefault(kind, {}), size.bit_length()
        own[bits] = max(seconds, FADING * own.get(bits, 0.0))

    def knows(self, kind: Hashable) -> bool:
        """Return whether a request of this kind has been answered."""
        return kind in self._longest

    def patience(self, kind: Hashable, size: int) -> float:
        """Return the seconds after which a request of `size` matches is given up."""
        if not self.knows(kind):
            return self.first
        expected = self._expected(self._longest[kind], size.bit_length())
        if self._setting == "auto":
            return max(LEAST_SECONDS, TIMES * expected)
        return max(self._setting, LEAST_TIMES * expected)

    @property
    def first(self) -> float:
        """Seconds for a request of a kind of which none has been answered."""
        return FIRST_SECONDS if self._setting == "auto" else self._setting

    @staticmethod
    def _expected(longest: dict[int, float], bits: int) -> float:
        """Return the seconds that a request of a size with so many bits takes at most, as far as is known.

        A smaller one never takes longer. A larger one than any before takes as much longer as it is larger.
        """
        smaller = [known for known in longest if known <= bits]
        if not smaller:
            return longest[min(longest)]
        return max(longest[max(smaller)] * 2.0 ** (bits - max(smaller)), *(longest[each] for each in smaller))


class Watch:
    """Runners that have not answered, and since when; each has a number."""

    def __init__(
        self,
        setting: float | Literal["auto"],
        has_place: Callable[[int], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`has_place` returns whether a runner that has not begun has a process."""
        self.slack: dict[int, float] = {}  # by which some runners get more time
        self._setting, self._has_place, self._clock = setting, has_place, clock
        self._looked = clock()
        self._all = Times(setting)
        self._times: dict[int, Times] = {}
        # by runner: number, kind, size and time of each request that waits for its answer, in order
        self._waiting: dict[int, dict[int, tuple[Hashable, int, float]]] = {}
        self._silent: dict[int, float] = {}  # seconds without an answer that is waited for
        self._began: dict[int, float] = {}  # or answered, last
        self._starting: dict[int, float] = {}  # seconds
        self._placed: set[int] = set()  # of those that start
        self._started: dict[int, float] = {}
        self._longest_start = 0.0

    # ------------------------------------------------------------------ what happens

    def starts(self, runner: int) -> None:
        """Note that a runner has been asked for."""
        self.forget(runner)
        self._starting[runner], self._started[runner] = 0.0, self._clock()

    def begun(self, runner: int) -> None:
        """Note that a runner has begun: it works at its requests, if it has any."""
        self._starting.pop(runner, None)
        self._placed.discard(runner)
        self._began[runner] = now = self._clock()
        self._silent[runner] = 0.0
        took = min(START_SECONDS, now - self._started.get(runner, now))  # it may have waited for a node
        self._longest_start = max(self._longest_start, took)

    def forget(self, runner: int) -> None:
        """Forget a runner that ends, and what its requests took: the next one may be elsewhere."""
        for own in (self._times, self._waiting, self._silent, self._began, self._starting):
            own.pop(runner, None)
        self._placed.discard(runner)

    def asked(self, runner: int, number: int, kind: Hashable, size: int) -> None:
        """Note a request to a runner, with its number."""
        waiting = self._waiting.setdefault(runner, {})
        if not waiting:
            self._silent[runner] = 0.0
        waiting[number] = kind, size, self._clock()

    def answered(self, runner: int, number: int, *, counts: bool = True) -> None:
        """Note that a request is under way no more; `counts`: it was played, so its time is measured."""
        found = self._waiting.get(runner, {}).pop(number, None)
        if found is None:
            return
        kind, size, asked = found
        now = self._clock()
        if counts:
            seconds = now - max(asked, self._began.get(runner, now))
            for times in (self._all, self._times.setdefault(runner, Times(self._setting))):
                times.note(kind, size, seconds)
        self._began[runner], self._silent[runner] = now, 0.0

    # ------------------------------------------------------------------ what is overdue

    def starting_for(self, runner: int) -> float:
        """Return for how many seconds a runner has been starting; infinity: it is not."""
        return self._starting.get(runner, float("inf"))

    def overdue(self) -> list[tuple[int, float]]:
        """Return the runners that are to be given up, each with its seconds without an answer.

        To be called in each turn of the driver.
        """
        now = self._clock()
        passed = now - self._looked
        if passed < LOOK_SECONDS:
            return []
        self._looked, passed = now, min(passed, MOST_SECONDS)
        found = []
        for runner, waiting in self._waiting.items():
            if not waiting or runner not in self._began:
                continue
            self._silent[runner] += passed
            if self._silent[runner] > self._patience(runner):
                found.append((runner, self._silent[runner]))
        for runner in self._starting:
            self._starting[runner] += passed
            if self._starting[runner] <= self._patience_of_start():
                continue
            if runner in self._placed:
                found.append((runner, self._starting[runner]))
            else:
                self._starting[runner] = 0.0
                if self._has_place(runner):
                    self._placed.add(runner)
        return found

    def _patience(self, runner: int) -> float:
        """Return the seconds for the request that a runner is at; a new runner gets those of a first one."""
        kind, size, _ = next(iter(self._waiting[runner].values()))
        own = self._times.get(runner)
        if own is not None and own.knows(kind):
            patience = own.patience(kind, size)
        else:
            patience = max(self._all.first, self._all.patience(kind, size))
        return patience * self.slack.get(runner, 1.0)

    def _patience_of_start(self) -> float:
        if not self._longest_start:
            return START_SECONDS
        return max(FIRST_SECONDS, START_TIMES * self._longest_start)
