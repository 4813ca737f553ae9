"""Answers: for how long a process may keep the driver waiting, from what its work took before.

A process that is stopped, a game with an endless loop and a node that is cut off look alike from the driver:
no answer comes. A thread of the process that answers pings would prove nothing: such a loop lets it run. What
takes long is known by what it took before, of the same kind and of its size:

    auto        TIMES the longest of its kind so far, scaled to the number of matches of a request, and at
                least LEAST_SECONDS; FIRST_SECONDS before the first answer to a request of a runner
    a number    the number, but at least LEAST_TIMES the longest of its kind
    a start     of a runner: START_TIMES the longest start of the group; START_SECONDS before any runner has
                begun. A start counts only once it has a process: one that waits for a node may wait for ever
    learners    the same of their updates, whatever the size; others play on without the players of a process
                that is silent for LATE_SECONDS, or LATE_TIMES its longest update

Seconds count as they pass between two looks, and a look that comes late counts as a short one: where the
driver itself was stopped, nothing hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

LEAST_SECONDS, TIMES, LEAST_TIMES = 30.0, 10.0, 2.0
FIRST_SECONDS = 120.0
START_SECONDS, START_TIMES = 600.0, 2.0
LATE_SECONDS, LATE_TIMES = 2.0, 3.0
FIRST_UPDATE_SECONDS = 300.0
LOOK_SECONDS, MOST_SECONDS = 1.0, 2.0  # between two looks, and those that count of a longer time
FADING = 0.95  # of the longest, with each further request

Setting = float | Literal["auto"]  # `resources.patience_seconds`


def allowed(setting: Setting, longest: float) -> float:
    """Return after which silence an answer is given up that takes `longest` seconds at most."""
    if setting == "auto":
        return max(LEAST_SECONDS, TIMES * longest)
    return max(setting, LEAST_TIMES * longest)


class Looks:
    """When the driver looked last. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._looked = clock, clock()

    def passed(self) -> float:
        """Return the seconds since the last look, as far as they count; 0: it is too early for another."""
        now = self._clock()
        passed = now - self._looked
        if passed < LOOK_SECONDS:
            return 0.0
        self._looked = now
        return min(passed, MOST_SECONDS)


class Silence:
    """Calls of one process that wait for their answers, and since when none of them has come."""

    def __init__(self, ray: Any) -> None:
        self.seconds = 0.0
        self.answered = False  # at least once
        self._ray = ray
        self._waiting: list[Any] = []

    def asked(self, reference: Any) -> None:
        """Note a call, by the reference to its answer."""
        self._waiting.append(reference)

    def look(self, seconds: float) -> float:
        """Look `seconds` after the last time; return for how long nothing has come that is waited for."""
        done: list[Any] = []
        if self._waiting:
            done, self._waiting = self._ray.wait(
                self._waiting, num_returns=len(self._waiting), timeout=0, fetch_local=False
            )
        self.answered |= bool(done)
        self.seconds = self.seconds + seconds if self._waiting and not done else 0.0
        return self.seconds


class Times:
    """What answers took, by kind and by size, and how long the next one may take."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._longest: dict[Hashable, dict[int, float]] = {}  # seconds, by kind and by bits of the size

    def note(self, kind: Hashable, size: int, seconds: float) -> None:
        """Note that an answer of this size, such as a request of so many matches, took so many seconds."""
        own, bits = self._longest.setdefault(kind, {}), size.bit_length()
        own[bits] = max(seconds, FADING * own.get(bits, 0.0))

    def knows(self, kind: Hashable) -> bool:
        """Return whether an answer of this kind has come."""
        return kind in self._longest

    def patience(self, kind: Hashable, size: int) -> float:
        """Return the seconds after which a request of `size` matches is given up."""
        return allowed(self._setting, self.longest(kind, size)) if self.knows(kind) else self.first

    @property
    def first(self) -> float:
        """Seconds for a request of a kind of which none has been answered."""
        return FIRST_SECONDS if self._setting == "auto" else self._setting

    def longest(self, kind: Hashable, size: int) -> float:
        """Return the seconds that an answer of this size takes at most, as far as is known; 0: not at all.

        A smaller one never takes longer. A larger one than any before takes as much longer as it is larger.
        """
        longest, bits = self._longest.get(kind, {}), size.bit_length()
        smaller = [known for known in longest if known <= bits]
        if not smaller:
            return longest[min(longest)] if longest else 0.0
        return max(longest[max(smaller)] * 2.0 ** (bits - max(smaller)), *(longest[each] for each in smaller))


class Patience:
    """Seconds for which processes that learn may be silent, from what their updates take.

    One that builds its learners, or has made no update of a player that it learns for, gets
    FIRST_UPDATE_SECONDS: imports and first calls of a GPU take long once.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._updates = Times(setting)  # of each player
        self._news: list[str] = []

    def learned(self, player: str, seconds: float) -> None:
        """Note what an update has taken."""
        before = self.seconds([player])
        self._updates.note(player, 1, seconds)
        if self._setting != "auto" and self.seconds([player]) > max(before, self._setting):
            self._news.append(
                f"resources.patience_seconds is {self._setting:g}, and an update of {player} took "
                f"{seconds:.1f} s: its learner may be silent for {self.seconds([player]):.0f} s; raise it"
            )

    def late(self, players: Iterable[str]) -> float:
        """Return after which silence others play on without these players of a process."""
        return max(LATE_SECONDS, LATE_TIMES * self._longest(players))

    def seconds(self, players: Iterable[str]) -> float:
        """Return after which silence the process of these players is ended."""
        return allowed(self._setting, self._longest(players))

    def first(self) -> float:
        """Return after which silence a process is ended that is at its first work."""
        return max(FIRST_UPDATE_SECONDS, self.seconds(()))

    def news(self) -> list[str]:
        """Return sentences about the setting since the last call."""
        news, self._news = self._news, []
        return news

    def _longest(self, players: Iterable[str]) -> float:
        return max((self._updates.longest(player, 1) for player in players), default=0.0)


