"""Reporting: log the figures of a session to all sinks at the interval of the log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from league.config.sections import SinkSettings
from league.training.session import Session
from league.training.state.played import Means
from league.training.trackers import Sink, make_sink
from storage.errors import Failure


class Reporting:
    """Sinks of one session. One that fails is closed with a message, and training goes on without it."""

    def __init__(
        self, settings: tuple[SinkSettings, ...], every_seconds: float, say: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._every = every_seconds
        self._say = say
        self._sinks: dict[str, Sink] = {}
        self._logged: float | None = None
        self._before = (0.0, 0, 0, 0)
        self._means: Means | None = None

    def begin(self, session: Session) -> None:
        """Open all sinks. Raise Failure for one that cannot be opened, before anything is trained."""
        config = session.settings.model_dump(mode="json")
        for settings in self._settings:
            try:
                sink = make_sink(settings, session.archive.run, config, session.totals.env_steps)
            except Exception as error:  # a third-party library may raise anything
                self.close()
                raise Failure(
                    f"log.sinks: {settings.kind} cannot be opened: {_first_line(error)}; mend that, or leave "
                    "it out by --set log.sinks=[], and go on with --resume"
                ) from error
            self._sinks[settings.kind] = sink
        self._before, self._means = self._now(session), Means(session.played)
        self._logged = time.monotonic()

    def show(self, session: Session) -> None:
        """Log to all sinks, if it is time."""
        if self._sinks and self._logged is not None and time.monotonic() - self._logged >= self._every:
            self._log(session)

    def end(self, session: Session) -> None:
        """Log the last figures to all sinks."""
        if self._sinks:
            self._log(session)

    def close(self) -> None:
        """Close all sinks."""
        for kind in list(self._sinks):
            self._with(kind, lambda sink: sink.close())
        self._sinks.clear()

    def _log(self, session: Session) -> None:
        now = self._now(session)
        seconds = max(now[0] - self._before[0], 1e-9)
        env_steps, trained, matches = (
            (b - a) / seconds for a, b in zip(self._before[1:], now[1:], strict=True)
        )
        self._before, self._logged = now, now[0]
        speed = {
            "speed/env_steps_per_second": env_steps,
            "speed/trained_steps_per_second": trained,
            "speed/matches_per_second": matches,
        }
        means = {} if self._means is None else self._means.new()
        values = {k: v for k, v in (figures(session) | means | speed).items() if math.isfinite(v)}
        for kind in list(self._sinks):
            self._with(kind, lambda sink: sink.log(session.totals.env_steps, values))

    def _with(self, kind: str, deed: Callable[[Sink], None]) -> None:
        try:
            deed(self._sinks[kind])
        except Exception as error:  # a full disk or a lost network: the run goes on
            del self._sinks[kind]
            self._say(f"log.sinks: {kind} failed and is no longer logged to: {_first_line(error)}")

    def _now(self, session: Session) -> tuple[float, int, int, int]:
        trained = sum(member.env_steps for member in session.members.values())
        return time.monotonic(), session.totals.played_steps, trained, session.totals.matches


def figures(session: Session) -> dict[str, float]:
    """Return the figures of a session: ratings and learning of each player, sizes, mix of match types.

    Of a player's newest snapshot that was measured: its figures on yardsticks.
    """
    found: dict[str, float] = {
        "league/snapshots": len(session.roster.snapshots()),
        "league/matches": session.totals.matches,
        "league/dropped_matches": session.totals.dropped_matches,
        "league/incidents": session.incidents.counts.total(),
    }
    for name, member in session.members.items():
        rating = session.standings.rating(name)
        found[f"rating/{name}/mu"], found[f"rating/{name}/sigma"] = rating.mu, rating.sigma
        found[f"learning/{name}/updates"] = member.updates
        found[f"learning/{name}/env_steps"] = member.env_steps
        record = session.log.newest.get(name)
        if record is not None:
            found[f"learning/{name}/lag"] = record.lag
            spent = session.log.spent.get(name, {})
            found |= {f"learning/{name}/{key}": value for key, value in {**record.metrics, **spent}.items()}
    for name, newest in session.yardsticks.newest.items():
        found |= {f"yardstick/{name}/{key}": shown.record.value for key, shown in newest.items()}
    played = sum(session.state.match_mix.values())
    found |= {f"mix/{kind}": count / played for kind, count in session.state.match_mix.items()}
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
