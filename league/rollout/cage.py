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
import ctypes
import importlib
import multiprocessing
import os
import pickle
import random
import signal
import socket
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from league.cluster.answers import FIRST_SECONDS, LOOK_SECONDS, MOST_SECONDS, Times
from league.episode import Episodes
from league.rollout.env_runner import EnvRunner, Weights
from league.rollout.requests import MixtureSource, PlayRequest, PlaySetup, RolloutInfo
from league.rollout.snapshots import SnapshotSource, lease_blob
from storage.cache.node_cache import NodeCache
from storage.incidents import SILENT
from storage.records import ResultBatch

PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when the one that started it has died
SEARCH = 6.0  # after a hang, several matches get that part of the patience: they are only divided
LEAST_SEARCH_SECONDS = 2.0
# whose handlers are Ray's: they end Python, or print stacks of C++ for a second
UNHANDLED = (signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
CAN_FORK = sys.platform == "linux"

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
        self._inmates: dict[bool, _Inmate] = {}  # by whether it is for what is played alone
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
        except _Died as died:
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

    def _inmate(self, alone: bool) -> _Inmate:
        if alone in self._inmates and not self._inmates[alone].lives():  # killed while it was idle
            self._end(alone)
        if alone not in self._inmates:
            for name in self._modules - sys.modules.keys():  # else every fork would import them once more
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            self._modules.clear()
            self._inmates[alone] = _Inmate(self._setup)
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


class _Died(Exception):
    """The forked process died, or has hung and was ended."""

    def __init__(self, how: str, *, hung: bool = False) -> None:
        super().__init__(how)
        self.hung = hung


class _Inmate:
    """A forked process with a runner."""

    def __init__(self, setup: PlaySetup) -> None:
        context = multiprocessing.get_context("fork")
        self._connection, other = context.Pipe()
        arguments = setup, other, self._connection, os.getpid()
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        with warnings.catch_warnings():  # Python warns of threads, which the fork does not need
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        other.close()

    def lives(self) -> bool:
        return self._process.is_alive()

    def ask(self, question: Any, limit: float) -> tuple[Any, float]:
        """Return the answer, and its seconds. Raise _Died, or what was raised there."""
        with contextlib.suppress(OSError):  # it has just died
            self._connection.send(question)
        return self.receive(limit)

    def receive(self, limit: float) -> tuple[Any, float]:
        """Return what comes within `limit` seconds, and after how many.

        Seconds in which this process itself was stopped do not count. Raise _Died, or what was raised there.
        """
        seconds = 0.0
        clock = time.monotonic()
        while not self._connection.poll(min(LOOK_SECONDS, limit)):
            before, clock = clock, time.monotonic()
            seconds += min(clock - before, MOST_SECONDS)
            if seconds > limit:
                self.end()
                raise _Died(f"{SILENT} for {seconds:.0f} s", hung=True)
        seconds += time.monotonic() - clock
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(LOOK_SECONDS)
            raise _Died(_in_words(self._process.exitcode)) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer, seconds

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


def _in_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended itself with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


# ---------------------------------------------------------------------- in the forked process


def _serve(setup: PlaySetup, connection: Connection, other: Connection, parent: int) -> None:
    """Play what comes until the runner ends."""
    other.close()
    _end_with(parent)
    for number in UNHANDLED:
        signal.signal(number, signal.SIG_DFL)
    for seed in (random.seed, np.random.seed, torch.seed):  # else every fork would draw the same
        seed()
    try:
        runner = EnvRunner(setup)
    except Exception as error:
        _send(connection, error)
        return
    _send(connection, None)
    known: set[str] = set()
    while True:
        try:
            request, weights = connection.recv()
        except (EOFError, OSError):
            return
        try:
            played = runner.play(request, weights)
            answer: Any = played, sys.modules.keys() - known
            known |= sys.modules.keys()
        except Exception as error:
            answer = error
        _send(connection, answer)


def _send(connection: Connection, answer: Any) -> None:
    if isinstance(answer, Exception):
        try:
            pickle.loads(pickle.dumps(answer))
        except Exception:  # an error of a user's own may be of any shape
            answer = RuntimeError(f"{type(answer).__name__}: {answer}")
    with contextlib.suppress(OSError):  # the runner is gone, which the next look finds
        connection.send(answer)


def _end_with(parent: int) -> None:
    """Have the system end this process with the runner, also while it is in a loop without an end."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
