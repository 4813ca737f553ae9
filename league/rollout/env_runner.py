"""EnvRunner: plays a batch of matches at once, against as many opponents as are seated.

Everything it needs comes with the request: who sits where, where each snapshot's blob lies, the
live players' weights. It keeps nothing between requests but caches of immutable things. Inside,
matches, decisions and steps are rows of arrays; one Python step serves a thousand matches.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field

from league.envs import registry
from league.episode import Episodes
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.models.bots.settings import BotSettings
from league.models.networks import trust_network
from league.models.policy import Policy
from league.models.spec import PolicySpec
from league.rollout.order_of_play import OrderOfPlay
from league.rollout.outcomes import placed
from league.rollout.recorder import Recorder
from league.rollout.seats import Seats
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from league.rollout.transcript import Transcript, chosen
from league.runtime import prepare_process
from storage.node_cache import CacheSettings, NodeCache
from storage.policy_map import TierInfo
from storage.records import EndReason, MatchBatch, Recordings, ResultBatch


class RolloutSettings(BaseModel):
    """How matches are played."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    slots: int = Field(default=1024, ge=1, description="Matches that one runner plays at the same time")
    matches_per_request: int = Field(default=1024, ge=1, description="Matches asked of a runner at once")
    requests_in_flight: int = Field(
        default=2, ge=1, description="Requests that wait at or play on one runner"
    )
    step_limit: int | None = Field(
        default=None, ge=1, description="Decisions after which a match is truncated"
    )
    policy_map_capacity: int = Field(
        default=64, ge=1, description="Snapshots that one runner keeps at hand, beside those it is playing"
    )
    policy_map_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Bytes of weights that one runner keeps at hand; none: by number alone",
    )
    record: float = Field(
        default=0.0, ge=0, le=1, description="Share of matches whose actions are kept, to play them again"
    )
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="Where policies compute when they play")


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A player as it plays now; its weights come beside the request, under its name."""

    player: str
    version: int
    spec: PolicySpec


@dataclass(frozen=True, slots=True)
class BotSource:
    """A scripted competitor."""

    name: str


Source = SnapshotSource | LiveSource | BotSource


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """Matches to play, and where each of `matches.competitors` comes from, in the same order."""

    matches: MatchBatch
    sources: tuple[Source, ...]
    learners: tuple[str, ...]  # the players whose learning seats leave as episodes
    seed: int  # of the actions that are sampled


@dataclass(frozen=True, slots=True)
class RolloutInfo:
    """What the playing of one request cost."""

    env_steps: int
    trained_steps: Mapping[str, int]  # by learner
    seconds: float
    process: str  # that played it: host and pid
    tiers: tuple[TierInfo, ...]  # of its caches, since it began; the nearest first


class EnvRunner:
    """Plays matches of one game."""

    def __init__(
        self,
        env_id: str,
        env_options: Mapping[str, Any],
        settings: RolloutSettings,
        threads: int = 1,
        cache: CacheSettings = CacheSettings(),  # noqa: B008  # frozen
        bots: Mapping[str, BotSettings] | None = None,
    ) -> None:
        """`bots`: settings of those that need some, by name."""
        prepare_process(threads)
        self._env_id = env_id
        self._game = registry.make(
            env_id, settings.slots, step_limit=settings.step_limit, **dict(env_options)
        )
        self._record_share = settings.record
        self._device = settings.device
        self._snapshots = SnapshotPolicies(
            settings.policy_map_capacity,
            settings.policy_map_bytes,
            NodeCache(cache.folder, cache.max_bytes, cache.verify),
            settings.device,
        )
        self._bot_settings = dict(bots or {})
        self._bots: dict[str, Actor] = {}

    def play(
        self, request: PlayRequest, live_weights: Mapping[str, Mapping[str, np.ndarray]]
    ) -> tuple[ResultBatch, RolloutInfo, dict[str, Episodes]]:
        """Play every match of the request to its end; the episodes are those of each learner. The snapshots
        of the request stay at hand for as long.
        """
        began = time.perf_counter()
        _trust_networks(request)
        with contextlib.ExitStack() as leases:
            actors = [self._actor(source, live_weights, leases) for source in request.sources]
            batch, episodes = self._play(request, actors)
        info = RolloutInfo(
            env_steps=int(batch.env_steps.sum()),
            trained_steps={learner: own.num_steps for learner, own in episodes.items()},
            seconds=time.perf_counter() - began,
            process=f"{socket.gethostname()}:{os.getpid()}",
            tiers=self._snapshots.tiers(),
        )
        return batch, info, episodes

    def _play(self, request: PlayRequest, actors: list[Actor]) -> tuple[ResultBatch, dict[str, Episodes]]:
        game, matches = self._game, request.matches
        greedy = [isinstance(source, SnapshotSource) and source.greedy for source in request.sources]
        rng = np.random.default_rng(request.seed)
        results = _Results(matches)
        transcript = Transcript(game, chosen(matches.seed, self._record_share))
        learners = _find_learners(request)
        seats = Seats(game, actors, greedy, learners)
        recorders = {
            who: Recorder(game, source.player, source.version, source.spec)
            for who, source in learners.items()
        }
        score = np.zeros((game.num_slots, game.num_seats), dtype=np.float32)
        match_of = np.zeros(game.num_slots, dtype=np.int64)
        learns = np.zeros((game.num_slots, game.num_seats), dtype=np.bool_)
        order = OrderOfPlay(matches)
        free = np.arange(min(game.num_slots, len(matches)))
        while True:
            fresh = order.begin(len(free), not game.active.any())
            if len(fresh):
                slots, free = np.split(free, [len(fresh)])
                match_of[slots], learns[slots] = fresh, matches.learning[fresh]
                seats.begin(slots, matches.seat[fresh])
                score[slots] = 0.0
                results.started_at[fresh] = time.time()
                game.reset(slots, matches.seed[fresh])
            if not game.active.any():
                break
            actions = []
            for block in game.due():
                action, taken = seats.decide(block, rng)
                actions.append(action)
                transcript.decided(block, action, match_of)
                for who, own in taken:
                    recorders[who].decided(own, match_of, learns)
            transition = game.step(actions)
            score += transition.rewards
            seats.rewarded(transition.rewards)
            for recorder in recorders.values():
                recorder.rewarded(transition.rewards)
            ended = transition.ended
            if len(ended):
                for who, recorder in recorders.items():
                    recorder.ended(transition, match_of, functools.partial(seats.shown_to, who))
                results.fill(match_of[ended], score[ended], game.env_steps[ended], transition)
                free = np.concatenate([free, ended])
        episodes = {learners[who].player: recorder.episodes(matches) for who, recorder in recorders.items()}
        return results.batch(transcript.recordings()), episodes

    def _actor(
        self,
        source: Source,
        live_weights: Mapping[str, Mapping[str, np.ndarray]],
        leases: contextlib.ExitStack,
    ) -> Actor:
        if isinstance(source, SnapshotSource):
            return leases.enter_context(self._snapshots.lease(source))
        if isinstance(source, BotSource):
            if source.name not in self._bots:
                seated = seated_bot(source.name, self._env_id, self._game, self._bot_settings)
                self._bots[source.name] = seated.actor
            return self._bots[source.name]
        # copied: arrays that came through an object store are read-only, which torch cannot express
        weights = live_weights[source.player].items()
        tensors = {name: torch.tensor(array, device=self._device) for name, array in weights}
        return Policy(source.spec, tensors, source.player)


def _trust_networks(request: PlayRequest) -> None:
    """What a live player plays with stands in the config of whoever runs this; a snapshot's need not."""
    for source in request.sources:
        if isinstance(source, LiveSource) and ":" in source.spec.architecture:
            trust_network(source.spec.architecture)


