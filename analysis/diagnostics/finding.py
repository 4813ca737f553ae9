"""Finding: a problem of a league, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["note", "warning"]
KINDS = (  # by importance
    *("crashes", "limited"),
    *("forgetting", "regression", "circling", "starvation", "lag", "stagnation", "drift", "cycle", "seats"),
)


ADVICE = {  # what each kind means, and what can be done
    "forgetting": "what it trains against no longer shows it the weakness: raise the share of PFSP over old "
    "snapshots, or lower learner.lr",
    "regression": "an opponent has found its weakness, which it is still to learn: if that lasts, raise the "
    "opponent's share in its matches",
    "circling": "hand out the average, and hold the policy to a magnet or raise the entropy",
    "starvation": "its weights hardly change: look at its share of the matches and at the incidents",
    "lag": "it learns about a policy that is no longer played, so its experience counts little: set "
    "rollout.max_lag, or lower rollout.matches_per_request or runners",
    "stagnation": "more of the same brings little: change learner.lr, the policy's size or its opponents",
    "drift": "its rating is of other opponents: go by `league ratings`, which counts all games",
    "seats": "a policy plays one seat far better than another, or an opponent has found that it does: see "
    "`league sql RUN @seats_over_time`",
    "cycle": "none of the three is the strongest: keep all as opponents, and hand out a mixture",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that a diagnostic found in a league."""

    kind: str  # one of KINDS
    severity: Severity
    subject: str  # competitor with the problem
    sentence: str  # description with the numbers
    evidence: dict[str, Any] = field(default_factory=dict)  # machine-readable, of JSON types

    @property
    def advice(self) -> str:
        """What the finding means, and what can be done; empty where the sentence says it."""
        return ADVICE.get(self.kind, "")

    def to_json(self) -> dict[str, Any]:
        """Return all fields, as `league diagnose --json` prints them."""
        return {name: getattr(self, name) for name in self.__slots__} | {"advice": self.advice}


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
