"""The round robin: the newest snapshots of mains play each other, older ones and bots, beside training.

It is done now and then while a run trains, and once more at its end, within a share of the env steps that
were played (`evaluation.placing`). The last snapshot of each main plays at least a few then. The matches
are recorded and nothing else (`placed`): training is the same with and without them. With `runners: 0` they
are played in this process, by a runner of their own, else by the runners of evaluation, or the other ones.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable

import numpy as np

from league.arena.arena import Seated
from league.arena.matches import MeasureTable, stream_of
from league.config.settings import Settings
from league.interrupts import stopping
from league.rollout.requests import PlayRequest
from league.rollout.runner_group import LocalRunnerGroup, RunnerGroup
from league.rules.roster import Roster
from league.rules.standings import Standings
from league.training.freeze_yardsticks import setup_beside
from league.training.requests import Owner, Played, Requests, Ticket
from league.training.sources import Sources
from league.training.state.state import LeagueState
from league.training.state.tally import ROUND_ROBIN, Placed, pair_of
from storage.archive import Archive
from storage.arrays import Indices
from storage.records import MAIN

STREAM = 11  # of seeds, apart from those of training
PAIRS = 8  # of competitors in one request
SEEDS = 8, 128  # of each, least and most, each played once for each team
REQUEST_STEPS = 4_096  # env steps of a request, more seeds where matches are short: its policies are loaded
WHILE = 0.5  # part of the share that is played before the end
NEWEST = 6  # snapshots that are placed, or two of each main
BEST = 2  # other snapshots that they meet, by their ratings
BOTS = 2  # that they meet, beside the oldest snapshot
ENOUGH = 256  # matches of a pair
LEAST_SECONDS = 1.0  # for those of a last snapshot that has not played
# beyond the share of the time, while a last snapshot has not played, as runners are busy or matches long: at
# least and at most, and as a share of the time where that is limited
LATEST_SECONDS, LATEST_SHARE = (1.0, 60.0), 0.05


class LeagueRoundRobin:
    """The round robin of one run."""

    owner: Owner = "round_robin"

    def __init__(
        self,
        settings: Settings,
        archive: Archive,
        sources: Sources,
        state: LeagueState,
        requests: Requests,
        runners: RunnerGroup,
    ) -> None:
        """`runners`: they play the matches, unless `runners: 0`."""
        self._settings, self._archive, self._sources, self._state = settings, archive, sources, state
        self._teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
        self._num_teams = int(self._teams[-1]) + 1
        own_games = any(rules.env is not None for rules in settings.league.resolve().values())
        # whether any two competitors can meet: one may take every team, and all play one game
        meet = self._num_teams > 1 and settings.league.seats_by_competitor() is None and not own_games
        self._share = settings.evaluation.placing if meet else 0.0
        self._own: LocalRunnerGroup | None = None
        self._trained: float | None = None  # seconds, once training has ended; None where that may not count
        if self._share > 0.0 and settings.most_runners == 0:
            self._own = LocalRunnerGroup(setup_beside(settings, PAIRS * SEEDS[0] * 2))
        self._requests = requests
        requests.runners[self.owner] = self._own or runners

    def until(self, overdue: Callable[[int], bool]) -> None:
        """Leave matches that are played in this process once `overdue` of their steps is true."""
        if self._own is not None:
            self._own.until(overdue)

    def ask(self, *, last: bool = False) -> bool:
        """Submit the next matches if none are under way, and share and runners have room for them.

        While training goes on, that is a part of the share; `last`: all of it, and at least one pair of each
        last snapshot that has not played. Return whether any were left.
        """
        part = 1.0 if last else WHILE
        if self._share <= 0.0:
            return False
        if self._requests.under_way(self.owner) or self._requests.room(self.owner) < 1:
            return True
        totals, placed = self._state.totals, self._state.placed
        if not totals.env_steps:  # matches may have been set aside before any was played
            return False
        of_pair = self._num_teams * totals.env_steps / totals.matches  # env steps of one seed of a pair
        wanted = min(max(math.ceil(REQUEST_STEPS / (PAIRS * of_pair)), SEEDS[0]), SEEDS[1])
        room = (part * self._share * totals.env_steps - placed.env_steps) / of_pair
        most = min(PAIRS, math.floor(room / SEEDS[0]))
        if part < 1.0 and room < PAIRS * wanted:  # as it ends, few matches are better than none
            return False
        if most < 1 and last and self._unplaced():
            most, room = 1, self._fewest_seeds()
        if most < 1:
            return False
        seeds = min(wanted, math.floor(room / most))
        pairs = next_pairs(self._state.roster, self._state.standings, placed, most)
        if not pairs:
            return False
        self._requests.submit(Ticket(self.owner), self._request(pairs, seeds), {})
        return True

    def _unplaced(self) -> bool:
        """Return whether the last snapshot of a main has played none of these matches."""
        roster, games = self._state.roster, self._state.placed.games
        placed = {name for pair, n in games.items() if n for name in pair}
        last = {int(i) for main in roster.mains() for i in roster.snapshots_of(roster.id(main))[-1:]}
        return any(roster.id(i) not in placed for i in last.intersection(_newest(roster).tolist()))

    def _fewest_seeds(self) -> int:
        """Return the seeds of a pair that has to play: fewer where matches take long, at least one."""
        if self._trained is None:
            return SEEDS[0]
        match_seconds = self._trained / self._state.totals.matches
        affordable = max(self._share * self._trained, LEAST_SECONDS) / (self._num_teams * match_seconds)
        return min(SEEDS[0], max(1, math.floor(affordable)))

    def _request(self, pairs: list[tuple[str, str]], seeds: int) -> PlayRequest:
        names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
        own = np.eye(self._num_teams, dtype=np.bool_)  # a seed is played once for each team
        by_team = [np.where(own, names.index(one), names.index(other)) for one, other in pairs]
        # ids count down
        number = np.arange(len(pairs) * seeds * self._num_teams) - self._state.placed.next_id
        table = MeasureTable(
            self._settings.env.id, self._teams, ROUND_ROBIN, stream_of(self._settings.seed, STREAM)
        )
        matches = table.matches(names, np.repeat(by_team, seeds, axis=0), number[:: self._num_teams], -number)
        seated = Seated({name: self._sources.of(self._state.roster[name]) for name in names})
        return seated.request(matches, (table.seed + int(number[0])) % 2**63)

    def take(self, played: Iterable[Played]) -> None:
        """Record the matches that were played; those that were lost with a runner are forgotten."""
        for _, rollout in played:
            self._state.apply(rollout.results)
            self._archive.append_results(rollout.results, [])

    def last_seconds(self, seconds: float) -> float:
        """Return the seconds that matches after so many seconds of training take, about."""
        totals = self._state.totals
        if self._share <= 0.0 or not totals.matches:
            return 0.0
        fewest = SEEDS[0] * self._num_teams * seconds / totals.matches
        return max((1.0 - WHILE) * self._share * seconds, min(LEAST_SECONDS, fewest))

    def deadline(self, seconds: float) -> Callable[[], bool]:
        """Return a function that is true once the matches after training have to end; Ctrl-C ends them.

        `seconds` of training: no more than the share of them is taken, unless the run can be repeated to the
        bit (in one process, to a number of env steps), or a last snapshot has not played yet.
        """
        exact = self._own is not None and self._settings.stop.minutes is None
        self._trained = None if exact else max(seconds, 1e-9)
        until = math.inf if exact else time.monotonic() + self._share * seconds
        least, latest = LATEST_SECONDS
        if self._settings.stop.minutes is not None:
            latest = min(latest, max(least, LATEST_SHARE * seconds))

        def over() -> bool:
            late = time.monotonic() - until
            return stopping() or late >= latest or (late >= 0.0 and not self._unplaced())

        self.until(lambda steps: over())
        return over


def _field(roster: Roster) -> Indices:
    """Return the seated snapshots of mains, or of all players in a league without mains: [n]."""
    mains = roster.snapshots(MAIN)
    return mains if len(mains) else roster.snapshots()


def _newest(roster: Roster) -> Indices:
    """Return those that are placed: [m]."""
    return _field(roster)[-max(NEWEST, 2 * len(roster.mains())) :]


def next_pairs(roster: Roster, standings: Standings, placed: Placed, most: int) -> list[tuple[str, str]]:
    """Return up to `most` pairs that have played least, none that has played enough, the newest first.

    At least one of each pair is among the newest snapshots of mains (of a league without mains: of all
    players). The others are those, the best rated, the oldest, and bots.
    """
    snapshots, newest = _field(roster), _newest(roster)
    if not len(snapshots):
        return []
    older = snapshots[: len(snapshots) - len(newest)]
    best = older[np.argsort(-standings.ratings.mu[older], kind="stable")[:BEST]]
    others = dict.fromkeys([*best.tolist(), *snapshots[:1].tolist()])
    fixed = [roster.id(i) for i in others if i not in newest] + [bot.name for bot in roster.bots[:BOTS]]
    names = [roster.id(i) for i in newest.tolist()[::-1]]
    pairs = [*itertools.combinations(names, 2), *itertools.product(names, fixed)]
    found = [pair for pair in pairs if placed.of(*pair) < ENOUGH]
    lacking = {name: sum(placed.games[pair_of(name, other)] for other in [*names, *fixed]) for name in names}
    found.sort(key=lambda pair: (placed.of(*pair), min(lacking.get(name, ENOUGH**2) for name in pair)))
    return found[:most]
