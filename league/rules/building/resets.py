"""Resets: choose the stored weights that a player continues with after a freeze.

With target `better` players evolve (Jaderberg et al.: Population based training of neural networks, 2017; and
Human-level performance in 3D multiplayer games, Science 2019): one that is surely worse than another takes
the weights and the settings of that one, and changes those settings a little.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from league.moved_keys import gone
from league.rules.roster import Roster
from league.rules.standings import Standings, prior_strength
from league.section import SettingsGroup
from storage.arrays import Indices
from storage.records import MAIN, LivePlayer, Reset

SURELY = 2.0  # standard errors between the ratings of two players of which one is better
OF_LEARNER = "learner."  # before the settings that a reset changes, among the numbers of its evidence
INHERIT_ABOVE, INHERIT_BELOW = 0.2, 0.5  # win rates against the mains of a snapshot to inherit from


Factor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ResetSettings(SettingsGroup):
    """Rules by which players of one role are reset after a freeze."""

    _gone = model_validator(mode="before")(gone)

    probability: float = Field(
        default=0.0, ge=0, le=1, description="Probability of a reset after each freeze"
    )
    target: Literal["initial", "latest_main", "named", "inherit", "better"] = Field(
        default="initial",
        description="Weights to continue with: the player's first snapshot, the newest one of a main, "
        "`snapshot`, the past exploiter of its role whose win rate against the mains is closest to 50 %, or "
        "better: the newest snapshot of a player of its role with a surely higher rating (by two standard "
        "errors), any of several; without one there is no reset",
    )
    perturb: dict[str, tuple[Factor, ...]] = Field(
        default_factory=dict,
        description="With better: numbers of the section learner that are taken from that player too, each "
        "times one of these factors: {learner.lr: [0.8, 1.25]}",
    )
    snapshot: str | None = Field(default=None, description="Snapshot id, if target is named")
    prior_strength: float = prior_strength(" in those win rates")

    @model_validator(mode="after")
    def _target_is_complete(self) -> Self:
        if (self.target == "named") != (self.snapshot is not None):
            found = "no snapshot" if self.snapshot is None else f"snapshot '{self.snapshot}'"
            raise ValueError(
                f"reset: target '{self.target}' with {found}; set `snapshot` exactly when target is named"
            )
        if self.perturb and self.target != "better":
            raise ValueError(
                f"reset: found perturb with target '{self.target}', expected it with target better alone"
            )
        if empty := [key for key, factors in self.perturb.items() if not factors]:
            raise ValueError(f"reset: perturb.{empty[0]} has no factor, expected such as [0.8, 1.25]")
        return self


def reset_of(
    player: LivePlayer, rule: ResetSettings, roster: Roster, standings: Standings, drawn: float
) -> Reset:
    """Return the reset of `player`; `drawn` in [0, 1) is the random number that called for it.

    The target is the player's first snapshot if the rule's own target does not exist (no snapshot of a
    main, or none to inherit from). Raise ValueError if the player has no snapshot, KeyError if no
    snapshot has the name in the rule.
    """
    own = roster.snapshots_of(player.player)
    evidence: dict[str, float] = {"drawn": drawn, "probability": rule.probability}
    fits = np.zeros(0, dtype=np.int64)
    if rule.target == "latest_main":
        fits = roster.snapshots(MAIN)
    elif rule.target == "inherit":
        fits, rates = _heirs(player, rule, roster, standings)
    if rule.target in ("latest_main", "inherit"):
        evidence["candidates"] = len(fits)
    if rule.target == "named" and rule.snapshot is not None:
        target, how = roster.index(rule.snapshot), "named"
    elif rule.target == "latest_main" and len(fits):
        target, how = int(fits[-1]), "latest main"
    elif rule.target == "inherit" and len(fits):
        nearest = len(fits) - 1 - int(np.argmin(np.abs(rates[::-1] - 0.5)))
        target, how = int(fits[nearest]), "inherited"
        evidence |= {
            "win_rate": float(rates[nearest]),
            "inherit_above": INHERIT_ABOVE,
            "inherit_below": INHERIT_BELOW,
        }
    elif len(own):
        target, how = int(own[0]), "initial"
    else:
        raise ValueError(
            f"builder: '{player.player}' is to be reset but has no snapshot; admit its initial one first"
        )
    return Reset(player=player.player, reason=how, evidence=evidence, target=roster.id(target))


def better_of(
    player: LivePlayer,
    rule: ResetSettings,
    roster: Roster,
    standings: Standings,
    drawn: float,
    peers_settings: Mapping[str, Mapping[str, float]],
    rng: np.random.Generator,
) -> Reset | None:
    """Return the reset of `player` to a surely better one of its peers; `None` without one.

    `peers_settings`: the numbers of each peer that may be perturbed, by its name. The peers have a snapshot
    since their start or last reset. The numbers that the player is to have are in the evidence.
    """
    home = roster.index(player.player)
    peers = np.array([roster.index(name) for name in peers_settings], dtype=np.int64)
    mu, variance = standings.ratings.mu, standings.ratings.variance
    surely = mu[peers] - mu[home] > SURELY * np.sqrt(variance[peers] + variance[home])
    better = peers[surely]
    if not len(better):
        return None
    chosen = int(rng.choice(better))
    name = roster.id(chosen)
    evidence = {
        "drawn": drawn,
        "probability": rule.probability,
        "better": len(better),
        "mu": float(mu[home]),
        "mu_of_better": float(mu[chosen]),
        "error": float(np.sqrt(variance[chosen] + variance[home])),
    }
    for key, factors in rule.perturb.items():
        if key in peers_settings[name]:
            evidence[key] = peers_settings[name][key] * float(rng.choice(factors))
    target = roster.id(int(roster.snapshots_of(name)[-1]))
    return Reset(player=player.player, reason=f"copies {name}", evidence=evidence, target=target)


def _heirs(
    player: LivePlayer, rule: ResetSettings, roster: Roster, standings: Standings
) -> tuple[Indices, np.ndarray]:
    """Return the seated snapshots of the player's role to inherit from [n], and their win rates [n].

    Their mean win rate against the live mains is between INHERIT_ABOVE and INHERIT_BELOW.
    """
    past: Indices = roster.snapshots(player.role)
    mains = roster.mains()
    if not len(past) or not len(mains):
        return past[:0], np.zeros(0)
    rates = 1.0 - np.mean([standings.win_rate(int(m), past, rule.prior_strength) for m in mains], axis=0)
    fits = (rates >= INHERIT_ABOVE) & (rates <= INHERIT_BELOW)
    return past[fits], rates[fits]
