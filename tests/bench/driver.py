"""How many matches a second the driver carries, with play and learning made free.

    python -m tests.bench.driver [--seats 2 4 8 16] [--players 1 50] [--snapshots 10 1000] [--seconds 20]

What is left is the loop itself: matchmaking, requests, results into ratings, tallies and payoffs, rows of the
ledger, written and synced. Half of the matches are self-play. Opponents of the others are drawn by PFSP
from so many snapshots, with one update of the ratings for all requests that are ready
together, as in training. Each seat plays for itself, and a tenth of the matches ends with all seats level.

Beside matches per second of the clock it prints the processor's time for each match, which other work on the
machine changes less: of the loop's thread, and of the whole process (Parquet files come from
threads of their own); and the most matches that were recorded in one turn.
"""

from __future__ import annotations

import contextlib
import cProfile
import itertools
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from league.config.loading import load
from league.config.settings import Settings
from league.envs.games.connect_four import ConnectFour
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.shard_learners import LearnerStopped, LearnReport, Recruit, Recruits
from league.learning.groups.shards import plan_shards
from league.models.policies.policy import initial_weights
from league.rollout.requests import PlayRequest, RolloutInfo
from league.rollout.runner_group import Rollout, RunnerGroup
from league.training.engine import Engine
from league.training.session import Session
from storage.archive import Archive
from storage.records import MAIN, LivePlayer, Outcome, ResultBatch
from tests import made_up
from tests.bench.shared import parser_of

DRAWN = 0.1  # share of matches
STEPS = 20  # of each match
DEPTH = 4  # requests under way


class Shape(NamedTuple):
    """What a league is made of."""

    seats: int = 2
    players: int = 1
    snapshots: int = 10

    @property
    def names(self) -> list[str]:
        """Return the players' names."""
        return [f"main-{i}" for i in range(self.players)]


class Table(ConnectFour):
    """Connect Four for any number of seats, which nobody plays."""

    id: ClassVar[str] = "table"

    def __init__(self, num_slots: int, *, seats: int = 2, step_limit: int | None = None) -> None:
        self.num_seats = seats
        self.observation_spaces = ConnectFour.observation_spaces[:1] * seats
        self.action_spaces = ConnectFour.action_spaces[:1] * seats
        super().__init__(num_slots, step_limit=step_limit)


class Counting(RunnerGroup):
    """A runner group that counts the matches that came back."""

    played = 0


