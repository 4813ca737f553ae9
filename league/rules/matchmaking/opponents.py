"""Settings of one role: the branches that its players find opponents by, and what else they play."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails

from league.mistakes import placed
from league.rules.matchmaking.branches import Branch, OpponentRules, branch_class


class OpponentSettings(OpponentRules):
    """Settings by which players of one role find opponents."""

    branches: dict[str, SerializeAsAny[Branch]] = Field(
        description="Branches to draw from, each with its own settings, or your own under a name that you "
        "choose, {use: module:Class}; their shares sum to 1"
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
        description="Matches for the record: the player against all snapshots and bots alike, or the "
        "snapshots against each other, pairs with few games first",
    )

    @field_validator("branches", mode="before")
    @classmethod
    def _each_by_its_class(cls, given: Any) -> Any:
        """Check every branch against its own class, and collect all mistakes."""
        if not isinstance(given, Mapping):
            return given
        branches: dict[str, Branch] = {}
        mistakes: list[InitErrorDetails] = []
        for name, settings in given.items():
            kind = branch_class(str(name), settings)
            try:
                branches[str(name)] = kind.model_validate(settings)
            except ValidationError as error:
                mistakes += placed(error, kind, str(name))
        if mistakes:
            raise ValidationError.from_exception_data("branches", mistakes)
        return branches

    @model_validator(mode="after")
    def _shares_are_a_distribution(self) -> Self:
        total = sum(branch.share for branch in self.branches.values())
        if abs(total - 1.0) > 1e-6:
            found = ", ".join(f"{name} {branch.share:g}" for name, branch in self.branches.items())
            raise ValueError(
                f"branches: shares sum to {total:g} ({found or 'there are none'}), expected 1; "
                "when you change one share, change another"
            )
        for branch in self.branches.values():
            branch.check(self)
        return self

    def share(self, branch: str) -> float:
        """Return the branch's share of matches; 0 for one that is not there."""
        return self.branches[branch].share if branch in self.branches else 0.0
