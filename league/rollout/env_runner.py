"""EnvRunner: plays a batch of matches at once, with any number of different competitors.

A request holds all inputs: the seats, the path of each snapshot's blob, the live players' weights.
Between requests a runner keeps only caches of immutable objects. Matches, decisions and steps are rows
of arrays, so one step in Python serves a thousand matches.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from league.envs import registry
from league.episode import Episodes
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.models.networks.networks import trust_network
from league.models.policies.mixture import Member, Mixture
from league.models.policies.policy import Policy
from league.rollout.openings import OpeningMoves
from league.rollout.requests import (
    BotSource,
    LiveSource,
    MixtureSource,
    PlayRequest,
    PlaySetup,
    RolloutInfo,
    Source,
)
from league.rollout.seats import Seats
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from league.rollout.traces.fingerprints import Fingerprints
from league.rollout.traces.recorder import Recorder
from league.rollout.traces.results import OrderOfPlay, Results
from league.rollout.traces.transcript import Transcript, chosen
from league.runtime import prepare_process
from storage.cache.node_cache import NodeCache
from storage.records import ResultBatch


class EnvRunner:
    """Runner for the matches of one game."""

    def __init__(self, setup: PlaySetup) -> None:
        """Prepare this process (torch threads, memory), admit the trusted networks, and make the game."""
        settings, cache = setup.rollout, setup.cache
        prepare_process(setup.threads)
        for network in setup.trust:
            trust_network(network)
        self._setup = setup
        self._others: dict[str, EnvRunner] = {}  # runners of other games, by id
        self._env_id = setup.env_id
        self._game = registry.make(
            setup.env_id, settings.slots, step_limit=settings.step_limit, **setup.env_options
        )
        self._record_share = settings.record
        self._device = settings.device
        self._snapshots = SnapshotPolicies(
            settings.policy_map_capacity,
            settings.policy_map_bytes,
            NodeCache(cache.folder, cache.max_bytes, cache.verify),
            settings.device,
        )
        self._bot_settings = setup.bots
        self._bots: dict[str, Actor] = {}

    def play(
        self, request: PlayRequest, live_weights: Mapping[str, Mapping[str, np.ndarray]]
    ) -> tuple[ResultBatch, RolloutInfo, dict[str, Episodes]]:
        """Play every match of the request; return results, costs and each learner's episodes.

        Its snapshots stay loaded meanwhile. Raise CorruptBlob or WeightsMismatch for a snapshot that cannot
        be loaded, ValueError for a learner that is not among the live competitors.
        """
        if request.env_options is not None:
            return self._other(request).play(replace(request, env_options=None), live_weights)
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

    def _other(self, request: PlayRequest) -> EnvRunner:
        """Return the runner of the request's game, made when it is first needed."""
        env_id, options = request.matches.env, request.env_options
        if env_id not in self._others:
            self._others[env_id] = EnvRunner(replace(self._setup, env_id=env_id, env_options=options or {}))
        return self._others[env_id]

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
                learned = learns
                if opening is not None:
                    made = opening.make(block, action, certain)
                    if learners and len(made):
                        learned = learns.copy()
                        learned[block.slot[made], block.seat[made]] = False
                if fingerprints is not None:
                    fingerprints.decided(block, action, certain, match_of)
                actions.append(action)
                transcript.decided(block, action, match_of)
                for who, own in taken:
                    recorders[who].decided(own, match_of, learned)
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
        if isinstance(source, MixtureSource):
            actors = [leases.enter_context(self._snapshots.lease(member)) for member in source.members]
            weighted = zip(actors, source.weights, source.members, strict=True)
            return Mixture([Member(a, weight, its.temperature) for a, weight, its in weighted], source.name)
        if isinstance(source, BotSource):
            if source.name not in self._bots:
                seated = seated_bot(source.name, self._env_id, self._game, self._bot_settings)
                self._bots[source.name] = seated.actor
            return self._bots[source.name]
        # copied: arrays from an object store are read-only, and torch has no read-only tensors
        weights = live_weights[source.player].items()
        tensors = {name: torch.tensor(array, device=self._device) for name, array in weights}
        return Policy(source.spec, tensors, source.player)


def _temperature(source: Source) -> float:
    """Return the temperature at which a competitor decides."""
    return source.temperature if isinstance(source, SnapshotSource) else 1.0


def _trust_networks(request: PlayRequest) -> None:
    """Trust the code of live players' policies: it comes from the user's config, unlike a snapshot's."""
    for source in request.sources:
        if isinstance(source, LiveSource):
            for path in source.spec.own_code:
                trust_network(path)


def _find_learners(request: PlayRequest) -> dict[int, LiveSource]:
    """Return the players that learn, by their index among the request's sources."""
    live = {
        source.player: (index, source)
        for index, source in enumerate(request.sources)
        if isinstance(source, LiveSource)
    }
    for learner in request.learners:
        if learner not in live:
            raise ValueError(f"request: learner '{learner}' is not among its live competitors")
    return dict(live[learner] for learner in request.learners)
