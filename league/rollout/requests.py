"""Requests: what a runner is built from, the matches it gets, and what their play cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from league.cluster.connection import own_version
from league.models.bots.settings import NO_LIMITS, BotSettings, Limits
from league.models.spec import PolicySpec, Precision
from league.rollout.openings import Openings
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import RayPeers, SnapshotSource
from storage.arrays import Indices
from storage.cache.policy_map import TierInfo
from storage.records import MatchBatch
from storage.settings import CacheSettings


@dataclass(frozen=True, slots=True)
class PlaySetup:
    """What a runner is built from: the game, and how matches of it are played."""

    env_id: str
    env_options: Mapping[str, Any]
    rollout: RolloutSettings
    threads: int = 1  # Torch threads of each process
    cache: CacheSettings = field(default_factory=CacheSettings)
    bots: Mapping[str, BotSettings] = field(default_factory=dict)  # by name, for bots that have settings
    limits: Limits = NO_LIMITS  # of bots that have none of their own
    trust: tuple[str, ...] = ()  # custom networks (module:Class) that snapshots may be built from
    peers: RayPeers | None = None  # other nodes to fetch snapshots from
    precision: Precision = "float32"  # of policies
    version: str = field(default_factory=own_version)  # of this package, in the driver
    gives_way: bool = False  # to learners, where they share cores
    patience: float | Literal["auto"] = "auto"  # `resources.patience_seconds`
    caged: bool = False  # whether a process of the runner's own plays (`league.rollout.cage`)


@dataclass(frozen=True, slots=True)
class LiveSource:
    """Player with its current weights, which are passed beside the request under its name."""

    player: str
    version: int
    spec: PolicySpec


@dataclass(frozen=True, slots=True)
class BotSource:
    """Scripted competitor."""

    name: str


@dataclass(frozen=True, slots=True)
class MixtureSource:
    """Snapshots of which one is drawn for each match and seat (`league.models.policies.mixture`)."""

    name: str
    members: tuple[SnapshotSource, ...]  # each at its own temperature
    weights: tuple[float, ...]  # of the members, in order; they sum to 1


StoredSource = SnapshotSource | BotSource | MixtureSource
"""Competitor that does not change while it plays."""
Source = StoredSource | LiveSource


@dataclass(frozen=True, slots=True)
class Fragment:
    """Part of the play of a runner's matches: so many steps, then the others go on in the next request."""

    steps: int | None = None  # at most, of each match; None: to its end
    # ids of earlier matches that go on, if they are still unfinished
    goes_on: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    players: tuple[LiveSource, ...] = ()  # live players in those, whose weights come beside the request
    weights: Literal["newest", "began"] = "newest"  # with which live players go on

    @property
    def whole(self) -> bool:
        """Whether each match is played from its beginning to its end."""
        return self.steps is None and not len(self.goes_on)


WHOLE = Fragment()


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """Matches to play, and the sources of `matches.competitors`, in the same order."""

    matches: MatchBatch
    sources: tuple[Source, ...]
    learners: tuple[str, ...]  # players whose learning seats are returned as episodes
    seed: int  # for sampled actions
    openings: Openings | None = None  # how the matches begin; None: the players choose all moves
    env_options: Mapping[str, Any] | None = None  # of the game of the matches, if it is not the runner's
    fingerprint: bool = False  # whether to compute `ResultBatch.digest`, equal for identical matches
    fragment: Fragment = WHOLE  # how far the matches are played
    # forfeits of competitors after which no further matches of theirs are played here, by name
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of matches that are played."""
        return len(self.matches) + len(self.fragment.goes_on)

    @property
    def kind(self) -> tuple[str, bool]:
        """Requests of the same kind take about as long for the same size."""
        return self.matches.env, self.fragment.steps is None and not self.fragment.whole


@dataclass(frozen=True, slots=True)
class RolloutInfo:
    """Cost of the play of one request."""

    env_steps: int  # of the matches that ended
    trained_steps: Mapping[str, int]  # by learner
    seconds: float
    process: str  # host and pid of the runner
    tiers: tuple[TierInfo, ...]  # cache counts since the process began, nearest tier first
    unfinished: tuple[int, ...] = ()  # ids of the runner's matches that go on in later requests
    unfinished_steps: int = 0  # decisions taken in them so far
    crashes: Mapping[str, int] = field(default_factory=dict)  # number of matches that crashed, by cause
    # number of matches that a competitor forfeited, by its name and cause
    failures: Mapping[tuple[str, str], int] = field(default_factory=dict)