@dataclass(slots=True)
class _Watched:
    """What is known of one runner since it was asked for."""

    asked_for: float  # on the clock
    times: Times
    slack: float  # times the patience that it gets
    starting: float | None = 0.0  # seconds; None: it has begun
    placed: bool = False  # whether it has a process, while it starts
    began: float = 0.0  # or answered, last
    silent: float = 0.0  # seconds without an answer that is waited for
    # number, kind, size and time of each request that waits for its answer, in order
    waiting: dict[int, tuple[Hashable, int, float]] = field(default_factory=dict)


class Watch:
    """Runners that have not answered, and since when; each has a number."""

    def __init__(
        self, setting: Setting, has_place: Callable[[int], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`has_place` returns whether a runner that has not begun has a process."""
        self._setting, self._has_place, self._clock = setting, has_place, clock
        self._looks = Looks(clock)
        self._all = Times(setting)
        self._runners: dict[int, _Watched] = {}
        self._longest_start = 0.0

    # ------------------------------------------------------------------ what happens

    def starts(self, runner: int, slack: float = 1.0) -> None:
        """Note that a runner has been asked for, which gets `slack` times its patience.

        Nothing that is known of its predecessor counts: it may be elsewhere.
        """
        self._runners[runner] = _Watched(self._clock(), Times(self._setting), slack)

    def begun(self, runner: int) -> None:
        """Note that a runner has begun: it works at its requests, if it has any."""
        own = self._of(runner)
        own.starting, own.silent, own.began = None, 0.0, self._clock()
        took = min(START_SECONDS, own.began - own.asked_for)  # it may have waited for a node
        self._longest_start = max(self._longest_start, took)

    def forget(self, runner: int) -> None:
        """Forget a runner that ends."""
        self._runners.pop(runner, None)

    def asked(self, runner: int, number: int, kind: Hashable, size: int) -> None:
        """Note a request to a runner, with its number."""
        own = self._of(runner)
        if not own.waiting:
            own.silent = 0.0
        own.waiting[number] = kind, size, self._clock()

    def answered(self, runner: int, number: int, *, counts: bool = True) -> None:
        """Note that a request is under way no more; `counts`: it was played, so its time is measured."""
        own = self._runners.get(runner)
        if own is None or number not in own.waiting:
            return
        kind, size, asked = own.waiting.pop(number)
        now = self._clock()
        if counts:
            for times in (self._all, own.times):
                times.note(kind, size, now - max(asked, own.began))
        own.began, own.silent = now, 0.0

    def _of(self, runner: int) -> _Watched:
        if runner not in self._runners:
            self.starts(runner)
        return self._runners[runner]

    # ------------------------------------------------------------------ what is overdue

    def starting_for(self, runner: int) -> float:
        """Return for how many seconds a runner has been starting; infinity: it is not."""
        own = self._runners.get(runner)
        return float("inf") if own is None or own.starting is None else own.starting

    def overdue(self) -> list[tuple[int, float]]:
        """Return the runners that are to be given up, each with its seconds without an answer.

        To be called in each turn of the driver.
        """
        passed, found = self._looks.passed(), []
        of_start = max(FIRST_SECONDS, START_TIMES * self._longest_start)
        if not self._longest_start:
            of_start = START_SECONDS
        for runner, own in self._runners.items() if passed else ():
            if own.starting is None and own.waiting:
                own.silent += passed
                if own.silent > self._patience(own):
                    found.append((runner, own.silent))
            elif own.starting is not None:
                own.starting += passed
                if own.starting <= of_start:
                    continue
                if own.placed:
                    found.append((runner, own.starting))
                else:
                    own.starting, own.placed = 0.0, self._has_place(runner)
        return found

    def _patience(self, own: _Watched) -> float:
        """Return the seconds for the request that a runner is at; a new runner gets those of a first one."""
        kind, size, _ = next(iter(own.waiting.values()))
        if own.times.knows(kind):
            return own.slack * own.times.patience(kind, size)
        return own.slack * max(self._all.first, self._all.patience(kind, size))