def _find_learners(request: PlayRequest) -> dict[int, LiveSource]:
    """The players that learn, by their index among the request's sources."""
    live = {
        source.player: (index, source)
        for index, source in enumerate(request.sources)
        if isinstance(source, LiveSource)
    }
    for learner in request.learners:
        if learner not in live:
            raise ValueError(f"request: learner '{learner}' is not among its live competitors")
    return dict(live[learner] for learner in request.learners)


class _Results:
    """The results of a batch of matches, while they come in."""

    def __init__(self, matches: MatchBatch) -> None:
        m, s = matches.seat.shape
        self.matches = matches
        self.score = np.zeros((m, s), dtype=np.float32)
        self.forfeited = np.zeros((m, s), dtype=np.bool_)
        self.env_steps = np.zeros(m, dtype=np.int32)
        self.reason = np.full(m, EndReason.CRASH, dtype=np.int8)
        self.started_at = np.zeros(m, dtype=np.float64)
        self.ended_at = np.zeros(m, dtype=np.float64)

    def fill(
        self, rows: npt.NDArray[np.int64], score: npt.NDArray, env_steps: npt.NDArray, transition: Any
    ) -> None:
        self.score[rows] = score
        self.env_steps[rows] = env_steps
        self.reason[rows] = transition.reason
        self.forfeited[rows] = transition.forfeited
        self.ended_at[rows] = time.time()

    def batch(self, recordings: Recordings | None) -> ResultBatch:
        teams = self.matches.team_of_seat
        team = None if teams is None else np.array(teams)
        outcome, rank = placed(self.score, self.forfeited, team)
        return ResultBatch(
            matches=self.matches,
            outcome=outcome,
            score=self.score,
            rank=rank,
            env_steps=self.env_steps,
            reason=self.reason,
            started_at=self.started_at,
            seconds=(self.ended_at - self.started_at).astype(np.float32),
            recordings=recordings,
        )
