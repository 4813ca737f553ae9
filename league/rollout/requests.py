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
