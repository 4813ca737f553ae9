"""Placing: the newest snapshots of mains play each other, older ones and bots, beside training.

So the newest snapshot is never without a result when a run ends. It is done now and then while a run trains,
and once more at its end, within a share of the env steps that were played (`evaluation.placing`). The matches
are recorded and nothing else (`placed`): training is the same with and without them. With `runners: 0` they
are played in this process, by a runner of their own, else by the runners of evaluation, or the other ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import numpy as np

from league.arena.arena import Seated
from league.arena.matches import Table, stream_of
from league.config.settings import Settings
from league.interrupts import stopping
from league.rollout.requests import PlayRequest
from league.rollout.runner_group import LocalRunnerGroup, Rollout, RunnerGroup
from league.training.measuring import setup_beside
from league.training.placing.field import next_pairs
from league.training.placing.placed import ROUND_ROBIN
from league.training.sources import Sources
from league.training.state.state import State
from storage.archive import Archive
from storage.incidents import Incident

STREAM = 11  # of seeds, apart from those of training
PAIRS = 8  # of competitors in one request
SEEDS = 8, 128  # of each, least and most, each played once for each team
REQUEST_STEPS = 4_096  # env steps of a request, more seeds where matches are short: its policies are loaded
WHILE = 0.5  # part of the share that is played before the end
WAIT_SECONDS = 0.1
_FIRST_REQUEST = -(2**40)  # request ids from here down are of no other request


class Placing:
    """The round robin of one run."""

    def __init__(
        self, settings: Settings, archive: Archive, sources: Sources, state: State, runners: RunnerGroup
    ) -> None:
        """`runners`: they play the matches, unless `runners: 0`."""
        self.died: Callable[[Incident], object] = lambda incident: None  # called with deaths at the end
        self._settings, self._archive, self._sources, self._state = settings, archive, sources, state
        self._teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
        self._num_teams = int(self._teams[-1]) + 1
        self._share = settings.evaluation.placing if self._can() else 0.0
        self._own: LocalRunnerGroup | None = None
        if self._share > 0.0 and settings.most_runners == 0:
            self._own = LocalRunnerGroup(setup_beside(settings, PAIRS * SEEDS[0] * 2))
        self._runners: RunnerGroup = self._own or runners
        self._asked: set[int] = set()
        self._next = _FIRST_REQUEST

    def _can(self) -> bool:
        """Return whether any two competitors can meet: one may take every team, and all play one game."""
        own_games = any(rules.env is not None for rules in self._settings.league.resolve().values())
        return self._num_teams > 1 and self._settings.league.seats_by_competitor() is None and not own_games

    def until(self, overdue: Callable[[int], bool]) -> None:
        """Leave matches that are played in this process once `overdue` of their steps is true."""
        if self._own is not None:
            self._own.until(overdue)

    def ask(self, part: float = WHILE) -> bool:
        """Submit the next matches if `part` of the share has room for them; return whether it did."""
        if self._share <= 0.0 or self._asked or self._runners.room() < 1:
            return False
        totals, placed = self._state.totals, self._state.placed
        if not totals.matches:
            return False
        of_pair = self._num_teams * totals.env_steps / totals.matches  # env steps of one seed of a pair
        wanted = min(max(math.ceil(REQUEST_STEPS / (PAIRS * of_pair)), SEEDS[0]), SEEDS[1])
        room = (part * self._share * totals.env_steps - placed.env_steps) / of_pair
        most = min(PAIRS, math.floor(room / SEEDS[0]))
        if most < 1 or (part < 1.0 and room < PAIRS * wanted):  # as it ends, few matches are better than none
            return False
        seeds = min(wanted, math.floor(room / most))
        pairs = next_pairs(self._state.roster, self._state.standings, placed, most)
        if not pairs:
            return False
        self._asked.add(self._next)
        self._runners.submit(self._next, self._request(pairs, seeds), {})
        self._next -= 1
        return True

    def _request(self, pairs: list[tuple[str, str]], seeds: int) -> PlayRequest:
        names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
        own = np.eye(self._num_teams, dtype=np.bool_)  # a seed is played once for each team
        by_team = [np.where(own, names.index(one), names.index(other)) for one, other in pairs]
        number = (
            np.arange(len(pairs) * seeds * self._num_teams) - self._state.placed.next_id
        )  # ids count down
        table = Table(self._settings.env.id, self._teams, ROUND_ROBIN, stream_of(self._settings.seed, STREAM))
        matches = table.matches(names, np.repeat(by_team, seeds, axis=0), number[:: self._num_teams], -number)
        seated = Seated({name: self._sources.of(self._state.roster[name]) for name in names})
        return seated.request(matches, (table.seed + int(number[0])) % 2**63)

    def take(self, rollouts: Iterable[Rollout]) -> list[Rollout]:
        """Record the matches among these rollouts and among those of its own runner; return the others."""
        own = [] if self._own is None else self._own.ready(0.0)
        others = []
        for rollout in [*rollouts, *own]:
            if rollout.request_id not in self._asked:
                others.append(rollout)
                continue
            self._asked.discard(rollout.request_id)
            self._state.apply(rollout.results)
            self._archive.append_results(rollout.results, [])
        if self._own is not None:
            self._asked.clear()  # what a stopped process has left is not played again
        return others

    def lost(self, request_ids: Iterable[int]) -> list[int]:
        """Forget matches that were lost with a runner; return the ids of other requests."""
        others = [number for number in request_ids if number not in self._asked]
        self._asked.difference_update(request_ids)
        return others

    def end(self, seconds: float) -> None:
        """Play what the share has left, so that the snapshots of the end are placed; Ctrl-C ends it.

        `seconds` of training: no more than the share of them is taken, unless the run can be repeated to the
        bit (in one process, to a number of env steps).
        """
        exact = self._own is not None and self._settings.stop.minutes is None
        until = math.inf if exact else time.monotonic() + self._share * seconds

        def over(steps: int = 0) -> bool:
            """Return whether it has to end now."""
            return stopping() or time.monotonic() >= until

        self.until(over)
        while not over() and (self.ask(1.0) or self._asked):
            self.take([] if self._own is not None else self._runners.ready(WAIT_SECONDS))
            for loss in [] if self._own is not None else self._runners.losses():
                self.lost(loss.requests)
                self.died(loss.incident)
