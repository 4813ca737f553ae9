"""Sinks: experiment trackers that a run logs to, and the ids under which they keep the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

FOLDER = "sinks"  # in the run folder


class Sink(Protocol):
    """An experiment tracker."""

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Log `values` at `env_steps` of the league; the parts of a name are divided by slashes."""

    def close(self) -> None:
        """Write all that is buffered and close the tracker."""


def folder_of(run: Path) -> Path:
    """Return the folder of `run` in which sinks keep their data."""
    return run / FOLDER


def remembered(run: Path, kind: str) -> str | None:
    """Return the tracker's own id of this run from an earlier session, `None` if there is none yet."""
    try:
        found: Any = json.loads((folder_of(run) / f"{kind}.json").read_text())
    except (OSError, ValueError):
        return None
    return found.get("id") if isinstance(found, dict) else None


def remember(run: Path, kind: str, name: str) -> None:
    """Store the tracker's id of this run, so that a resumed run continues the same series."""
    folder_of(run).mkdir(exist_ok=True)
    (folder_of(run) / f"{kind}.json").write_text(json.dumps({"id": name}) + "\n")
