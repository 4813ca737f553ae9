"""Requests: what a runner is built from, the matches it gets, and what their play cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from league.models.bots.settings import BotSettings
from league.models.spec import PolicySpec
from league.rollout.openings import Openings
from league.rollout.snapshots import SnapshotSource
from league.section import Section
from storage.cache.node_cache import CacheSettings
from storage.cache.policy_map import TierInfo
from storage.records import MatchBatch

MOST_AT_ONCE = 2**20  # matches; with more, the arrays of even the smallest game take gigabytes


class RolloutSettings(Section):
    """Settings of the play of matches."""

    slots: int = Field(
        default=1024,
        ge=1,
        le=MOST_AT_ONCE,
        description="Number of matches that one runner plays at the same time",
    )
    matches_per_request: int = Field(
        default=1024, ge=1, le=MOST_AT_ONCE, description="Number of matches in one request to a runner"
    )
    requests_in_flight: int = Field(
        default=2, ge=1, description="Number of requests that are queued or played on one runner"
    )
    step_limit: int | None = Field(
        default=None, ge=1, description="Number of decisions after which a match is truncated"
    )
    policy_map_capacity: int = Field(
        default=64,
        ge=1,
        description="Number of snapshots that one runner keeps loaded, beside those it is playing",
    )
    policy_map_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Bytes of weights that one runner keeps loaded; none: limited by number alone",
    )
    record: float = Field(
        default=0.0, ge=0, le=1, description="Share of matches whose actions are recorded for replay"
    )
    device: Literal["cpu", "cuda"] = Field(
        default="cpu", description="Device on which policies compute when they play"
    )


@dataclass(frozen=True, slots=True)
class PlaySetup:
    """What a runner is built from: the game, and how matches of it are played."""

    env_id: str
    env_options: Mapping[str, Any]
    rollout: RolloutSettings
    threads: int = 1  # Torch threads of each process
    cache: CacheSettings = field(default_factory=CacheSettings)
    bots: Mapping[str, BotSettings] = field(default_factory=dict)  # by name, for bots that have settings
    trust: tuple[str, ...] = ()  # custom networks (module:Class) that snapshots may be built from


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


Source = SnapshotSource | LiveSource | BotSource | MixtureSource


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


@dataclass(frozen=True, slots=True)
class RolloutInfo:
    """Cost of the play of one request."""

    env_steps: int
    trained_steps: Mapping[str, int]  # by learner
    seconds: float
    process: str  # host and pid of the runner
    tiers: tuple[TierInfo, ...]  # cache counts since the process began, nearest tier first
