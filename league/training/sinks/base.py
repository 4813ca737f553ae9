"""What every sink does, and where it remembers which of the tool's runs is this one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

FOLDER = "sinks"  # in the run folder


class Sink(Protocol):
    """A tool that keeps series of numbers."""

    def log(self, env_steps: int, values: Mapping[str, float]) -> None:
        """Note `values` at so many env_steps of the league. Names have parts, divided by slashes."""

    def close(self) -> None:
        """Let the tool write what it still holds."""


def folder_of(run: Path) -> Path:
    """Where sinks may keep what is theirs."""
    return run / FOLDER


def remembered(run: Path, kind: str) -> str | None:
    """The tool's own id of this run, from the session before; None: this is the first."""
    try:
        said: Any = json.loads((folder_of(run) / f"{kind}.json").read_text())
    except (OSError, ValueError):
        return None
    return said.get("id") if isinstance(said, dict) else None


def remember(run: Path, kind: str, name: str) -> None:
    """So that a resumed run goes on in the same series."""
    folder_of(run).mkdir(exist_ok=True)
    (folder_of(run) / f"{kind}.json").write_text(json.dumps({"id": name}) + "\n")
