"""Questions about runs, during and after training.

`open_run(path)` returns a `History`, `diagnose(history)` the findings about it, and `verdict(path)` the
result of a tournament.
"""

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
    """Import a public name when it is first used.

    The rules of the league take their mathematics from this package, so `import analysis` must stay cheap.
    """
    if name not in _HOMES:
        raise AttributeError(f"module 'analysis' has no attribute '{name}'")
    return getattr(importlib.import_module(f"analysis.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
