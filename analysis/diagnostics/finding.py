"""Finding: a problem of a league, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["note", "warning"]
KINDS = (  # by importance
    *("crashes", "limited"),
    *("forgetting", "regression", "circling", "starvation", "lag", "stagnation", "drift", "cycle"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that a diagnostic found in a league."""

    kind: str  # one of KINDS
    severity: Severity
    subject: str  # competitor with the problem
    sentence: str  # description with the numbers
    evidence: dict[str, Any] = field(default_factory=dict)  # machine-readable, of JSON types

    def to_json(self) -> dict[str, Any]:
        """Return all fields, as `league diagnose --json` prints them."""
        return {name: getattr(self, name) for name in self.__slots__}


def by_importance(findings: list[Finding]) -> list[Finding]:
    """Return the findings with warnings first, then by kind, otherwise in the given order."""
    return sorted(findings, key=lambda f: (f.severity != "warning", KINDS.index(f.kind)))


def percent(share: float) -> str:
    """Return text such as `68 %`."""
    return f"{100.0 * share:.0f} %"


def percent_between(score: Mapping[str, Any]) -> str:
    """Return text such as `68 % (64 to 72 %)` of a score with its `low` and `high`."""
    return f"{percent(score['score'])} ({100.0 * score['low']:.0f} to {percent(score['high'])})"


def steps(env_steps: float) -> str:
    """Return text such as `1.2M env steps`."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if env_steps >= unit:
            return f"{env_steps / unit:.3g}{name} env steps"
    return f"{env_steps:.0f} env steps"
