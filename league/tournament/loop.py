"""THE TOURNAMENT: pairings are drawn, played, rated and recorded, round by round.

    round     the schedule returns the pairings of the next round, given the results of all earlier rounds
    ask       runners get the matches in requests of whole pairs
    take      results are rated and recorded in the order of the requests, each as one acknowledged batch

A round is a function of the settings and of the recorded results. The result of a request is a function
of the request. So a tournament that was killed goes on with exactly the games that it would have played,
with any number of runners, and its ledger ends like that of a tournament that never stopped. Rounds that
another version drew otherwise are taken as they were recorded.

A tournament that goes on with more pairs or more competitors plays one stage after the other
(league/tournament/stages.py): what earlier stages recorded is remembered, then the last one plays the rest.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.gates.names import SHOWN
from analysis.statistics.forfeits import failures_of, most_failures, playing, withdrawn
from analysis.statistics.games import games_of
from league.arena.arena import Seated
from league.arena.matches import MeasureTable, drawn_seed
from league.envs.adapters.gymnasium.seats import following
from league.rollout.runner_group import Rollout, RunnerGroup
from league.rules.roster import Roster
from league.rules.standings import Standings
from league.tournament.schedules import make_schedule
from league.tournament.schedules.schedule import Pairings, Round
from league.tournament.settings import Resolved
from league.tournament.stages import Stage, rounds_of
from storage.archive import Archive
from storage.arrays import Indices
from storage.errors import Failure
from storage.incidents import Incident, forfeits, withdrawal
from storage.records import DrawnPair, Entrant, MatchBatch, ResultBatch

MOST_LOSSES = 4  # losses of one request before the tournament fails
WAIT_SECONDS = 0.1  # longest wait between two updates of the screen and checks for Ctrl-C


class Interrupted(Failure):
    """Stop of a tournament before its end; all acknowledged results are saved."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Progress of a tournament."""

    pairs: int  # recorded
    total_pairs: int  # upper bound
    games: int  # recorded
    resumed_games: int  # of these, recorded by earlier sessions


Observer = Callable[[Standing], None]


