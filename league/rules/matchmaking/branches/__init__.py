"""The branches of the matchmaker: the ways of finding an opponent that a role mixes by their shares.

`BRANCHES` is the one table of them: each class holds a branch's settings, its candidates, how they are
weighted, and what is played if there are none. A user's own is named by its import path. `OpponentSettings`
are the branches of one role, and what else its players play.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails

from league.import_paths import is_import_path
from league.mistakes import placed
from league.rules.matchmaking.branches.branch import (
    Branch,
    LeagueView,
    OpponentRules,
    WeightedBranch,
)
from league.rules.matchmaking.branches.live_opponents import (
    CurrentMain,
    Mains,
    OtherMains,
    SelfPlay,
    Verification,
)
from league.rules.matchmaking.branches.own_branch import (
    OwnBranch,
    checked,
    import_branch,
    match_type_of,
    own_types,
)
from league.rules.matchmaking.branches.past_opponents import Bots, Forgotten, Latest, PastMain, Pfsp, Window
from league.rules.matchmaking.branches.psro import Nash
from league.section import USE
from storage.suggestions import or_near

__all__ = [
    "BRANCHES",
    "MATCH_TYPES",
    "PSEUDO_TYPES",
    "Branch",
    "LeagueView",
    "OpponentRules",
    "OwnBranch",
    "WeightedBranch",
    "branch_class",
    "checked",
    "match_type_of",
    "open_branch",
    "own_types",
]

BRANCHES: Mapping[str, type[Branch]] = MappingProxyType(
    {
        "self_play": SelfPlay,
        "pfsp": Pfsp,
        "forgotten": Forgotten,
        "current_main": CurrentMain,
        "past_main": PastMain,
        "latest": Latest,
        "window": Window,
        "verification": Verification,
        "bots": Bots,
        "nash": Nash,
        "peers": OtherMains,
        "mains": Mains,
    }
)
"""Every branch by its name in a config. Their order is that of the draws: a new one goes to the end."""
PSEUDO_TYPES = ("placement", "evaluation")
MATCH_TYPES = (*BRANCHES, *PSEUDO_TYPES)
"""What a match is recorded as: the branch that was played in the end, never `mains`; or another reason."""


def branch_class(name: str, settings: Any) -> type[Branch]:
    """Return the class of a branch in a config. Raise ValueError for an unknown name."""
    if is_import_path(name):
        raise ValueError(
            f"found '{name}' as a name; choose one of your own: {match_type_of(name)}: {{use: {name}, ...}}"
        )
    if isinstance(settings, Mapping) and USE in settings:
        if name in MATCH_TYPES:
            raise ValueError(f"found use with branch '{name}', which is one of ours; choose another name")
        return OwnBranch
    if name not in BRANCHES:
        hint = or_near(name, BRANCHES, f"; or your own: {name}: {{use: module:Class}}")
        raise ValueError(f"no branch is called '{name}', expected {', '.join(BRANCHES)}{hint}")
    return BRANCHES[name]


def open_branch(branch: Branch) -> Branch:
    """Return a copy of `branch` that is ready to draw, with a user's own class imported.

    Raise ValueError if the class or weighting cannot be imported, is no branch, or has other settings.
    """
    if isinstance(branch, OwnBranch):
        branch = import_branch(branch.use, {"share": branch.share, **branch.options})
    opened = branch.model_copy()
    opened.prepare()
    return opened


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
