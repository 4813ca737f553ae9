"""Settings of play: how many matches at a time, on which device, how long.

It imports no library that computes: a config is read with these classes, without torch.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from league.cluster.runtime import ResourceSettings
from league.models.spec import Precision
from league.section import SettingsGroup
from storage.errors import Mistake

MOST_AT_ONCE = 2**20  # matches; with more, the arrays of even the smallest game take gigabytes
USUAL_SIZE = 1024  # matches
FEWEST_SLOTS, MOST_SLOTS = 256, 8192  # if their number is auto
SLOT_BYTES = 2**26  # of all observations of such a number

RecordedShare = Annotated[float, Field(ge=0, le=1)] | Literal["auto"]
Size = Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] | Literal["auto"]


class _Play(SettingsGroup):
    """Settings of all play of matches, however many of them are played at a time."""

    requests_in_flight: int = Field(
        default=2, ge=1, description="Number of requests that are queued or played on one runner, at most"
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
        description="Bytes of weights that one runner keeps loaded, and on its GPU; none: by number alone",
    )
    record: RecordedShare = Field(
        default=0.0,
        description="Share of matches whose actions are recorded; auto: that of training",
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

    record: RecordedShare = Field(
        default="auto",
        description="Share of matches whose actions are recorded, to be shown and replayed; auto: a "
        "thousandth, more of the first matches (8 / n of the n-th), fewer beyond a million (1000 / n), and "
        "none with more than 65,536 actions",
    )
    slots: Size = Field(
        default="auto",
        description="Number of matches that one runner plays at the same time; auto: as many as a request "
        "brings, up to 8,192 and 64 MiB of observations. 1,024 with `runners: 0` or `fragment_steps`, and "
        "fewer for a heavy game of your own or of a library, and without runners where `stop.env_steps` "
        "would be fewer than 32 requests",
    )
    matches_per_request: Size = Field(
        default="auto",
        description="Number of matches in one request to a runner; auto: 256 for each competitor seated in "
        "it, from 4,096 to 8,192, and fewer where experience would get older than `max_lag`, or a request "
        "take more than 4 seconds or 128 MiB; a runner has one request at a time if it takes a quarter of a "
        "second or more. 1,024 with `runners: 0` or `fragment_steps`",
    )
    max_lag: int | None = Field(
        default=None,
        ge=1,
        description="Updates that a player makes, on average, between the choice of weights that play and "
        "learning from what they played: requests are smaller, and fewer are under way, as far as it takes. "
        "`null`: sizes that are auto aim at 32, with at least 256 matches",
    )
    fragment_steps: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        default="auto",
        description="Most steps that a match plays in one request: in a step each seat whose turn it is "
        "decides once. Experience of longer matches is learned from in fragments, and a match goes on in the "
        "runner's next request. auto: fragments where a trial of the game before training shows that a "
        "request of 16 whole matches would take more than a second or `request_bytes`; the run keeps what "
        "was chosen. `null`: matches are played whole",
    )
    request_bytes: int = Field(
        default=2**30,
        ge=2**20,
        description="Most bytes of experience that a request is to hold, where its sizes are chosen by a "
        "trial of the game",
    )
    fragment_weights: Literal["newest", "began"] = Field(
        default="newest",
        description="Weights with which live players go on in a match that is played in fragments: the "
        "newest of each request, or those that they began the match with. Snapshots never change",
    )

    precision: Precision = Field(
        default="auto",
        description="Precision of policies that play to train; auto: bfloat16 on the CPU for batches of a "
        "size for which a runner measures it to be faster than float32, but float32 with `runners: 0`, which "
        "can be repeated to the bit, and on a GPU; tf32: of GPUs. Evaluation and tournaments play in float32",
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
    def _precision_is_of_the_device(self) -> Self:
        if self.precision == "bfloat16" and self.device != "cpu":
            raise ValueError(
                f"precision: found bfloat16 with device {self.device}, expected float32 or tf32, in which "
                "policies play on a GPU; set it to one of them, or device to cpu"
            )
        if self.precision == "tf32" and self.device == "cpu":
            raise ValueError(
                "precision: found tf32 with device cpu, expected float32, bfloat16 or auto: GPUs alone have "
                "TF32; set it to one of them, or device to cuda"
            )
        return self

    @model_validator(mode="after")
    def _fragments_have_fixed_sizes(self) -> Self:
        if self.fragment is not None and self.max_lag is not None:
            raise ValueError(
                f"max_lag: found {self.max_lag} with fragment_steps {self.fragment_steps}, which limits by "
                "itself how old experience gets; lower fragment_steps, or set max_lag to null"
            )
        return self

    @property
    def fragment(self) -> int | None:
        """Most steps that a match plays in one request; `None`: matches are played whole."""
        return None if self.fragment_steps == "auto" else self.fragment_steps

    def of_runners(self, observation_bytes: int, *, fixed: bool) -> RolloutSettings:
        """Return these settings for runners, whose games have a fixed number of slots.

        `observation_bytes`: of all seats of a match. `fixed`: whether `auto` is the usual size.
        """
        if self.slots != "auto":
            slots = self.slots
        elif fixed or self.fragment is not None:
            slots = USUAL_SIZE
        else:
            slots = min(MOST_SLOTS, max(FEWEST_SLOTS, SLOT_BYTES // max(1, observation_bytes)))
        matches = USUAL_SIZE if self.matches_per_request == "auto" else self.matches_per_request
        common = {name: getattr(self, name) for name in _Play.model_fields}
        return RolloutSettings(slots=slots, matches_per_request=matches, **common)

    @model_validator(mode="after")
    def _weights_need_fragments(self) -> Self:
        if self.fragment is None and self.fragment_weights == "began":
            raise ValueError(
                "fragment_weights: found began without fragment_steps, but a whole match never changes its "
                "weights; set fragment_steps, or leave fragment_weights out"
            )
        return self


def check_play_of_runners(device: str, resources: ResourceSettings, runners: int) -> None:
    """Raise Mistake if these `runners` are to play on GPUs and ask Ray for none.

    Whether a runner finds the device is checked where it runs.
    """
    if device == "cuda" and not resources.gpus_per_runner:
        raise Mistake(
            f"rollout.device is cuda with runners {runners}, but resources.gpus_per_runner is 0, so that Ray "
            "would give runners no GPU; set it, to 0.25 if four are to share a card, or rollout.device to cpu"
        )
