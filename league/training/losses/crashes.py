"""Crashes of matches: each new cause is an incident, and too many of them end the run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from storage.incidents import Incident

WINDOW = 1000  # matches whose share of crashes counts
FEWEST = 64  # matches before a share counts
MOST_CAUSES = 20  # that become incidents, in one session


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
                happened_at=time.time(),
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
