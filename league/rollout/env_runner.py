"""EnvRunner: plays a batch of matches at once, with any number of different competitors.

A request holds all inputs: the seats, the path of each snapshot's blob, the live players' weights.
Between requests a runner keeps only caches of immutable objects and, if matches are played in fragments,
those that are unfinished. Matches, decisions and steps are rows of arrays, so one step in Python serves a
thousand matches.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from league.envs import registry
from league.envs.base import BatchedGame
from league.episode import Episodes
from league.import_paths import trust
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.models.policies.mixture import Member, Mixture
from league.models.policies.policy import Policy
from league.rollout.guard.patience import PlayStopped
from league.rollout.hand import WAITS, Hand
from league.rollout.playing import Playing
from league.rollout.requests import (
    BotSource,
    Fragment,
    LiveSource,
    MixtureSource,
    PlayRequest,
    PlaySetup,
    RolloutInfo,
    Source,
)
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from league.runtime import prepare_process
from storage.cache.node_cache import NodeCache
from storage.records import ResultBatch

Weights = Mapping[str, Mapping[str, np.ndarray]]  # of live players


class EnvRunner:
    """Runner for the matches of one game."""

    def __init__(self, setup: PlaySetup) -> None:
        """Prepare this process (torch threads, memory), admit the trusted networks, and make the game."""
        settings, cache = setup.rollout, setup.cache
        prepare_process(setup.threads)
        trust(*setup.trust)
        self._setup = setup
        self._others: dict[str, EnvRunner] = {}  # runners of other games, by id
        self._env_id = setup.env_id
        self._make_game = functools.partial(
            registry.make, setup.env_id, settings.slots, step_limit=settings.step_limit, **setup.env_options
        )
        self._game = self._make_game()
        self._second_game: BatchedGame | None = None
        self._unfinished: Hand | None = None
        self.overdue: Callable[[int], bool] | None = None  # whether the run is over, at any step of a request
        self._crashes: Mapping[str, int] = {}  # of the last request
        self._age = 0  # fragments played so far
        self._record_share = settings.record
        self._device = settings.device
        self._snapshots = SnapshotPolicies(
            settings.policy_map_capacity,
            settings.policy_map_bytes,
            NodeCache(cache.folder, cache.max_bytes, cache.verify),
            settings.device,
            setup.peers,
        )
        self._bot_settings = setup.bots
        self._bots: dict[str, Actor] = {}

    def play(
        self, request: PlayRequest, live_weights: Weights
    ) -> tuple[ResultBatch, RolloutInfo, dict[str, Episodes]]:
        """Play every match of the request; return results, costs and each learner's episodes.

        With `request.fragment`, play a part of them and of those that an earlier request left: return the
        results of those that ended, and the episodes so far. The others go on in the next such request.
        The request's snapshots stay loaded meanwhile. Raise CorruptBlob or WeightsMismatch for a snapshot
        that cannot be loaded, ValueError for a learner that is not among the live competitors, PlayStopped
        if the process is asked to end.
        """
        if request.env_options is not None:
            return self._other(request).play(replace(request, env_options=None), live_weights)
        began = time.perf_counter()
        _trust_networks(request)
        with contextlib.ExitStack() as leases:
            if request.fragment is None:
                batch, episodes = self._play(request, live_weights, leases)
            else:
                batch, episodes = self._play_on(request, request.fragment, live_weights, leases)
        unfinished = self._unfinished
        info = RolloutInfo(
            env_steps=int(batch.env_steps.sum()),
            trained_steps={learner: own.num_steps for learner, own in episodes.items()},
            seconds=time.perf_counter() - began,
            process=f"{socket.gethostname()}:{os.getpid()}",
            tiers=self._snapshots.tiers(),
            unfinished=() if unfinished is None else tuple(unfinished.matches.match_id.tolist()),
            unfinished_steps=int(self._game.env_steps[self._game.active].sum()),
            crashes=self._crashes,
        )
        return batch, info, episodes

    def _other(self, request: PlayRequest) -> EnvRunner:
        """Return the runner of the request's game, made when it is first needed."""
        env_id, options = request.matches.env, request.env_options
        if env_id not in self._others:
            self._others[env_id] = EnvRunner(replace(self._setup, env_id=env_id, env_options=options or {}))
            self._others[env_id].overdue = self.overdue
        return self._others[env_id]

    def _play(
        self, request: PlayRequest, live_weights: Weights, leases: contextlib.ExitStack
    ) -> tuple[ResultBatch, dict[str, Episodes]]:
        """Play all matches of the request to their end."""
        playing = Playing(
            self._game_for_whole_matches(),
            Hand.of(request),
            [self._actor(source, live_weights, leases) for source in request.sources],
            _find_learners(request.sources, request.learners),
            np.random.default_rng(request.seed),
            record_share=self._record_share,
            fingerprint=request.fingerprint,
            overdue=self.overdue,
            precision=self._setup.precision,
        )
        self._run(playing)
        return playing.results(), playing.episodes()

    def _play_on(
        self,
        request: PlayRequest,
        fragment: Fragment,
        live_weights: Weights,
        leases: contextlib.ExitStack,
    ) -> tuple[ResultBatch, dict[str, Episodes]]:
        """Play a fragment of the request's matches, and of the unfinished ones that go on."""
        self._age += 1
        hand = Hand.of(request, self._age)
        if self._unfinished is not None:
            players = {
                s.player: s for s in (*request.sources, *fragment.players) if isinstance(s, LiveSource)
            }
            hand = self._kept(self._unfinished, fragment, players).joined(hand)
        actors = [self._going_on(source, hand, live_weights, leases) for source in hand.sources]
        playing = Playing(
            self._game,
            hand,
            actors,
            _find_learners(hand.sources, request.learners),
            np.random.default_rng(request.seed),
            record_share=self._record_share,
            fragments=True,
            overdue=self.overdue,
            precision=self._setup.precision,
        )
        self._run(playing, fragment.steps)
        left = playing.cut()
        if fragment.weights == "began":
            left = left.with_actors(dict(zip(hand.sources, actors, strict=True)))
        self._unfinished = left if len(left) else None
        return playing.finished(), playing.episodes()

    def _run(self, playing: Playing, steps: int | None = None) -> None:
        try:
            playing.run(steps)
        except PlayStopped:
            for game in filter(None, (self._game, self._second_game)):
                game.abandon(np.flatnonzero(game.active))
            self._unfinished = None
            raise
        self._crashes = playing.crashes()

    def _kept(self, unfinished: Hand, fragment: Fragment, players: Mapping[str, LiveSource]) -> Hand:
        """Return the unfinished matches that go on; abandon the others."""
        goes_on = np.isin(unfinished.matches.match_id, fragment.goes_on)
        slot = unfinished.slot[~goes_on]
        self._game.abandon(slot[slot != WAITS])
        kept = unfinished.take(np.flatnonzero(goes_on))
        return kept.with_newest(players) if fragment.weights == "newest" else kept

    def _going_on(
        self, source: Source, hand: Hand, live_weights: Weights, leases: contextlib.ExitStack
    ) -> Actor:
        """Return the actor of a hand's source: a live player's own of an earlier request, if it is kept."""
        if isinstance(source, LiveSource) and (source.player, source.version) in hand.began:
            return hand.began[source.player, source.version]
        return self._actor(source, live_weights, leases)

    def _game_for_whole_matches(self) -> BatchedGame:
        """Return a game without a match: another one while unfinished matches are in the first."""
        if self._unfinished is None:
            return self._game
        if self._second_game is None:
            self._second_game = self._make_game()
        return self._second_game

    def _actor(
        self,
        source: Source,
        live_weights: Weights,
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


def _trust_networks(request: PlayRequest) -> None:
    """Trust the code of live players' policies: it comes from the user's config, unlike a snapshot's."""
    others = () if request.fragment is None else request.fragment.players
    for source in (*request.sources, *others):
        if isinstance(source, LiveSource):
            trust(*source.spec.own_code)


def _find_learners(sources: Sequence[Source], learners: Sequence[str]) -> dict[int, LiveSource]:
    """Return the players that learn, by their indices among the sources: one for each of their versions."""
    live = {who: source for who, source in enumerate(sources) if isinstance(source, LiveSource)}
    for learner in learners:
        if all(source.player != learner for source in live.values()):
            raise ValueError(f"request: learner '{learner}' is not among its live competitors")
    return {who: source for learner in learners for who, source in live.items() if source.player == learner}
