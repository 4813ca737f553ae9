"""EnvRunner: plays a batch of matches at once, with any number of different competitors.

A request holds all inputs: the seats, the path of each snapshot's blob, the live players' weights.
Between requests a runner keeps only caches of immutable objects and, if matches are played in fragments,
those that are unfinished. Matches, decisions and steps are rows of arrays, so one step in Python serves a
thousand matches.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from league.cluster.cards import TO_PLAY, card_errors, computing
from league.cluster.runtime import prepare_process
from league.envs import registry
from league.envs.base import BatchedGame
from league.episode import Episodes
from league.import_paths import trust
from league.models.actor import Actor
from league.models.bots.scripted import seated_bot
from league.models.policies.mixture import MixtureActor, MixtureMember
from league.models.policies.policy import Policy
from league.models.sending import sent
from league.rollout.guard import PlayStopped
from league.rollout.hand import WAITS, MatchHand, named
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
from storage.cache.node_cache import NodeCache
from storage.records import ResultBatch

Weights = Mapping[str, Mapping[str, np.ndarray]]  # of live players


@dataclass(slots=True)
class RunnerTable:
    """A game in which matches are played side by side, and those that are not over after a request."""

    env_id: str
    game: BatchedGame
    unfinished: MatchHand | None = None
    requests: int = 0  # played so far

    def ids_left(self) -> list[int]:
        """Return the ids of the matches that are not over."""
        return [] if self.unfinished is None else self.unfinished.matches.match_id.tolist()


class EnvRunner:
    """Runner for the matches of a league: those of one game, or of each game that its players bring."""

    def __init__(self, setup: PlaySetup) -> None:
        """Prepare this process (torch threads, memory), admit the trusted networks, and make the game."""
        settings, cache = setup.rollout, setup.cache
        prepare_process(setup.threads)
        trust(*setup.trust)
        self._setup = setup
        self._tables: dict[str, list[RunnerTable]] = {}  # by env
        self._table(setup.env_id)  # made at once, so that a game that cannot be made is known at once
        self.overdue: Callable[[int], bool] | None = None  # whether the run is over, at any step of a request
        self._snapshots = SnapshotPolicies(
            settings.policy_map_capacity,
            settings.policy_map_bytes,
            NodeCache(cache.folder, cache.max_bytes, cache.verify),
            settings.device,
            setup.peers,
        )
        self._bots: dict[tuple[str, str], Actor] = {}  # by env and name
        # of the players of the last request, with the arrays that were copied: while these are kept, nothing
        # else has their memory
        self._live_policies: dict[str, tuple[Mapping[str, np.ndarray], Policy]] = {}

    @property
    def game(self) -> BatchedGame:
        """The game that the runner was made for."""
        return self._table(self._setup.env_id).game

    def play(
        self, request: PlayRequest, live_weights: Weights
    ) -> tuple[ResultBatch, RolloutInfo, dict[str, Episodes]]:
        """Play the matches of the request; return results, costs and each learner's episodes.

        Each match is played to its end, or as far as `request.fragment` limits it, and so are those of an
        earlier request that go on: the results are of those that ended, the episodes of all. The others go on
        in the next such request. The request's snapshots stay loaded meanwhile. Raise CorruptBlob or
        WeightsMismatch for a snapshot that cannot be loaded, ValueError for a learner that is not among the
        live competitors, PlayStopped if the process is asked to end, CardBroken or CardFull for its GPU.
        """
        if self._setup.rollout.device == "cpu":
            return self._play(request, live_weights)
        with card_errors("play", TO_PLAY), computing(self._setup.precision):
            return self._play(request, live_weights)

    def _play(
        self, request: PlayRequest, live_weights: Weights
    ) -> tuple[ResultBatch, RolloutInfo, dict[str, Episodes]]:
        began = time.perf_counter()
        _trust_networks(request)
        whole = request.fragment.whole
        env_id = self._setup.env_id if request.env_options is None else request.matches.env
        table = self._table(env_id, request.env_options, free=whole)
        for player in self._live_policies.keys() - live_weights.keys():
            del self._live_policies[player]
        with contextlib.ExitStack() as leases:
            playing = self._begin(table, request, live_weights, leases)
            try:
                playing.run(request.fragment.steps)
            except PlayStopped:
                self._abandon_all()
                raise
            left = playing.cut()  # without matches of competitors that were withdrawn
        if request.fragment.weights == "began":
            left = left.with_actors(playing.actors())
        table.unfinished = left if len(left) else None
        batch, episodes = playing.results(), playing.episodes()
        batch = batch if whole else named(batch)
        tables = [each for tables in self._tables.values() for each in tables if each.unfinished is not None]
        info = RolloutInfo(
            env_steps=int(batch.env_steps.sum()),
            trained_steps={learner: own.num_steps for learner, own in episodes.items()},
            seconds=time.perf_counter() - began,
            process=f"{socket.gethostname()}:{os.getpid()}",
            tiers=self._snapshots.tiers(),
            unfinished=tuple(match for each in tables for match in each.ids_left()),
            unfinished_steps=sum(int(each.game.env_steps[each.game.active].sum()) for each in tables),
            crashes=playing.crashes(),
            failures=dict(playing.failures),
        )
        return batch, info, episodes

    def _begin(
        self, table: RunnerTable, request: PlayRequest, live_weights: Weights, leases: contextlib.ExitStack
    ) -> Playing:
        """Return the play of the request's matches, and of those at the table that go on."""
        table.requests += 1
        hand = MatchHand.of(request, table.requests)
        if table.unfinished is not None:
            sources = (*request.sources, *request.fragment.players)
            players = {source.player: source for source in sources if isinstance(source, LiveSource)}
            hand = _kept(table, request.fragment, players).joined(hand)
        return Playing(
            table.game,
            hand,
            [self._actor(source, table, hand, live_weights, leases) for source in hand.sources],
            _find_learners(hand.sources, request.learners),
            np.random.default_rng(request.seed),
            record=self._setup.rollout.record,
            fingerprint=request.fingerprint,
            keeps_memory=not request.fragment.whole,
            overdue=self.overdue,
            most_failures=request.failures,
            precision=self._setup.precision,
        )

    def _table(
        self, env_id: str, env_options: Mapping[str, Any] | None = None, *, free: bool = False
    ) -> RunnerTable:
        """Return the first table with this game, made when it is first needed.

        `env_options`: of a game that is not the runner's. `free`: the first at which no match is unfinished.
        """
        tables = self._tables.setdefault(env_id, [])
        for table in tables:
            if not (free and table.unfinished is not None):
                return table
        settings = self._setup.rollout
        options = self._setup.env_options if env_options is None else env_options
        game = registry.make(env_id, settings.slots, step_limit=settings.step_limit, **options)
        tables.append(RunnerTable(env_id, game))
        return tables[-1]

    def _abandon_all(self) -> None:
        for table in (table for tables in self._tables.values() for table in tables):
            table.game.abandon(np.flatnonzero(table.game.active))
            table.unfinished = None

    def _actor(
        self,
        source: Source,
        table: RunnerTable,
        hand: MatchHand,
        live_weights: Weights,
        leases: contextlib.ExitStack,
    ) -> Actor:
        """Return the actor of a hand's source: a live player's own of an earlier request, if it is kept."""
        if isinstance(source, SnapshotSource):
            return leases.enter_context(self._snapshots.lease(source))
        if isinstance(source, MixtureSource):
            actors = [leases.enter_context(self._snapshots.lease(member)) for member in source.members]
            weighted = zip(actors, source.weights, source.members, strict=True)
            return MixtureActor(
                [MixtureMember(a, weight, its.temperature) for a, weight, its in weighted], source.name
            )
        if isinstance(source, BotSource):
            key = (table.env_id, source.name)
            if key not in self._bots:
                setup = self._setup
                self._bots[key] = seated_bot(
                    source.name, table.env_id, table.game, setup.bots, setup.limits
                ).actor
            return self._bots[key]
        if (source.player, source.version) in hand.began:
            return hand.began[source.player, source.version]
        return self._live(source, live_weights[source.player])

    def _live(self, source: LiveSource, weights: Mapping[str, np.ndarray]) -> Policy:
        """Return the policy of a live player: that of the last request if its weights are the same."""
        kept = self._live_policies.get(source.player)
        if kept is None or kept[1].spec != source.spec or not _same_memory(kept[0], weights):
            # copied: arrays from an object store are read-only, and torch has no read-only tensors
            tensors = {name: torch.tensor(array) for name, array in weights.items()}
            device = torch.device(self._setup.rollout.device)
            kept = weights, Policy(source.spec, sent(tensors, device), source.player)
            self._live_policies[source.player] = kept
        return kept[1]


