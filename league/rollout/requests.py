"""Requests: what a runner is built from, the matches it gets, and what their play cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from league.models.bots.settings import BotSettings
from league.models.policies.products import Precision
from league.models.spec import PolicySpec
from league.rollout.openings import Openings
from league.rollout.snapshots import SnapshotSource
from league.rollout.supply import Peers
from league.section import Section
from storage.cache.node_cache import CacheSettings
from storage.cache.policy_map import TierInfo
from storage.records import MatchBatch

MOST_AT_ONCE = 2**20  # matches; with more, the arrays of even the smallest game take gigabytes
USUAL_SIZE = 1024  # matches
FEWEST_SLOTS, MOST_SLOTS = 256, 8192  # if their number is auto
SLOT_BYTES = 2**26  # of all observations of such a number

Size = Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] | Literal["auto"]


class _Play(Section):
    """Settings of all play of matches, however many of them are played at a time."""

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


class RolloutSettings(_Play):
    """Settings of the play of matches."""

    slots: int = Field(
        default=USUAL_SIZE,
        ge=1,
        le=MOST_AT_ONCE,
        description="Number of matches that one runner plays at the same time",
    )
    matches_per_request: int = Field(
        default=USUAL_SIZE, ge=1, le=MOST_AT_ONCE, description="Number of matches in one request to a runner"
    )


class TrainingRollout(_Play):
    """Settings of the play of matches that are learned from."""

    slots: Size = Field(
        default="auto",
        description="Number of matches that one runner plays at the same time; auto: as many as a request "
        "brings, up to 8,192 and 64 MiB of observations. 1,024 with `runners: 0` or `fragment_steps`",
    )
    matches_per_request: Size = Field(
        default="auto",
        description="Number of matches in one request to a runner; auto: 256 for each competitor seated in "
        "it, from 2,048 to 8,192, and fewer where experience would get older than `max_lag`, or a request "
        "take more than 4 seconds or 128 MiB. 1,024 with `runners: 0` or `fragment_steps`",
    )
    max_lag: int | None = Field(
        default=None,
        ge=1,
        description="Updates that a player makes, on average, between the choice of weights that play and "
        "learning from what they played: requests are smaller, and fewer are under way, as far as it takes. "
        "`null`: sizes that are auto aim at 32, with at least 256 matches",
    )
    fragment_steps: int | None = Field(
        default=None,
        ge=1,
        description="Most steps that a match plays in one request: in a step each seat whose turn it is "
        "decides once. Experience of longer matches is learned from in fragments, and a match goes on in the "
        "runner's next request. `null`: matches are played whole",
    )
    fragment_weights: Literal["newest", "began"] = Field(
        default="newest",
        description="Weights with which live players go on in a match that is played in fragments: the "
        "newest of each request, or those that they began the match with. Snapshots never change",
    )

    precision: Precision = Field(
        default="auto",
        description="Precision of policies that play on the CPU to train; auto: bfloat16 for batches of a "
        "size for which a runner measures it to be faster than float32, but float32 with `runners: 0`, which "
        "can be repeated to the bit. Evaluation and tournaments play in float32",
    )
    check: Literal["refuse", "print", "none"] = Field(
        default="refuse",
        description="What follows if a second of random play before training finds a fault of the game: it "
        "is refused, or the fault is printed; none: games are not tried. Games of this package never are",
    )
    crash_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Share of the last thousand matches that may crash; above it the run ends with the cause",
    )

    @model_validator(mode="after")
    def _precision_is_of_the_cpu(self) -> Self:
        if self.precision == "bfloat16" and self.device != "cpu":
            raise ValueError(
                f"precision: found bfloat16 with device {self.device}, expected cpu: policies on a GPU play "
                "in float32; set device to cpu, or leave precision out"
            )
        return self

    @model_validator(mode="after")
    def _fragments_have_fixed_sizes(self) -> Self:
        if self.fragment_steps is not None and self.max_lag is not None:
            raise ValueError(
                f"max_lag: found {self.max_lag} with fragment_steps {self.fragment_steps}, which limits by "
                "itself how old experience gets; lower fragment_steps, or set max_lag to null"
            )
        return self

    def of_runners(self, observation_bytes: int, *, fixed: bool) -> RolloutSettings:
        """Return these settings for runners, whose games have a fixed number of slots.

        `observation_bytes`: of all seats of a match. `fixed`: whether `auto` is the usual size.
        """
        if self.slots != "auto":
            slots = self.slots
        elif fixed or self.fragment_steps is not None:
            slots = USUAL_SIZE
        else:
            slots = min(MOST_SLOTS, max(FEWEST_SLOTS, SLOT_BYTES // max(1, observation_bytes)))
        matches = USUAL_SIZE if self.matches_per_request == "auto" else self.matches_per_request
        common = {name: getattr(self, name) for name in _Play.model_fields}
        return RolloutSettings(slots=slots, matches_per_request=matches, **common)

    @model_validator(mode="after")
    def _weights_need_fragments(self) -> Self:
        if self.fragment_steps is None and self.fragment_weights == "began":
            raise ValueError(
                "fragment_weights: found began without fragment_steps, but a whole match never changes its "
                "weights; set fragment_steps, or leave fragment_weights out"
            )
        return self


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
    peers: Peers | None = None  # other nodes to fetch snapshots from
    precision: Precision = "float32"  # of policies on the CPU
    gives_way: bool = False  # to learners, where they share cores


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
class Fragment:
    """Part of the play of a runner's matches: so many steps, then the others go on in the next request."""

    steps: int  # at most, of each match
    goes_on: npt.NDArray[np.int64]  # ids of earlier matches that go on, if they are still unfinished
    players: tuple[LiveSource, ...] = ()  # live players in those, whose weights come beside the request
    weights: Literal["newest", "began"] = "newest"  # with which live players go on


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
    fragment: Fragment | None = None  # None: all matches are played to their end


@dataclass(frozen=True, slots=True)
class RolloutInfo:
    """Cost of the play of one request."""

    env_steps: int  # of the matches that ended
    trained_steps: Mapping[str, int]  # by learner
    seconds: float
    process: str  # host and pid of the runner
    tiers: tuple[TierInfo, ...]  # cache counts since the process began, nearest tier first
    unfinished: tuple[int, ...] = ()  # ids of the matches that go on in the next request
    unfinished_steps: int = 0  # decisions taken in them so far
    crashes: Mapping[str, int] = field(default_factory=dict)  # number of matches that crashed, by cause
