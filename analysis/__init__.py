"""What can be asked of a run, during and after training. `open_run(path)` gives a `History`, `verdict(path)`
says what a tournament came to."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.exports import export, match_records
    from analysis.history import History, open_run
    from analysis.tournament import Verdict, verdict

__all__ = ["History", "Verdict", "export", "match_records", "open_run", "verdict"]

_HOMES = {
    "History": "history",
    "open_run": "history",
    "Verdict": "tournament",
    "verdict": "tournament",
    "export": "exports",
    "match_records": "exports",
}


def __getattr__(name: str) -> Any:
    """Only what is asked for is loaded: the league's rules take their mathematics from here, and neither DuckDB
    nor pandas with it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'analysis' has no attribute '{name}'")
    module = importlib.import_module(f"analysis.{_HOMES[name]}")
    if name == "open_run" and not hasattr(module, "open_run"):
        return module.History
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