def _kept(table: RunnerTable, fragment: Fragment, players: Mapping[str, LiveSource]) -> MatchHand:
    """Return the unfinished matches of a table that go on; abandon the others."""
    assert table.unfinished is not None
    goes_on = np.isin(table.unfinished.matches.match_id, fragment.goes_on)
    slot = table.unfinished.slot[~goes_on]
    table.game.abandon(slot[slot != WAITS])
    kept = table.unfinished.take(np.flatnonzero(goes_on))
    return kept.with_newest(players) if fragment.weights == "newest" else kept


def _same_memory(kept: Mapping[str, np.ndarray], weights: Mapping[str, np.ndarray]) -> bool:
    """Return whether these are the same arrays, or an object store's views of the same."""
    return kept.keys() == weights.keys() and all(
        array.ctypes.data == kept[name].ctypes.data and array.shape == kept[name].shape
        for name, array in weights.items()
    )


def _trust_networks(request: PlayRequest) -> None:
    """Trust the code of live players' policies: it comes from the user's config, unlike a snapshot's."""
    for source in (*request.sources, *request.fragment.players):
        if isinstance(source, LiveSource):
            trust(*source.spec.own_code)


def _find_learners(sources: Sequence[Source], learners: Sequence[str]) -> dict[int, LiveSource]:
    """Return the players that learn, by their indices among the sources: one for each of their versions."""
    live = {who: source for who, source in enumerate(sources) if isinstance(source, LiveSource)}
    for learner in learners:
        if all(source.player != learner for source in live.values()):
            raise ValueError(f"request: learner '{learner}' is not among its live competitors")
    return {who: source for learner in learners for who, source in live.items() if source.player == learner}
