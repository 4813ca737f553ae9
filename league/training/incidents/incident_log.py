"""Incidents of a session: each is recorded, counted, and kept to be shown.

Each new cause of crashed matches is an incident, and too many crashes end the run. That a limit ends many
matches is a sentence.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from league.models.bots.settings import BotSettings
from league.rules.roster import Roster
from storage.archive import Archive
from storage.incidents import MOST_CAUSES, SILENT, Incident, forfeits, withdrawal
from storage.records import EndReason, ResultBatch

NEWEST = 6
UNREAD = 100  # sentences that wait to be printed; a view reads them every few seconds
WINDOW = 1000  # matches whose share of crashes counts
FEWEST = 64  # matches before a share counts
MANY_LIMITED = 0.05  # share of matches that the limit of steps ended, from which on it is worth a sentence


class IncidentLog:
    """Deaths and what was set aside, as they happen."""

    def __init__(self, archive: Archive) -> None:
        self.newest: deque[Incident] = deque(maxlen=NEWEST)  # newest first
        self.said = ""  # the newest sentence that is of no loss
        self.counts: Counter[str] = Counter()  # by kind, in this session
        self._archive = archive
        self._played_out: Counter[str] = Counter()  # deaths of caged processes, by cause
        self._unread: deque[str] = deque(maxlen=UNREAD)

    def record(self, incident: Incident) -> None:
        """Store an incident in the ledger, then keep it for the views."""
        self._archive.append_incidents([incident])
        self.newest.appendleft(incident)
        self.counts[incident.kind] += 1
        self._unread.append(incident.sentence())

    def record_loss(self, incident: Incident) -> None:
        """Record a death, but of processes that play in cages only the first of each cause."""
        if incident.kind == "play":
            cause = SILENT if SILENT in incident.cause else incident.cause
            self._played_out[cause] += 1
            if self._played_out[cause] > 1 or len(self._played_out) > MOST_CAUSES:
                return
            incident = replace(incident, remedy=f"{incident.remedy}; further ones like it are only counted")
        self.record(incident)

    def say(self, line: str) -> None:
        """Have a sentence shown that is of no loss: it is neither counted nor stored."""
        self.said = line
        self._unread.append(line)

    def unread(self) -> list[str]:
        """Return the sentences since the last call."""
        found = list(self._unread)
        self._unread.clear()
        return found


def remedy_of(cause: str, env_id: str) -> str:
    """Return which settings help against a cause, to be added to it; "" for most."""
    if SILENT not in cause:
        return ""
    return (
        ": if matches take as long, raise resources.patience_seconds; if some never end, set "
        f"rollout.step_limit; if a step does not return, correct env '{env_id}'"
    )


class Crashes:
    """Matches of a session that crashed, by cause."""

    def __init__(self, env_id: str, share: float) -> None:
        """`share`: that of the last WINDOW matches which may crash."""
        self.causes: Counter[str] = Counter()  # in this session
        self._env_id = env_id
        self._share = share
        self._matches = self._crashed = 0.0  # of about the last WINDOW matches

    def note(self, num_matches: int, causes: Mapping[str, int]) -> list[Incident]:
        """Note the matches of a request and those that crashed; return an incident for each new cause."""
        new = [cause for cause in causes if cause not in self.causes][: MOST_CAUSES - len(self.causes)]
        self.causes.update(causes)
        fading = max(0.0, 1.0 - num_matches / WINDOW)
        self._matches = self._matches * fading + num_matches
        self._crashed = self._crashed * fading + sum(causes.values())
        return [
            Incident(
                kind="crash",
                who=f"a match of {self._env_id}",
                cause=cause,
                matches=causes[cause],
                remedy="further crashes like it are only counted",
            )
            for cause in new
        ]

    @property
    def too_many(self) -> str:
        """The sentence that ends the run; "" while few enough matches crash."""
        if self._matches < FEWEST or self._crashed <= self._share * self._matches:
            return ""
        cause, count = self.causes.most_common(1)[0]
        share = self._crashed / self._matches
        return (
            f"env '{self._env_id}': {share:.0%} of the last matches crashed, more than rollout.crash_share "
            f"({self._share:.0%}); {count:,} of them with: {cause}"
        )


class Failing:
    """Competitors that forfeit, and those that are withdrawn for it; counts are of this session."""

    def __init__(self, bots: Mapping[str, BotSettings], roster: Roster) -> None:
        """`bots`: settings by name; those in the `roster` are withdrawn from it."""
        most = {name: own.limits.failures for name, own in bots.items() if hasattr(own, "limits")}
        self._most = {name: number for name, number in most.items() if number is not None}
        self.may_withdraw = bool(self._most)  # any bot may fail too often
        self._roster = roster
        self._failed: Counter[str] = Counter()
        self._causes: set[tuple[str, str]] = set()

    def recall(self, incidents: Iterable[Incident]) -> None:
        """Withdraw the bots that were withdrawn in earlier sessions."""
        for incident in incidents:
            if incident.kind == "withdrawn" and self._seated(incident.who):
                self._roster.withdraw(incident.who)

    def note(self, failures: Mapping[tuple[str, str], int]) -> list[Incident]:
        """Note forfeits by competitor and cause; return an incident for each new cause and withdrawal."""
        found = forfeits(failures, self._causes)
        for (who, _), count in failures.items():
            self._failed[who] += count
            if who in self._most and self._failed[who] >= self._most[who] and self._seated(who):
                self._roster.withdraw(who)
                found.append(withdrawal(who, self._failed[who]))
        return found

    def _seated(self, name: str) -> bool:
        return any(bot.name == name for bot in self._roster.bots)


class LimitedMatches:
    """Matches of a session that `rollout.step_limit` ended."""

    def __init__(self, limit: int | None) -> None:
        """`limit`: decisions of a match; `None`: matches end by their own rules."""
        self._limit = limit
        self._matches = self._limited = 0.0  # of about the last WINDOW matches
        self._said = False

    def note(self, results: ResultBatch) -> str:
        """Note results; return a sentence the first time that many of the latest matches were limited."""
        if self._limit is None or self._said:
            return ""
        fading = max(0.0, 1.0 - len(results) / WINDOW)
        self._matches = self._matches * fading + len(results)
        self._limited = self._limited * fading + np.count_nonzero(results.reason == EndReason.STEP_LIMIT)
        share = self._limited / max(1.0, self._matches)
        if self._matches < FEWEST or share < MANY_LIMITED:
            return ""
        self._said = True
        return (
            f"rollout.step_limit ({self._limit}) ends {share:.0%} of the matches, which count by their "
            "scores so far: raise it if they are to be decided"
        )
