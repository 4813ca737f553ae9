"""Clock of a run in training: seconds so far, the share of the run that is done, and how it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from league.config.sections import StopSettings
from league.interrupts import stopping
from league.training.state.state import LeagueState
from storage.ends import End, Ending

FEWEST_STEPS = 100_000  # a request with endless matches is abandoned after this many steps, or later
MOST_RESERVED = 0.05  # of the time of a run, for what comes after it
LONG_SECONDS = 1.0  # a request or an update in this process that takes longer is shown meanwhile


class RunClock:
    """Seconds and env steps of a run, beside those of its `stop`."""

    def __init__(self, stop: StopSettings, state: LeagueState) -> None:
        self._stop, self._state, self._totals = stop, state, state.totals
        self._began, self._shown = time.monotonic(), 0.0
        self._steps_before = 0  # of earlier sessions
        self._endless = False  # whether matches were left that do not end, and none has ended
        self.reserve = 0.0  # seconds that what comes after training takes: it ends so much earlier

    def begin(self) -> None:
        """Count the seconds and the steps of this session from now on."""
        self._began, self._steps_before = time.monotonic(), self._totals.played_steps

    def seconds(self) -> float:
        """Return the seconds of training so far, resumed ones included."""
        return self._totals.seconds + time.monotonic() - self._began

    def share(self) -> float:
        """Return the share of training that is done: 0 at its beginning, 1 at its end; 0 without a `stop`."""
        stop = self._stop
        by_time = self.seconds() / self._training_seconds()
        by_steps = 0.0 if stop.env_steps is None else self._totals.played_steps / stop.env_steps
        return max(by_time, by_steps)

    def finished(self) -> bool:
        """Return whether the run has reached its `stop`, or cannot reach it, as no match ends."""
        return self._endless or self.share() >= 1.0

    def _training_seconds(self) -> float:
        """Return the seconds after which training ends: what comes then ends as the minutes of `stop` do."""
        minutes = self._stop.minutes
        whole = math.inf if minutes is None else 60.0 * minutes
        return whole - min(self.reserve, MOST_RESERVED * whole)

    def over(self) -> bool:
        """Return whether the run ends now, whatever is under way: its time is up, or a signal has come."""
        return stopping() or self.seconds() >= self._training_seconds()

    def overdue(self, steps: int, show: Callable[[], object]) -> bool:
        """Return whether the run is over, while a request is played in this process: `steps` of it so far.

        Meanwhile do as `looked`. A request is not left because it brings more env steps than are
        wanted, unless its matches do not end.
        """
        stop = self._stop
        if stop.env_steps is not None and steps > max(stop.env_steps, FEWEST_STEPS):
            self._endless = self._totals.played_steps == self._steps_before
            return True
        return self.looked(show)

    def looked(self, show: Callable[[], object]) -> bool:
        """Return whether the run is over, in the midst of something long; call `show` now and then."""
        now = time.monotonic()
        if now - self._shown > LONG_SECONDS:
            self._shown = now
            show()
        return self.over()

    def end(self, error: BaseException | None = None) -> End:
        """Return how this session ends, now: after its last turn, or with an error."""
        stop = self._stop
        reason = "" if error is None else " ".join(str(error).split()) or type(error).__name__
        state: Ending = "stopped"
        if error is not None and not isinstance(error, KeyboardInterrupt):
            state = "failed"
        elif error is None and self.finished():
            reason = self._nothing_learned()
            state = "untrained" if reason else "trained"
        return End(
            state=state,
            reason=reason,
            seconds=self.seconds(),
            of_seconds=None if stop.minutes is None else 60.0 * stop.minutes,
            env_steps=self._totals.played_steps,
            of_env_steps=stop.env_steps,
            ended_at=time.time(),
        )

    def _nothing_learned(self) -> str:
        """Return why this session has learned nothing; "" if it has."""
        if self._totals.played_steps == self._steps_before:
            return (
                "no match ended before the `stop`; for long matches, or such without an end, set "
                "rollout.fragment_steps to auto or rollout.step_limit, else lower "
                "rollout.matches_per_request or raise stop.minutes"
            )
        if not any(member.updates for member in self._state.members.values()):
            return (
                f"{self._totals.played_steps:,} env steps were played, fewer than a batch needs; lower "
                "learner.batch_steps, or raise the `stop`"
            )
        return ""
