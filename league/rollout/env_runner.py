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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field

from league.envs import registry
from league.episode import Episodes
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.models.bots.settings import BotSettings
from league.models.networks.networks import trust_network
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from league.rollout.openings import OpeningMoves, Openings
from league.rollout.seats import Seats
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from league.rollout.traces.fingerprints import Fingerprints
from league.rollout.traces.order_of_play import OrderOfPlay
from league.rollout.traces.recorder import Recorder
from league.rollout.traces.results import Results
from league.rollout.traces.transcript import Transcript, chosen
from league.runtime import prepare_process
from league.section import Section
from storage.cache.node_cache import CacheSettings, NodeCache
from storage.cache.policy_map import TierInfo
from storage.records import MatchBatch, ResultBatch

MOST_AT_ONCE = 2**20  # matches: beyond, the arrays of the smallest game take gigabytes


class RolloutSettings(Section):
    """How matches are played."""

    slots: int = Field(
        default=1024, ge=1, le=MOST_AT_ONCE, description="Matches that one runner plays at the same time"
    )
    matches_per_request: int = Field(
        default=1024, ge=1, le=MOST_AT_ONCE, description="Matches asked of a runner at once"
    )
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
    openings: Openings | None = None  # how the matches begin; none: with what the players choose
    fingerprint: bool = False  # whether the results say which matches were the same (`ResultBatch.digest`)

    def __post_init__(self) -> None:
        if self.openings is not None and self.learners:
            raise ValueError(f"request: {self.learners} learn from openings, which they did not choose")


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
        trust: Sequence[str] = (),
    ) -> None:
        """`bots`: settings of those that need some, by name; `trust`: networks of the user's own that
        snapshots may be built from, as module:Class."""
        prepare_process(threads)
        for network in trust:
            trust_network(network)
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
        rng = np.random.default_rng(request.seed)
        results = Results(matches)
        transcript = Transcript(game, chosen(matches.seed, self._record_share))
        learners = _find_learners(request)
        opening = None if request.openings is None else OpeningMoves(game, request.openings, matches.seed)
        fingerprints = Fingerprints(game, len(matches)) if request.fingerprint else None
        seats = Seats(game, actors, [_temperature(source) for source in request.sources], learners)
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
                if opening is not None:
                    opening.begin(slots, fresh)
                results.began(fresh)
                game.reset(slots, matches.seed[fresh])
            if not game.active.any():
                break
            actions = []
            for block in game.due():
                action, taken, certain = seats.decide(block, rng)
                if opening is not None:
                    opening.make(block, action, certain)
                if fingerprints is not None:
                    fingerprints.decided(block, action, certain, match_of)
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
                results.ended(match_of[ended], score[ended], game.env_steps[ended], transition)
                if fingerprints is not None:
                    fingerprints.ended(match_of[ended], score[ended], transition.reason)
                free = np.concatenate([free, ended])
        episodes = {learners[who].player: recorder.episodes(matches) for who, recorder in recorders.items()}
        digest = None if fingerprints is None else fingerprints.digests()
        return results.batch(transcript.recordings(), digest), episodes

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


def _temperature(source: Source) -> float:
    """At which it decides."""
    return source.temperature if isinstance(source, SnapshotSource) else 1.0


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
