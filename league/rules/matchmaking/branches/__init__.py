"""The branches of the matchmaker: the ways of finding an opponent that a role mixes by their shares.

`BRANCHES` is the one table of them: each class holds a branch's settings, its candidates, how they are
weighted, and what is played if there are none. A user's own is named by its import path.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from league.import_paths import is_import_path
from league.rules.matchmaking.branches.base import (
    Branch,
    LeagueView,
    OpponentRules,
    WeightedBranch,
)
from league.rules.matchmaking.branches.live import CurrentMain, Mains, Peers, SelfPlay, Verification
from league.rules.matchmaking.branches.nash import Nash
from league.rules.matchmaking.branches.own import (
    OwnBranch,
    checked,
    import_branch,
    match_type_of,
    own_types,
)
from league.rules.matchmaking.branches.past import Bots, Forgotten, Latest, PastMain, Pfsp, Window
from league.section import USE
from storage.suggestions import nearest

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
        "peers": Peers,
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
        near = nearest(name, BRANCHES)
        hint = f"; did you mean '{near[0]}'?" if near else f"; or your own: {name}: {{use: module:Class}}"
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
