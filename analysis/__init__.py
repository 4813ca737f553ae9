"""What can be asked of a run, during and after training: `open_run(path)` gives a `History`, `diagnose` says
what is wrong in it, `verdict(path)` what a tournament came to."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.diagnostics import Finding, diagnose
    from analysis.history.history import History, open_run
    from analysis.tournaments.exports import export, match_records
    from analysis.tournaments.tournament import Verdict, verdict

__all__ = ["Finding", "History", "Verdict", "diagnose", "export", "match_records", "open_run", "verdict"]

_HOMES = {
    "History": "history.history",
    "open_run": "history.history",
    "Finding": "diagnostics",
    "diagnose": "diagnostics",
    "Verdict": "tournaments.tournament",
    "verdict": "tournaments.tournament",
    "export": "tournaments.exports",
    "match_records": "tournaments.exports",
}


def __getattr__(name: str) -> Any:
    """Only what is asked for is loaded: the league's rules take their mathematics from this package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'analysis' has no attribute '{name}'")
    return getattr(importlib.import_module(f"analysis.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
