"""Whether a decision explains itself: its rule's condition, computed again from its evidence alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

from league.rules.building.builder import STANDARD_ERRORS, FreezeSettings, HasBuildingRules
from league.rules.building.resets import INHERIT_ABOVE, INHERIT_BELOW, SURELY, ResetSettings
from league.rules.building.retirement import MEASURES, KeepSettings
from storage.records import Decision, Freeze, Reset, Retire


def explains(decision: Decision, rules: HasBuildingRules) -> bool:
    """Whether the numbers in a Freeze, Reset or Retire are those of `rules`, the settings of its player's
    role, and call for it. False for what is not decided by rules: an Add, the first and last Freeze of
    a run, a user's own reasons."""
    match decision:
        case Freeze():
            return _freeze(decision, rules.freeze)
        case Reset():
            return _reset(decision, rules.reset)
        case Retire():
            return _retire(decision, rules.keep)
    return False


def _freeze(decision: Freeze, rule: FreezeSettings) -> bool:
    found = decision.evidence
    steps = found.get("steps_since_freeze", 0)
    if decision.reason in ("schedule", "timeout"):
        asked = rule.max_steps is not None and found.get("max_steps") == rule.max_steps
        return asked and steps >= found["max_steps"]
    if decision.reason == "plateau":
        plateau = rule.plateau
        known = plateau is not None and _agree(found, {"least_gain": plateau.gain})
        return (
            known
            and found["window_games"] >= plateau.games
            and (found["gain"] + STANDARD_ERRORS * found["gain_error"] < found["least_gain"])
        )
    if rule.beats is None or decision.reason != f"beats all {rule.beats}":
        return False
    limits = {
        "win_rate_threshold": rule.win_rate,
        "min_games": rule.min_games,
        "min_steps": rule.min_steps,
    }
    return (
        _agree(found, limits)
        and steps >= max(found["min_steps"], 1)
        and found.get("opponents", 0) >= 1
        and found.get("win_rate", 0.0) > found["win_rate_threshold"]
        and found.get("games", -1) >= found["min_games"]
    )


def _reset(decision: Reset, rule: ResetSettings) -> bool:
    found = decision.evidence
    drawn = _agree(found, {"probability": rule.probability}) and found.get("drawn", 1.0) < rule.probability
    match decision.reason:
        case "named":
            return drawn and rule.target == "named" and decision.target == rule.snapshot
        case "latest main":
            return drawn and rule.target == "latest_main" and found.get("candidates", 0) >= 1
        case "inherited":
            limits = {"inherit_above": INHERIT_ABOVE, "inherit_below": INHERIT_BELOW}
            fits = _agree(found, limits) and (
                found["inherit_above"] <= found.get("win_rate", -1.0) <= found["inherit_below"]
            )
            return drawn and rule.target == "inherit" and found.get("candidates", 0) >= 1 and fits
        case "initial":
            nobody = rule.target in ("latest_main", "inherit") and found.get("candidates") == 0
            return drawn and (rule.target == "initial" or nobody)
    surely = found.get("mu_of_better", 0.0) - found.get("mu", 0.0) > SURELY * found.get("error", math.inf)
    return drawn and rule.target == "better" and decision.reason.startswith("copies ") and surely


def _retire(decision: Retire, rule: KeepSettings) -> bool:
    found = decision.evidence
    measure = found.get(MEASURES[rule.by])
    return (
        rule.snapshots is not None
        and decision.reason == f"not among the {rule.by}"
        and decision.target not in rule.pinned
        and _agree(found, {"most": rule.snapshots})
        and found.get("seated", 0) > found["most"]
        and measure is not None
        and measure <= found.get("least_kept", float("inf"))
    )


def _agree(found: Mapping[str, float], limits: Mapping[str, float]) -> bool:
    return all(found.get(name) == limit for name, limit in limits.items())
