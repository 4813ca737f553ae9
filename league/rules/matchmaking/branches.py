"""The ways of finding an opponent, and how players of one role mix them.

Whom each branch plays, and how the candidates are weighted when nothing else is said:

    self_play     the player itself, in every seat, and all of them learn; all that a game for one has
    pfsp          all snapshots; hard
    forgotten     snapshots of mains that the player now loses to, and strong past main exploiters; hard
    current_main  another main as it plays now
    past_main     snapshots of mains; hard
    latest        the player's own newest snapshot
    window        the player's own newest snapshots, `window` of them or all; uniform
    mains         one live main, itself included: then it is self-play. Against one that is too strong
                  (`switch_below`) the snapshots of that very main, weighted as past_main, else variance
    verification  of a live main as above: past main exploiters if one is lost to (`exploited_below`),
                  else the main's snapshots without the newest run of ever harder ones, if one of
                  them is not safely beaten (`unsafe_below`); else as `mains`; hard
    bots          scripted opponents, by the weights in `bots`
    nash          all snapshots, by a meta-strategy of what they win against each other
    peers         other live mains; bell: the nearer to even, the more
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PositiveFloat, field_validator, model_validator

from league.rules.matchmaking.weighting import check_name
from league.section import Section
from storage.suggestions import nearest

BRANCHES = (
    "self_play",
    "pfsp",
    "forgotten",
    "current_main",
    "past_main",
    "latest",
    "window",
    "verification",
    "bots",
    "nash",
    "peers",
    "mains",
)
MATCH_TYPES = (*BRANCHES, "placement", "evaluation")
"""What a match can be recorded as: the branch that was played in the end (`mains` never is), or why else."""

_WEIGHTINGS = {"window": "uniform", "peers": "bell"}


class Branch(Section):
    """One way of finding opponents."""

    share: float = Field(ge=0, le=1, description="Share of the role's matches")
    weighting: str = Field(
        default="hard",
        description="Weights of opponents, or module:name of your own; left out: hard, but uniform for "
        "window and bell for peers",
    )
    exponent: float = Field(default=2.0, gt=0, allow_inf_nan=False, description="q of hard: (1 - p)^q")
    window: int | None = Field(
        default=None, ge=1, description="How many of its newest snapshots `window` plays; none: all"
    )
    meta_strategy: Literal["nash", "uniform", "replicator", "rectified"] = Field(
        default="nash", description="How `nash` mixes the pool: maximum-entropy equilibrium, or another"
    )
    refresh_games: int = Field(
        default=5_000,
        ge=1,
        description="Games, counted for each who played, after which `nash` finds its mixture anew",
    )

    @field_validator("weighting")
    @classmethod
    def _known(cls, name: str) -> str:
        check_name(name)
        return name


class OpponentSettings(Section):
    """How players of one role find opponents."""

    branches: dict[str, Branch] = Field(description="Branches drawn from; their shares sum to 1")
    prior_strength: float = Field(
        default=10.0, ge=0, allow_inf_nan=False, description="Games that the TrueSkill prediction is worth"
    )
    switch_below: float = Field(
        default=0.0, ge=0, le=1, description="Below this rate against a current main, play past mains instead"
    )
    forgotten_below: float = Field(
        default=0.5, ge=0, le=1, description="A main's snapshot is forgotten below this win rate against it"
    )
    strong_exploiter_below: float = Field(
        default=0.5, ge=0, le=1, description="A past main exploiter is strong below this win rate against it"
    )
    exploited_below: float = Field(
        default=0.3, ge=0, le=1, description="Below this least rate verification plays past main exploiters"
    )
    unsafe_below: float = Field(
        default=0.7, ge=0, le=1, description="Below this least rate verification plays a main's snapshots"
    )
    bots: dict[str, PositiveFloat] = Field(
        default_factory=dict, description="Bots that branch `bots` plays, and the weight of each"
    )
    placement: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of training matches against snapshots that are new (fewer games than "
        "ratings.placement_games), while there are any; the branches share the rest",
    )
    evaluation: float = Field(
        default=0.0, ge=0, lt=1, description="Share of requests that are played for the record only"
    )
    evaluate: Literal["player", "pool"] = Field(
        default="player",
        description="What such matches measure: the player against all snapshots and bots alike, or the "
        "snapshots against each other, pairs with few games first",
    )

    @field_validator("branches")
    @classmethod
    def _weighted_as_befits(cls, branches: dict[str, Branch]) -> dict[str, Branch]:
        return {
            name: branch
            if "weighting" in branch.model_fields_set or name not in _WEIGHTINGS
            else branch.model_copy(update={"weighting": _WEIGHTINGS[name]})
            for name, branch in branches.items()
        }

    @model_validator(mode="after")
    def _shares_are_a_distribution(self) -> Self:
        for name in self.branches:
            if name not in BRANCHES:
                near = nearest(name, BRANCHES)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise ValueError(f"no branch is called '{name}', expected {', '.join(BRANCHES)}{hint}")
        total = sum(branch.share for branch in self.branches.values())
        if abs(total - 1.0) > 1e-6:
            found = ", ".join(f"{name} {branch.share:g}" for name, branch in self.branches.items())
            raise ValueError(
                f"branches: shares sum to {total:g} ({found or 'there are none'}), expected 1; "
                "when you change one share, change another"
            )
        if self.share("bots") > 0.0 and not self.bots:
            raise ValueError(
                "bots: there are none, but branch 'bots' has a share of the matches; name some, such as "
                "bots: {random: 1}"
            )
        return self

    def share(self, branch: str) -> float:
        """The branch's share of matches; 0 for one that is not there."""
        return self.branches[branch].share if branch in self.branches else 0.0
