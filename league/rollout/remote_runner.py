"""RemoteRunner: an EnvRunner as a Ray actor. Its group is in `league.rollout.runner_group`."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from league.cluster.calls import Inside, opened
from league.cluster.connection import own_version
from league.cluster.runtime import give_way, keep_to_card_part, node_id
from league.models.policies.resident import check_device
from league.rollout.cage import Cage
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import PlayRequest, PlaySetup
from storage.cache.node_cache import NodeCache
from storage.errors import UnfitNode


class RemoteRunner:
    """Runner that plays in its own process, or in a cage."""

    def __init__(self, setup: PlaySetup) -> None:
        """Make the runner. If this node is unfit for that, `where` raises what was raised here.

        An error of a constructor would reach the group as the runner's death.
        """
        self._setup = replace(setup, caged=False)
        self._runner: EnvRunner | None = None
        self._cage: Cage | None = None
        self._leaves = False
        self._unfit: Exception | None = None
        if setup.gives_way:
            give_way()
        try:
            self._begin(setup)
        except Exception as error:
            self._unfit = error

    def _begin(self, setup: PlaySetup) -> None:
        """Make what plays. Raise what the node is unfit for."""
        found, expected = own_version() or "none", setup.version or "none"
        if found != expected:
            raise UnfitNode(
                f"found checkpoint-league {found} here, expected {expected} as on the driver's node; install "
                "the same on every node"
            )
        cache = setup.cache
        NodeCache(cache.folder, cache.max_bytes, cache.verify).check()
        if setup.caged:  # which uses no device itself: a fork could not use it then
            self._cage = Cage(self._setup)
            return
        self._play_here()

    def _play_here(self) -> EnvRunner:
        """Make the runner of this process. Raise Mistake if the node lacks the device of its policies."""
        setup = self._setup
        check_device(setup.rollout.device, setup.precision, f"on node {socket.gethostname()}")
        if setup.rollout.device != "cpu":
            keep_to_card_part()
        self._runner = EnvRunner(setup)
        return self._runner

    def where(self) -> str:
        """Return host and id of the node that this runner is on, with a slash between: it has begun.

        Raise what was raised when this runner was made.
        """
        if self._unfit is not None:
            raise self._unfit
        return f"{socket.gethostname()}/{node_id()}"

    def leave_cage(self) -> None:
        """Play in this process again, from the first request on with which no match goes on in the cage."""
        self._leaves = True

    def play_remotely(
        self, request: PlayRequest, players: Sequence[str], *weights: Mapping[str, np.ndarray] | Inside
    ) -> Any:
        """Return results and info, followed by each learner's episodes as separate objects.

        Raise PlayKilled if that ended the process in the cage.
        """
        results, info, episodes = self._player().play(
            request, dict(zip(players, opened(weights), strict=True))
        )
        own = [episodes[learner] for learner in request.learners]
        return ((results, info), *own) if own else (results, info)

    def _player(self) -> EnvRunner | Cage:
        if self._cage is not None and self._leaves and not self._cage.unfinished:
            self._cage.close()
            self._cage = None
        return self._cage or self._runner or self._play_here()
