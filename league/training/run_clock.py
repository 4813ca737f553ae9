"""Clock of a run in training: seconds so far, the share of the run that is done, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from league.config.sections import StopSettings
from league.training.state.state import RunTotals
from storage.ends import End

FEWEST_STEPS = 100_000  # a request with endless matches is abandoned after this many steps, or later
LONG_SECONDS = 1.0  # a request in this process that takes longer is shown meanwhile


class RunClock:
    """Seconds and env steps of a run, beside those of its `stop`."""

    def __init__(self, stop: StopSettings, totals: RunTotals) -> None:
        self._stop, self._totals = stop, totals
        self._began, self._shown = time.monotonic(), 0.0

    def begin(self) -> None:
        """Count the seconds of this session from now on."""
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds of training so far, resumed ones included."""
        return self._totals.seconds + time.monotonic() - self._began

    def share(self) -> float:
        """Return the share of the run that is done: 0 at its beginning, 1 at its end; 0 without a `stop`."""
        stop = self._stop
        by_time = 0.0 if stop.minutes is None else self.seconds() / (60.0 * stop.minutes)
        by_steps = 0.0 if stop.env_steps is None else self._totals.played_steps / stop.env_steps
        return max(by_time, by_steps)

    def finished(self) -> bool:
        """Return whether the run has reached its `stop`."""
        return self.share() >= 1.0

    def overdue(self, steps: int, show: Callable[[], object]) -> bool:
        """Return whether the run is over, while a request is played in this process: `steps` of it so far.

        Meanwhile call `show` now and then. A request is not left because it brings more env steps than are
        wanted, unless its matches do not end.
        """
        now = time.monotonic()
        if steps == 1:
            self._shown = now
        elif now - self._shown > LONG_SECONDS:
            self._shown = now
            show()
        stop = self._stop
        if stop.env_steps is not None and steps > max(stop.env_steps, FEWEST_STEPS):
            return True
        return stop.minutes is not None and self.seconds() >= 60.0 * stop.minutes

    def end(self, error: BaseException | None = None) -> End:
        """Return how this session ends, now: after its last turn, or with an error."""
        stop = self._stop
        failed = error is not None and not isinstance(error, KeyboardInterrupt)
        state: Literal["trained", "stopped", "failed"] = "failed" if failed else "stopped"
        reason = "" if error is None else " ".join(str(error).split()) or type(error).__name__
        return End(
            state="trained" if error is None and self.finished() else state,
            reason=reason,
            seconds=self.seconds(),
            of_seconds=None if stop.minutes is None else 60.0 * stop.minutes,
            env_steps=self._totals.played_steps,
            of_env_steps=stop.env_steps,
            ended_at=time.time(),
        )
