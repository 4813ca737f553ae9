"""Requests of a session: each has a ticket, which names the owner that gets what was played.

training      matches that are learned from, recorded and rated
evaluation    matches that are recorded and rated (`league.training.league_matches`, as those of training)
yardsticks    games of frozen snapshots against fixed opponents (`league.training.freeze_yardsticks`)
round_robin   matches among the newest snapshots, which are recorded (`league.training.round_robin`)

Several owners may have one group of runners.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from league.rollout.requests import PlayRequest
from league.rollout.runner_group import LostRequests, Rollout, RunnerGroup

Owner = Literal["training", "evaluation", "yardsticks", "round_robin"]


@dataclass(frozen=True, slots=True)
class Ticket:
    """Owner of a request, and the conditions under which its owner uses what was played."""

    owner: Owner
    runner: int | None = None  # that plays it; None: any
    alone: bool = False  # whether it plays what has ended a runner, and nothing else
    generations: Mapping[str, int] = field(default_factory=dict)  # of the live players seated in it
    versions: Mapping[str, int] = field(default_factory=dict)  # of their weights


Played = tuple[Ticket, Rollout]


class Requests:
    """Requests under way, of all owners."""

    def __init__(self) -> None:
        self.runners: dict[Owner, RunnerGroup] = {}  # that play for each owner
        self._tickets: dict[int, Ticket] = {}
        self._lost: list[tuple[LostRequests, dict[int, Ticket]]] = []
        self._next = 0

    def room(self, owner: Owner, each: int | None = None) -> int:
        """Return the number of requests that `owner` may submit now, `each` to one runner at most."""
        return self.runners[owner].room(each) if owner in self.runners else 0

    def under_way(self, owner: Owner) -> bool:
        """Return whether a request of `owner` is under way."""
        return any(ticket.owner == owner for ticket in self._tickets.values())

    def submit(self, ticket: Ticket, request: PlayRequest, live_weights: Mapping[str, Any]) -> int:
        """Submit a request, with the weights of its live players or references to them; return its number."""
        number, self._next = self._next, self._next + 1
        self._tickets[number] = ticket
        self.runners[ticket.owner].submit(number, request, live_weights, ticket.runner)
        return number

    def ready(self, timeout_seconds: float, *owners: Owner) -> dict[Owner, list[Played]]:
        """Return what was played for each of `owners`, or for all.

        If nothing is there, wait up to `timeout_seconds` for the runners of the first.
        """
        found: dict[Owner, list[Played]] = defaultdict(list)
        for group in dict.fromkeys(self.runners[owner] for owner in owners or self.runners):
            for rollout in group.ready(timeout_seconds):
                ticket = self._tickets.pop(rollout.request_id)
                found[ticket.owner].append((ticket, rollout))
            timeout_seconds = 0.0
            for lost in group.losses():
                tickets = {number: self._tickets.pop(number) for number in lost.requests}
                self._lost.append((lost, tickets))
            if not group.in_flight():  # what a process that ends has left is not played
                self._tickets = {
                    number: ticket
                    for number, ticket in self._tickets.items()
                    if self.runners[ticket.owner] is not group
                }
        return found

    def losses(self) -> list[tuple[LostRequests, dict[int, Ticket]]]:
        """Return the deaths since the last call, each with the tickets of what was lost with it."""
        lost, self._lost = self._lost, []
        return lost