class MadeUp:
    """Results that are made up."""

    def __init__(self, matches: int, seats: int = 2) -> None:
        """`matches`: of one request at most."""
        rng = np.random.default_rng(0)
        drawn = rng.random((4 * matches, 1)) < DRAWN
        rank = np.argsort(rng.random((4 * matches, seats)), axis=1).astype(np.int8)
        self._rank = np.where(drawn, np.int8(0), rank)
        won = np.where(rank == 0, np.int8(Outcome.WIN), np.int8(Outcome.LOSS))
        self._outcome = np.where(drawn, np.int8(Outcome.DRAW), won)
        self._seconds = rng.random(4 * matches).astype(np.float32)

    def of(self, request: PlayRequest, process: str) -> tuple[ResultBatch, RolloutInfo]:
        """Return the results of a request, and what its play cost."""
        n = len(request.matches)
        first = int(request.matches.match_id[0]) % (len(self._outcome) - n)
        outcome = self._outcome[first : first + n]
        results = ResultBatch(
            matches=request.matches,
            outcome=outcome,
            score=1.0 - outcome.astype(np.float32),
            rank=self._rank[first : first + n],
            env_steps=np.full(n, STEPS, np.int32),
            reason=np.zeros(n, np.int8),
            started_at=np.full(n, 1.7e9),
            seconds=self._seconds[first : first + n],
        )
        trained = dict.fromkeys(request.learners, n * STEPS // 2)
        return results, RolloutInfo(n * STEPS, trained, 1e-3, process, ())


class FreePlay(Counting):
    """A runner group whose matches are over as soon as they are asked for."""

    def __init__(self, matches: int, seats: int = 2) -> None:
        self._made_up = MadeUp(matches, seats)
        self._queue: list[tuple[int, PlayRequest]] = []

    def room(self, each: int | None = None) -> int:
        return DEPTH - len(self._queue)

    def in_flight(self) -> int:
        return len(self._queue)

    def next_runner(self) -> int:
        return 0

    def submit(
        self,
        request_id: int,
        request: PlayRequest,
        live_weights: Mapping[str, Any],
        runner: int | None = None,
    ) -> None:
        self._queue.append((request_id, request))

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        done = [self._over(request_id, request) for request_id, request in self._queue]
        self._queue.clear()
        return done

    def _over(self, request_id: int, request: PlayRequest) -> Rollout:
        self.played += len(request.matches)
        return Rollout(request_id, *self._made_up.of(request, "bench:1"), dict.fromkeys(request.learners))

    def close(self) -> None:
        self._queue.clear()


class FreeLearning(LocalLearners):
    """Learners that never learn: experience is dropped where it arrives."""

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        pass

    def full(self, player: str) -> bool:
        return False

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        return []


def settings_of(shape: Shape, matches: int) -> Settings:
    """Mains, half of whose matches are against snapshots."""
    branches = {"self_play": {"share": 0.5}, "pfsp": {"share": 0.5}}
    return load(
        {
            "name": "driver",
            "env": {"id": "tests.bench.driver:Table", "options": {"seats": shape.seats}},
            "policy": {"hidden": [8]},
            "league": {
                "preset": "none",
                "players": {"main": shape.players},
                "roles": {"main": {"opponents": {"branches": branches}}},
            },
            "rollout": {"matches_per_request": matches, "policy_map_capacity": shape.snapshots + 2},
            "runners": 0,
            "stop": {"minutes": 1000},
        }
    )


class Figures(NamedTuple):
    """What a stretch of turns cost."""

    rate: float  # matches per second
    loop: float  # microseconds of the loop's thread for each match
    process: float  # microseconds of all threads for each match
    turns: npt.NDArray[np.float64]  # seconds of each turn
    most: int  # matches recorded in one turn


@contextlib.contextmanager
def league_of(
    shape: Shape,
    matches: int,
    runners: RunnerGroup,
    learning: Callable[..., LocalLearners] = FreeLearning,
) -> Iterator[Session]:
    """Yield a session that has begun."""
    settings = settings_of(shape, matches)
    spec = settings.policy_spec("main-0", MAIN)
    with (
        tempfile.TemporaryDirectory() as folder,
        Archive.create(
            Path(folder) / "run", settings.to_yaml(), {"name": "driver", "env": "table", "seed": 0}
        ) as archive,
    ):
        for name in shape.names:
            archive.add_player(LivePlayer(name, MAIN))
        for i in range(shape.snapshots):
            weights, player = initial_weights(spec, seed=i), shape.names[i % shape.players]
            made_up.add_snapshot(archive, i, weights, spec.to_json(), player=player)
        learner = settings.learner_of("main-0", MAIN)
        recruits = Recruits(tuple(Recruit(name, spec, learner, 0) for name in shape.names))
        session = Session(settings, archive, Engine(runners, learning(plan_shards(0, shape.names), recruits)))
        session.begin()
        yield session


def measure(
    shape: Shape,
    matches: int,
    seconds: float,
    profile: cProfile.Profile | None = None,
    runners: Counting | None = None,
    learning: Callable[..., LocalLearners] = FreeLearning,
) -> Figures:
    """Return the figures of a league, with `runners` in place of free ones."""
    runners = runners or FreePlay(matches, shape.seats)
    with league_of(shape, matches, runners, learning) as session:
        _turns(session, runners, seconds / 4)
        if profile is not None:
            profile.enable()
        try:
            return _turns(session, runners, seconds)
        finally:
            if profile is not None:
                profile.disable()


def _turns(session: Session, runners: Counting, seconds: float) -> Figures:
    """Take turns for so long, at least one."""
    before, turns, recorded = runners.played, [time.perf_counter()], [session.totals.matches]
    loop, process = time.thread_time(), time.process_time()
    while len(turns) < 2 or turns[-1] - turns[0] < seconds:
        _turn(session)
        turns.append(time.perf_counter())
        recorded.append(session.totals.matches)
    loop, process = time.thread_time() - loop, time.process_time() - process
    played = max(runners.played - before, 1)
    return Figures(
        played / (turns[-1] - turns[0]),
        1e6 * loop / played,
        1e6 * process / played,
        np.diff(turns),
        int(np.diff(recorded).max()),
    )


def _turn(session: Session) -> None:
    session.ask()
    session.take()
    session.learn()
    session.decide()
    session.save()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seats", type=int, nargs="+", default=[2])
    parser.add_argument("--players", type=int, nargs="+", default=[1])
    parser.add_argument("--snapshots", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--matches", type=int, default=1024, help="of one request")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("seats  players  snapshots  matches/s  us per match: loop  process  most in a turn", flush=True)
    for shape in itertools.starmap(
        Shape, itertools.product(arguments.seats, arguments.players, arguments.snapshots)
    ):
        profile = cProfile.Profile(time.thread_time) if arguments.profile else None
        found = measure(shape, arguments.matches, arguments.seconds, profile)
        print(
            f"{shape.seats:>5}  {shape.players:>7}  {shape.snapshots:>9}  {found.rate:>9,.0f}  "
            f"{found.loop:>18.2f}  {found.process:>7.2f}  {found.most:>14,}",
            flush=True,
        )
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(28)


if __name__ == "__main__":
    main()
