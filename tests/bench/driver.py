"""How many matches a second the driver carries, with play and learning made free.

    python -m tests.bench.driver [--snapshots 10 1000] [--matches 1024] [--seconds 20] [--profile]

What is left is the loop itself: matchmaking, requests, results into ratings, tallies and payoffs, rows of the
ledger, written and synced. Opponents are drawn by prioritized fictitious self-play from so
many snapshots, with one update of the ratings for all requests that are ready together, as in training.

Beside matches per second of the clock it prints the processor's time for each match, which other work on the
machine changes less: of the loop's thread, and of the whole process (Parquet files come from
threads of their own).
"""

from __future__ import annotations

import contextlib
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

from league.config.loading import load
from league.config.settings import Settings
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.shard_learners import LearnerStopped, LearnReport, Recruit, Recruits
from league.learning.groups.shards import plan_shards
from league.models.policies.policy import initial_weights
from league.rollout.requests import PlayRequest, RolloutInfo
from league.rollout.runner_group import LostRequests, Rollout, RunnerGroup
from league.training.engine import Engine
from league.training.session import Session
from storage.archive import Archive
from storage.records import MAIN, LivePlayer, ResultBatch
from tests import made_up
from tests.bench.shared import parser_of

OUTCOMES = np.array([[0, 2], [2, 0], [1, 1]], np.int8)  # win, loss, draw
CHANCES = (0.5, 0.4, 0.1)
STEPS = 20  # of each match
DEPTH = 4  # requests under way


class Counting(RunnerGroup, Protocol):
    """A runner group that counts the matches that came back."""

    played: int


class MadeUp:
    """Results that are made up."""

    def __init__(self, matches: int) -> None:
        """`matches`: of one request at most."""
        rng = np.random.default_rng(0)
        self._outcome = OUTCOMES[rng.choice(len(OUTCOMES), size=4 * matches, p=CHANCES)]
        self._seconds = rng.random(4 * matches).astype(np.float32)

    def of(self, request: PlayRequest, process: str) -> tuple[ResultBatch, RolloutInfo]:
        """Return the results of a request, and what its play cost."""
        n = len(request.matches)
        first = int(request.matches.match_id[0]) % (len(self._outcome) - n)
        outcome = self._outcome[first : first + n]
        results = ResultBatch(
            matches=request.matches,
            outcome=outcome,
            score=outcome.astype(np.float32) - 1.0,
            rank=2 - outcome,
            env_steps=np.full(n, STEPS, np.int32),
            reason=np.zeros(n, np.int8),
            started_at=np.full(n, 1.7e9),
            seconds=self._seconds[first : first + n],
        )
        trained = dict.fromkeys(request.learners, n * STEPS // 2)
        return results, RolloutInfo(n * STEPS, trained, 1e-3, process, ())


class FreePlay:
    """A runner group whose matches are over as soon as they are asked for."""

    def __init__(self, matches: int) -> None:
        self._made_up = MadeUp(matches)
        self._queue: list[tuple[int, PlayRequest]] = []
        self.played = 0

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

    def until(self, overdue: Callable[[int], bool]) -> None:
        pass

    def parting(self) -> list[int]:
        return []

    def part(self, runner: int) -> None:
        raise NotImplementedError

    def losses(self) -> list[LostRequests]:
        return []

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


def settings_of(snapshots: int, matches: int) -> Settings:
    """One main, half of whose matches are against snapshots."""
    branches = {"self_play": {"share": 0.5}, "pfsp": {"share": 0.5}}
    return load(
        {
            "name": "driver",
            "env": {"id": "connect_four"},
            "policy": {"hidden": [8]},
            "league": {
                "preset": "none",
                "players": {"main": 1},
                "roles": {"main": {"opponents": {"branches": branches}}},
            },
            "rollout": {"matches_per_request": matches, "policy_map_capacity": snapshots + 2},
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


@contextlib.contextmanager
def league_of(
    snapshots: int,
    matches: int,
    runners: RunnerGroup,
    learning: Callable[..., LocalLearners] = FreeLearning,
) -> Iterator[Session]:
    """Yield a session that has begun, of one main with so many snapshots."""
    settings = settings_of(snapshots, matches)
    spec = settings.policy_spec("main-0", MAIN)
    with (
        tempfile.TemporaryDirectory() as folder,
        Archive.create(
            Path(folder) / "run", settings.to_yaml(), {"name": "driver", "env": "connect_four", "seed": 0}
        ) as archive,
    ):
        archive.add_player(LivePlayer("main-0", MAIN))
        for i in range(snapshots):
            made_up.add_snapshot(archive, i, initial_weights(spec, seed=i), spec.to_json())
        recruits = Recruits((Recruit("main-0", spec, settings.learner_of("main-0", MAIN), 0),))
        session = Session(settings, archive, Engine(runners, learning(plan_shards(0, ["main-0"]), recruits)))
        session.begin()
        yield session


def measure(
    snapshots: int,
    matches: int,
    seconds: float,
    profile: cProfile.Profile | None = None,
    runners: Counting | None = None,
    learning: Callable[..., LocalLearners] = FreeLearning,
) -> Figures:
    """Return the figures of a league with so many snapshots, with `runners` in place of free ones."""
    runners = runners or FreePlay(matches)
    with league_of(snapshots, matches, runners, learning) as session:
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
    before, turns = runners.played, [time.perf_counter()]
    loop, process = time.thread_time(), time.process_time()
    while len(turns) < 2 or turns[-1] - turns[0] < seconds:
        _turn(session)
        turns.append(time.perf_counter())
    loop, process = time.thread_time() - loop, time.process_time() - process
    played = max(runners.played - before, 1)
    return Figures(
        played / (turns[-1] - turns[0]), 1e6 * loop / played, 1e6 * process / played, np.diff(turns)
    )


def _turn(session: Session) -> None:
    session.ask()
    session.take()
    session.learn()
    session.decide()
    session.save()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--snapshots", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--matches", type=int, default=1024, help="of one request")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("snapshots  matches/s  us per match: loop  process", flush=True)
    for snapshots in arguments.snapshots:
        profile = cProfile.Profile(time.thread_time) if arguments.profile else None
        found = measure(snapshots, arguments.matches, arguments.seconds, profile)
        print(
            f"{snapshots:>9}  {found.rate:>9,.0f}  {found.loop:>18.2f}  {found.process:>7.2f}",
            flush=True,
        )
        if profile is not None:
            pstats.Stats(profile).sort_stats("tottime").print_stats(28)


if __name__ == "__main__":
    main()