class Tournament:
    """Tournament in one process, new or resumed."""

    def __init__(
        self,
        settings: Resolved,
        entrants: Sequence[Entrant],
        table: MeasureTable,
        stages: Sequence[Stage],
        archive: Archive,
        start: Callable[[], tuple[RunnerGroup, Seated]],
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """`archive` holds the entrants and earlier results; `start` is called when the first match is due.

        `tell` receives a sentence on each incident.

        `stages` are those of the archive, with one at least.

        So a tournament that is over can be shown even if its entrants no longer exist.
        """
        self._settings, self._archive, self._table, self._start = settings, archive, table, start
        self._names = [entrant.competitor for entrant in entrants]
        config = settings.model_dump()
        self._envs, self._tell = following(config), tell
        self._most, self._failed = most_failures(config, self._names), Counter[str]()
        self._gone: set[str] = set()  # withdrawn competitors, by what is recorded
        self._causes = {(incident.who, incident.cause) for incident in archive.incidents()}
        self._stages = stages
        self._total_pairs = 0
        self._standings = Standings(Roster(entrants), settings.ratings, teams=table.team_of_seat)
        self._recorded = deque(archive.results())  # results of earlier sessions, until their round comes
        self._rounds = rounds_of(archive.run, self._recorded, self._names, table.games)  # as they drew them
        self._resumed_games = sum(map(len, self._recorded))
        self._first = 0  # number of the first pair of the next round
        self._round: tuple[int, int, Round] | None = None  # being played: its number, its first pair's, draw
        self._met = Counter[tuple[int, ...]]()  # pairs of each pairing so far, where each has its own turns
        self._turns: Indices = np.zeros(0, np.int64)  # of the round's pairs [n], at the lines of a book
        self._games = 0
        self._taken = 0  # requests whose results are remembered or recorded

    def run(self, interrupted: threading.Event, observe: Observer) -> str | None:
        """Play to the end and return the conclusion of the schedule, if it has one. Raise Interrupted."""
        history: list[Pairings] = []
        played: list[ResultBatch] = []
        conclusion: str | None = None
        for number, stage in enumerate(self._stages):
            names = self._names[: stage.field]
            schedule = make_schedule(stage.schedule, names, self._table.num_teams, tuple(history))
            self._total_pairs = schedule.total_pairs()
            watched = schedule.goes_by_results or number + 1 < len(self._stages)
            while stage.requests is None or self._taken < stage.requests:
                # all rounds together, as in the verdict, so that repeats of earlier pairs are left out
                games = games_of(
                    played if schedule.goes_by_results else [], names, self._settings.rules.rule()
                )
                rng = np.random.default_rng([self._settings.seed, len(history)])
                drawn = self._as_recorded(len(history), schedule.next_round(history, games, rng))
                if drawn is None:
                    conclusion = schedule.conclusion(games)
                    break
                self._round = len(history), self._first, drawn
                results, whole = self._play(drawn.pairings, stage.requests, interrupted, observe)
                history.append(drawn.pairings[:whole])
                if watched:
                    played += [dataclasses.replace(batch, recordings=None) for batch in results]
        observe(self.standing())
        return conclusion

    def _as_recorded(self, number: int, drawn: Round | None) -> Round | None:
        """Return the round with this number, as it was recorded if another version drew it otherwise."""
        recorded = self._rounds.get(number)
        if recorded is None or (
            drawn is not None and np.array_equal(drawn.pairings[: len(recorded)], recorded)
        ):
            return drawn
        return Round(recorded)

    def standing(self) -> Standing:
        """Return the progress so far."""
        pairs = self._games // self._table.games
        total = max(pairs, self._total_pairs)
        return Standing(pairs, total, self._games, self._resumed_games)

    def _play(
        self, pairings: Pairings, most: int | None, interrupted: threading.Event, observe: Observer
    ) -> tuple[list[ResultBatch], int]:
        """Play one round and return its results, request by request, and the number of its pairs.

        A stage that has ended has `most` requests; of its last round only those before that are remembered.
        """
        size = max(1, self._settings.rollout.matches_per_request // self._table.games)
        requests, chunk = self._requests(pairings, size)
        results: list[ResultBatch] = []
        while (
            len(results) < len(requests) and self._taken != most and self._remembers(requests[len(results)])
        ):
            results.append(self._remember(requests[len(results)]))
        observe(self.standing())
        left, whole = len(results), len(pairings)
        if most is not None and left < len(requests):
            whole = chunk[left] * size  # a chunk of which a part is missing is not counted
            numbered = min(len(pairings), (chunk[left - 1] + 1) * size)
            self._first -= len(pairings) - numbered
            self._met.subtract(map(_pairing, pairings[numbered:].tolist()))
        elif left < len(requests):
            self._play_on(requests, results, interrupted, observe)
        return results, whole

    def _play_on(
        self,
        requests: list[MatchBatch],
        results: list[ResultBatch],
        interrupted: threading.Event,
        observe: Observer,
    ) -> None:
        """Play the matches of those requests that have no `results` yet, and append those."""
        runners, seated = self._start()
        asked = len(results)
        losses: Counter[int] = Counter()  # number of runners that died on each request
        again: deque[int] = deque()  # requests that were lost, to be played again
        early: dict[int, Rollout] = {}  # what came before the results of an earlier request
        while len(results) < len(requests):
            if interrupted.is_set():
                raise Interrupted(
                    f"{self._archive.run}: interrupted after {self._games // self._table.games:,} of "
                    f"{self.standing().total_pairs:,} pairs; everything is saved: --resume goes on"
                )
            while again and runners.room() > 0:
                lost = again.popleft()
                self._ask(runners, lost, seated, requests[lost])
            while asked < len(requests) and runners.room() > 0:
                self._ask(runners, asked, seated, requests[asked])
                asked += 1
            for rollout in runners.ready(WAIT_SECONDS):
                early[rollout.request_id] = rollout
            for loss in runners.losses():
                again += loss.requests
                if loss.suspect is not None:
                    losses[loss.suspect] += 1
                    if losses[loss.suspect] == MOST_LOSSES:
                        raise Failure(self._explain_losses(requests[loss.suspect]))
            while len(results) < asked and (
                len(results) in early or not len(self._still(requests[len(results)]))
            ):
                number = len(results)
                done = self._record(early.pop(number)) if number in early else _none(requests[number])
                results.append(done)
            observe(self.standing())

    def _requests(self, pairings: Pairings, size: int) -> tuple[list[MatchBatch], list[int]]:
        """Return the matches of a round, with numbers that continue those before, split into requests.

        Each chunk of `size` pairs is one request, or one for each env that its matches are played in. With
        the requests comes the number of each one's chunk.
        """
        first, self._first = self._first, self._first + len(pairings)
        self._turns = np.arange(first, self._first)
        if self._settings.opening.book is not None and self._settings.opening.book_per == "pairing":
            for row, pairing in enumerate(map(_pairing, pairings.tolist())):
                self._turns[row] = self._met[pairing]
                self._met[pairing] += 1
        whole = [
            self._table.pairs(self._names, pairings[start : start + size], first + start)
            for start in range(0, len(pairings), size)
        ]
        parts = [
            (part, number)
            for number, matches in enumerate(whole)
            for part in self._envs.split(matches, lambda name: name)
        ]
        return [part for part, _ in parts], [number for _, number in parts]

    def _ask(self, runners: RunnerGroup, number: int, seated: Seated, matches: MatchBatch) -> None:
        """Submit the request with this number, unless all of its matches are of withdrawn competitors."""
        seed = drawn_seed(self._settings.seed, int(matches.match_id[0]))
        matches = self._still(matches)
        if not len(matches):
            return
        openings = seated.openings
        if openings is not None and openings.book and self._round is not None:
            row = matches.match_id // self._table.games - self._round[1]
            line = self._turns[row] % len(openings.book)
            seated = dataclasses.replace(seated, openings=dataclasses.replace(openings, line=line))
        most = {name: count - self._failed[name] for name, count in self._most.items()}
        runners.submit(number, dataclasses.replace(seated.request(matches, seed), failures=most), {})

    def _explain_losses(self, matches: MatchBatch) -> str:
        names = matches.competitors
        some = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
        return (
            f"{self._archive.run}: {MOST_LOSSES} runners died one after the other while they played the same "
            f"{len(matches)} matches of {some}; does one of these end its process, or need more "
            "memory than there is? What came before is saved: --resume --runners 0 goes on and shows it"
        )

    def _record(self, rollout: Rollout) -> ResultBatch:
        results = rollout.results
        results = results.take(playing(results.matches, self._gone))
        for incident in forfeits(rollout.info.failures, self._causes):
            self._note(incident)
        if len(results):
            changes = self._standings.record(results)
            self._archive.append_results(results, changes, self._drawn(results))
        for name in self._count(results):
            self._note(withdrawal(name, self._failed[name]))
        return results

    def _note(self, incident: Incident) -> None:
        self._archive.append_incidents([incident])
        self._tell(incident.sentence())

    def _count(self, results: ResultBatch) -> list[str]:
        """Count the recorded results of one request, and return those that are withdrawn by them."""
        self._games += len(results)
        self._taken += len(results) > 0
        self._failed += failures_of(results)
        new = [n for n, most in self._most.items() if self._failed[n] >= most and n not in self._gone]
        self._gone.update(new)
        return new

    def _still(self, matches: MatchBatch) -> MatchBatch:
        """Return the matches without those of withdrawn competitors."""
        return matches.take(playing(matches, self._gone)) if self._gone else matches

    def _drawn(self, results: ResultBatch) -> list[DrawnPair]:
        """Return how the pairs were drawn that begin with these results; none where all was fixed before."""
        assert self._round is not None
        number, first, drawn = self._round
        probability, standing = drawn.probability, drawn.standing
        if probability is None:
            return []
        begins = results.matches.match_id[results.matches.match_id % self._table.games == 0]
        rows = (begins // self._table.games - first).tolist()
        known = [
            {} if standing is None else {self._names[i]: float(standing[i]) for i in drawn.pairings[row]}
            for row in rows
        ]
        return [
            DrawnPair((first + row) * self._table.games, number, float(probability[row]), state)
            for row, state in zip(rows, known, strict=True)
        ]

    def _remembers(self, asked: MatchBatch) -> bool:
        """Return whether nothing of this request is left to play: it is recorded, or all are withdrawn."""
        return bool(self._recorded) or not len(self._still(asked))

    def _remember(self, asked: MatchBatch) -> ResultBatch:
        """Return the recorded results of a request of an earlier session. Raise Failure if it differs.

        Matches of competitors that were withdrawn then or before are not among them.
        """
        asked = self._still(asked)
        if not len(asked):
            return _none(asked)
        results = self._recorded.popleft()
        kept = asked.take(np.flatnonzero(np.isin(asked.match_id, results.matches.match_id)))
        gone = withdrawn([results], {name: n - self._failed[name] for name, n in self._most.items()})
        same = (
            len(kept) == len(results)
            and len(playing(asked, gone)) == len(playing(kept, gone))
            and (results.matches.seed == kept.seed).all()
            and (_seated(results.matches) == _seated(kept)).all()
        )
        if not same:
            raise Failure(
                f"{self._archive.run}: match {int(results.matches.match_id[0])} is recorded as another one "
                "than these settings lead to; was the tournament begun by another version? Start a new one"
            )
        self._standings.record(results)
        self._count(results)
        return results


def _pairing(competitors: Sequence[int]) -> tuple[int, ...]:
    """Return those who meet in a pair, whatever their order."""
    return tuple(sorted(competitors))


def _seated(matches: MatchBatch) -> npt.NDArray:
    """Return [M, num_seats] the names of the competitors in all seats."""
    return np.array(matches.competitors, dtype=object)[matches.seat]


def _none(matches: MatchBatch) -> ResultBatch:
    """Return the results of none of the matches."""
    none, seats = np.zeros(0), np.zeros((0, matches.num_seats))
    return ResultBatch(
        matches.take(np.zeros(0, dtype=np.int64)),
        outcome=seats.astype(np.int8),
        score=seats.astype(np.float32),
        rank=seats.astype(np.int8),
        env_steps=none.astype(np.int32),
        reason=none.astype(np.int8),
        started_at=none,
        seconds=none.astype(np.float32),
    )
