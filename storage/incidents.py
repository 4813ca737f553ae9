"""Incidents, which the table `incidents` has: what died while a run trained, and what it cost.

A death is an event of a run, like a match or a decision: recorded with its place, its cost and what replaced
it. No state of the league is a fold of incidents, so a run resumes without reading them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from storage.errors import printable

SILENT = "did not answer"  # part of the cause of what was ended because of that

_VERBS = {
    "set_aside": "set aside",
    "experience": "lost",
    "results": "lost",
    "crash": "crashed",
    "node": "is unfit",
    "forfeit": "forfeited",
    "withdrawn": "was withdrawn",
}
MOST_CAUSES = 20  # of one kind, or of one competitor's forfeits, that become incidents in one session


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A process, an object or matches that a run lost or set aside, the cost, and what replaced it."""

    # runner, evaluation_runner, play, learner, peer, aggregator, experience, results, set_aside, crash, node,
    # forfeit, withdrawn
    kind: str
    who: str  # such as "runner 2" or "learners of shard 0"
    node: str = ""  # host where it was; "": not known
    cause: str = ""  # as far as it is known
    players: tuple[str, ...] = ()  # whose learning it cost
    matches: int = 0  # that were under way: they are played again, or set aside
    env_steps: int = 0  # of experience that is not learned from
    updates: int = 0  # that were made and are lost
    remedy: str = ""  # what took its place
    kept: str = ""  # file in the run folder with what was set aside, and how to reproduce it
    happened_at: float = field(default_factory=time.time)  # when it was noticed, seconds since the epoch

    def sentence(self) -> str:
        """Return one line: who, where, the cause, the cost, and what took its place."""
        where = f" on node {self.node}" if self.node else ""
        cause = f" ({self.cause})" if self.cause else ""
        counts = [(self.matches, "match", "es"), (self.env_steps, "step", "s"), (self.updates, "update", "s")]
        lost = [f"{n:,} {one}{'' if n == 1 else more}" for n, one, more in counts if n]
        verb = _VERBS.get(self.kind, "was ended" if SILENT in self.cause else "died")
        cost = f"cost {', '.join(lost)}" if lost else "cost nothing"
        of_players = f" of {', '.join(self.players)}" if lost and self.players else ""
        kept = f"; kept in {self.kept}" if self.kept else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return printable(f"{self.who}{where} {verb}{cause}: {cost}{of_players}{remedy}{kept}")


def forfeits(failures: Mapping[tuple[str, str], int], known: set[tuple[str, str]]) -> list[Incident]:
    """Return an incident for each new cause of forfeits, which are counted by competitor and cause.

    Causes that are among `known` are not new; they are added to it. A competitor whose causes are never the
    same has MOST_CAUSES of them, and those of others are still noted.
    """
    counted = Counter(who for who, _ in known)
    new = []
    for key in failures:
        if key not in known and counted[key[0]] < MOST_CAUSES:
            counted[key[0]] += 1
            new.append(key)
    known.update(new)
    return [
        Incident(
            kind="forfeit",
            who=who,
            cause=cause,
            matches=failures[who, cause],
            remedy="further ones like it are only counted",
        )
        for who, cause in new
    ]


def withdrawal(who: str, failures: int) -> Incident:
    """Return the incident of a competitor that plays no more, after so many forfeits."""
    return Incident(
        kind="withdrawn",
        who=who,
        cause=f"after {failures:,} forfeits",
        remedy="its remaining matches are not played",
    )
