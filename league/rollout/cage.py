"""Cage: a process of a runner's own in which it plays, so that a game which ends its process costs little.

A runner that takes the place of one that died while it played is caged. It makes no game itself: it forks a
process that does, and hands requests on to it. When that process dies or does not answer, the runner lives;
the request has failed (`PlayKilled`), and the next one is played by a new fork. That takes hundredths of a
second where a new runner takes seconds, so the match that kills is soon found: what was lost is played again
in ever smaller parts (`league.training.state.under_way`).

Whole matches beside which others go on (`fragment_steps`) are played in a second process, so that they alone
are to blame for its death. The forked process never calls Ray, whose threads it does not have.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from league.cluster.answers import FIRST_SECONDS, Times
from league.episode import Episodes
from league.forked import Died, Forked
from league.rollout.env_runner import EnvRunner, Weights
from league.rollout.requests import MixtureSource, PlayRequest, PlaySetup, RolloutInfo
from league.rollout.snapshots import SnapshotSource, lease_blob
from storage.cache.node_cache import NodeCache
from storage.records import ResultBatch

SEARCH = 6.0  # after a hang, several matches get that part of the patience: they are only divided
LEAST_SEARCH_SECONDS = 2.0

Played = tuple[ResultBatch, RolloutInfo, dict[str, Episodes]]


class PlayKilled(Exception):
    """A request ended the process that played it, or got no answer from it; the runner lives.

    `others_go_on`: the runner still has the matches that went on beside the request.
    """

    def __init__(self, how: str, others_go_on: bool = False) -> None:
        super().__init__(how, others_go_on)
        self.how, self.others_go_on = how, others_go_on


class Cage:
    """Plays requests in forked processes: one for all, another for what is played alone."""

    def __init__(self, setup: PlaySetup) -> None:
        """Prepare; the first request forks."""
        self._setup, self._peers = replace(setup, peers=None), setup.peers
        self._node = NodeCache(setup.cache.folder, setup.cache.max_bytes, setup.cache.verify)
        self._times = Times(setup.patience)
        self._inmates: dict[bool, Forked] = {}  # by whether it is for what is played alone
        self._modules: set[str] = set()  # that were imported where something was played
        self._hung = False  # whether the last process that died had hung
        self.unfinished: tuple[int, ...] = ()  # ids of matches that go on
        self._unfinished_steps = 0

    def play(self, request: PlayRequest, live_weights: Weights) -> Played:
        """Play the request, as `EnvRunner.play` does. Raise PlayKilled if that ends the process."""
        alone = request.fragment.whole and bool(self.unfinished)
        kind, size = request.kind, request.size
        limit = self._times.patience(kind, size)
        if self._hung and size > 1:
            limit = max(limit / SEARCH, min(limit, LEAST_SEARCH_SECONDS))
        try:
            with self._blobs(request):
                inmate = self._inmate(alone)
                answer, seconds = inmate.ask((request, live_weights), limit)
                (results, info, episodes), modules = answer
        except Died as died:
            self._end(alone)
            self._hung = died.hung
            raise PlayKilled(str(died), alone) from None
        self._hung = False
        self._modules |= modules
        self._times.note(kind, size, seconds)
        if not alone:
            self.unfinished, self._unfinished_steps = info.unfinished, info.unfinished_steps
        info = replace(
            info,
            process=f"{socket.gethostname()}:{os.getpid()}",
            unfinished=self.unfinished,
            unfinished_steps=self._unfinished_steps,
        )
        return results, info, episodes

    def close(self) -> None:
        """End the processes."""
        for alone in list(self._inmates):
            self._end(alone)

    def _inmate(self, alone: bool) -> Forked:
        if alone in self._inmates and not self._inmates[alone].lives():  # killed while it was idle
            self._end(alone)
        if alone not in self._inmates:
            for name in self._modules - sys.modules.keys():  # else every fork would import them once more
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            self._modules.clear()
            self._inmates[alone] = Forked(functools.partial(_play, self._setup))
            self._inmates[alone].receive(max(FIRST_SECONDS, self._times.first))  # it has made its game
        return self._inmates[alone]

    def _end(self, alone: bool) -> None:
        if alone in self._inmates:
            self._inmates.pop(alone).end()
        if not alone:
            self.unfinished, self._unfinished_steps = (), 0

    @contextlib.contextmanager
    def _blobs(self, request: PlayRequest) -> Iterator[None]:
        """Have the blobs of the request on this node meanwhile: a forked process cannot fetch any by Ray."""
        with contextlib.ExitStack() as leases:
            for source in request.sources if self._peers is not None else ():
                for own in source.members if isinstance(source, MixtureSource) else (source,):
                    if isinstance(own, SnapshotSource):
                        leases.enter_context(contextlib.closing(lease_blob(self._node, own, self._peers)))
            yield


def _play(setup: PlaySetup) -> Callable[[Any], Any]:
    """Return what plays a request with its weights, and returns the modules that were imported for it."""
    for seed in (random.seed, np.random.seed, torch.seed):  # else every fork would draw the same
        seed()
    runner = EnvRunner(setup)
    known: set[str] = set()

    def answer(question: Any) -> Any:
        nonlocal known
        played = runner.play(*question)
        new, known = sys.modules.keys() - known, set(sys.modules)
        return played, new

    return answer
