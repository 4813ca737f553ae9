"""Incidents of a session: each is recorded, counted, and kept to be shown."""

from __future__ import annotations

from collections import Counter, deque

from storage.archive import Archive
from storage.incidents import Incident

NEWEST = 6
UNREAD = 100  # sentences that wait to be printed; a view reads them every few seconds


class IncidentLog:
    """Deaths and what was set aside, as they happen."""

    def __init__(self, archive: Archive) -> None:
        self.newest: deque[Incident] = deque(maxlen=NEWEST)  # newest first
        self.said = ""  # the newest sentence that is of no loss
        self.counts: Counter[str] = Counter()  # by kind, in this session
        self._archive = archive
        self._unread: deque[str] = deque(maxlen=UNREAD)

    def record(self, incident: Incident) -> None:
        """Store an incident in the ledger, then keep it for the views."""
        self._archive.append_incidents([incident])
        self.newest.appendleft(incident)
        self.counts[incident.kind] += 1
        self._unread.append(incident.sentence())

    def say(self, line: str) -> None:
        """Have a sentence shown that is of no loss: it is neither counted nor stored."""
        self.said = line
        self._unread.append(line)

    def unread(self) -> list[str]:
        """Return the sentences since the last call."""
        found = list(self._unread)
        self._unread.clear()
        return found
