"""What a diagnosis finds, in plain words and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["note", "warning"]
KINDS = ("forgetting", "regression", "starvation", "lag", "stagnation", "drift", "cycle")  # by importance


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that whoever trains this league should know."""

    kind: str  # one of KINDS
    severity: Severity
    subject: str  # the competitor that it is about
    sentence: str  # plain words, with the numbers
    evidence: dict[str, Any] = field(default_factory=dict)  # for machines: JSON-able

    def to_json(self) -> dict[str, Any]:
        """All fields, as `league diagnose --json` prints them."""
        return {name: getattr(self, name) for name in self.__slots__}


def by_importance(findings: list[Finding]) -> list[Finding]:
    """Warnings first, then by kind; of one kind as they were found."""
    return sorted(findings, key=lambda f: (f.severity != "warning", KINDS.index(f.kind)))


def percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def percent_between(share: float, low: float, high: float) -> str:
    """Such as `68 % (64 to 72 %)`."""
    return f"{100.0 * share:.0f} % ({100.0 * low:.0f} to {100.0 * high:.0f} %)"


def steps(env_steps: float) -> str:
    """Such as `1.2M env steps`."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if env_steps >= unit:
            return f"{env_steps / unit:.3g}{name} env steps"
    return f"{env_steps:.0f} env steps"
