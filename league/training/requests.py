"""Requests of a session: each has a ticket, which names the owner that gets what was played.

training      matches that are learned from, recorded and rated
evaluation    matches that are recorded and rated (`league.training.league_matches`, as those of training)
yardsticks    games of frozen snapshots against fixed opponents (`league.training.freeze_yardsticks`)
round_robin   matches among the newest snapshots, which are recorded (`league.training.round_robin`)

Several owners may have one group of runners.

A turn of the loop is short, however much is ready: it takes what `TURN_SECONDS` are enough for, at least one
rollout. The others wait for the next turn, and keep the places of their requests until then.
"""

from __future__ import annotations

from collections import defaultdict, deque
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

# What a turn of the loop takes, reckoned by twice what `tests.bench.driver` and `tests.bench.runners` measure
# of the driver: for a request, for each of its matches, and for each two seats of a match.
TURN_SECONDS = 0.15
REQUEST_SECONDS, MATCH_SECONDS, PAIR_SECONDS = 1.3e-3, 5e-6, 0.6e-6
MOST_SUBMITTED = 64  # requests in a turn


def matches_of_a_turn(seats: int) -> int:
    """Return how many matches of so many seats a turn has time for, of one request."""
    return int((TURN_SECONDS - REQUEST_SECONDS) / _match_seconds(seats))


def _match_seconds(seats: int) -> float:
    return MATCH_SECONDS + PAIR_SECONDS * seats * (seats - 1) / 2


class Requests:
    """Requests under way, of all owners."""

    def __init__(self) -> None:
        self.runners: dict[Owner, RunnerGroup] = {}  # that play for each owner
        self._tickets: dict[int, Ticket] = {}
        self._waiting: deque[Played] = deque()  # for a turn that has time for them
        self._submitted = 0  # in this turn
        self._lost: list[tuple[LostRequests, dict[int, Ticket]]] = []
        self._next = 0

    @property
    def waiting(self) -> bool:
        """Whether rollouts wait for the next turn."""
        return bool(self._waiting)

    def room(self, owner: Owner, each: int | None = None) -> int:
        """Return the number of requests that `owner` may submit now, `each` to one runner at most."""
        if owner not in self.runners:
            return 0
        group = self.runners[owner]
        waiting = sum(self.runners[ticket.owner] is group for ticket, _ in self._waiting)
        return max(0, min(group.room(each) - waiting, MOST_SUBMITTED - self._submitted))

    def under_way(self, owner: Owner) -> bool:
        """Return whether a request of `owner` is under way, or waits for a turn."""
        tickets = [*self._tickets.values(), *(ticket for ticket, _ in self._waiting)]
        return any(ticket.owner == owner for ticket in tickets)

    def submit(self, ticket: Ticket, request: PlayRequest, live_weights: Mapping[str, Any]) -> int:
        """Submit a request, with the weights of its live players or references to them; return its number."""
        number, self._next = self._next, self._next + 1
        self._tickets[number] = ticket
        self._submitted += 1
        self.runners[ticket.owner].submit(number, request, live_weights, ticket.runner)
        return number

    def ready(self, timeout_seconds: float, *owners: Owner) -> dict[Owner, list[Played]]:
        """Return what was played for each of `owners`, or for all, as much as one turn has time for.

        If nothing is there, wait up to `timeout_seconds` for the runners of the first.
        """
        self._submitted = 0
        for group in dict.fromkeys(self.runners[owner] for owner in owners or self.runners):
            for rollout in group.ready(0.0 if self._waiting else timeout_seconds):
                self._waiting.append((self._tickets.pop(rollout.request_id), rollout))
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
        return self._turn()

    def _turn(self) -> dict[Owner, list[Played]]:
        """Return the first rollouts that wait, as many as one turn has time for."""
        found: dict[Owner, list[Played]] = defaultdict(list)
        left = TURN_SECONDS
        while self._waiting:
            ticket, rollout = self._waiting[0]
            seats, matches = rollout.results.matches.num_seats, len(rollout.results)
            left -= REQUEST_SECONDS + matches * _match_seconds(seats)
            if left < 0.0 and found:
                break
            found[ticket.owner].append(self._waiting.popleft())
        return found

    def losses(self) -> list[tuple[LostRequests, dict[int, Ticket]]]:
        """Return the deaths since the last call, each with the tickets of what was lost with it."""
        lost, self._lost = self._lost, []
        return lost
