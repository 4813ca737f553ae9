"""The names that a user's own part may import: game, network, loss, branch, builder, report section.

These names keep their meaning from version to version, wherever the files behind them are. Each is loaded
when it is first used, so that a game of your own loads no torch. `league/EXTEND.md` shows each in use.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "BatchedGame": "league.envs.base",
    "DealtGame": "league.envs.dealt",
    "Board": "league.envs.scene",
    "Piece": "league.envs.scene",
    "Spot": "league.envs.scene",
    "Tabletop": "league.envs.scene",
    "Hand": "league.envs.scene",
    "Item": "league.envs.scene",
    "Replay": "league.learning.data.replay",
    "Network": "league.models.networks.networks",
    "Episodes": "league.episode",
    "MalformedEpisodes": "league.learning.data.checks",
    "trust": "league.import_paths",
    "ObservationSpec": "league.envs.spaces",
    "Connector": "league.models.connectors",
    "Loss": "league.learning.maths.losses",
    "OwnBatch": "league.learning.maths.losses",
    "Term": "league.learning.maths.losses",
    "appo": "league.learning.maths.losses",
    "impala": "league.learning.maths.losses",
    "ppo": "league.learning.maths.losses",
    "Branch": "league.rules.matchmaking.branches",
    "WeightedBranch": "league.rules.matchmaking.branches",
    "Pool": "league.rules.matchmaking.pools",
    "LeagueBuilder": "league.rules.building.builder",
    "Freeze": "storage.records",
    "Reset": "storage.records",
    "Retire": "storage.records",
    "Add": "storage.records",
    "Remove": "storage.records",
    "Story": "analysis.report.story",
    "Section": "analysis.report.markup",
    "section": "analysis.report.markup",
    "paragraph": "analysis.report.markup",
    "bullets": "analysis.report.markup",
    "table": "analysis.report.markup",
    "Column": "analysis.report.markup",
    "picture": "analysis.report.sections.pictures",
}

_NAMED = {"Connector": "ConnectorSettings"}  # names that differ in their homes

__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    """Return the names, so that an editor completes them."""
    return __all__


def __getattr__(name: str) -> Any:
    """Return the object of that name. Raise AttributeError if there is none."""
    if name not in _HOMES:
        raise AttributeError(f"module 'league.extend' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), _NAMED.get(name, name))
