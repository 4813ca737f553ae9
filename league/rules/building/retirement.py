"""Retirement: limit the number of seated snapshots of a role.

A retired snapshot is no longer drawn as an opponent, but stays stored, rated and readable.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from league.rules.roster import Roster
from league.rules.standings import Standings, prior_strength
from league.section import SettingsGroup
from storage.arrays import Bools, Floats, Indices
from storage.records import Retire, Role, Snapshot

MEASURES = {"newest": "admission", "strongest": "mu", "diverse": "distance"}
"""Measure by which each rule compares snapshots; a key in the evidence of a Retire."""


class KeepSettings(SettingsGroup):
    """Rules by which snapshots of one role stay seated.

    Protected ones (pinned, initial, newest) count, and stay even if they alone exceed `snapshots`.
    """

    snapshots: int | None = Field(
        default=None,
        ge=1,
        description="Most seated snapshots of all players of the role together; `null`: all stay",
    )
    by: Literal["newest", "strongest", "diverse"] = Field(
        default="newest",
        description="Snapshots that stay: the last admitted, the highest rated (mu), or those that differ "
        "most in their win rates",
    )
    pinned: tuple[str, ...] = Field(default=(), description="Snapshot ids that always stay")
    initial: bool = Field(default=True, description="Keep each player's first snapshot")
    newest: bool = Field(default=True, description="Keep each player's newest snapshot")
    prior_strength: float = prior_strength(" in the win rates of diverse")

    @model_validator(mode="after")
    def _there_is_room_for_the_pinned(self) -> Self:
        if self.snapshots is not None and len(set(self.pinned)) > self.snapshots:
            raise ValueError(
                f"keep: {len(set(self.pinned))} snapshots are pinned, expected at most snapshots, "
                f"{self.snapshots}; raise snapshots or pin fewer"
            )
        return self


def retirements(role: Role, rule: KeepSettings, roster: Roster, standings: Standings) -> list[Retire]:
    """Return a Retire for each seated snapshot of `role` beyond `rule.snapshots`, the lowest measure first.

    Among equals the newer one stays. Evidence: the number `seated`, the `most` allowed, the measure of the
    retired snapshot, and `least_kept`, the lowest measure among those that stay unprotected (left out if
    all of them are protected).
    """
    seated = roster.snapshots(role)
    if rule.snapshots is None or len(seated) <= rule.snapshots:
        return []
    stays = _protected(seated, rule, roster)
    free = seated[~stays]
    room = max(rule.snapshots - int(stays.sum()), 0)
    if not len(free):
        return []
    worth = _worth(seated[stays], free, rule, roster, standings)
    ascending = np.lexsort((free, worth))
    going, kept = ascending[: len(free) - room], ascending[len(free) - room :]
    found = []
    for i in going:
        evidence: dict[str, float] = {"seated": len(seated), "most": rule.snapshots}
        evidence[MEASURES[rule.by]] = float(worth[i])
        if len(kept):
            evidence["least_kept"] = float(worth[kept[0]])
        snapshot = roster.at(int(free[i]))
        assert isinstance(snapshot, Snapshot)
        found.append(
            Retire(
                player=snapshot.player,
                reason=f"not among the {rule.by}",
                evidence=evidence,
                target=snapshot.snapshot_id,
            )
        )
    return found


def _protected(seated: Indices, rule: KeepSettings, roster: Roster) -> Bools:
    """Return which of `seated` [n] must stay: [n]."""
    stay = {roster.index(name) for name in rule.pinned if name in roster}
    for index in seated.tolist():
        snapshot = roster.at(index)
        assert isinstance(snapshot, Snapshot)
        own = roster.snapshots_of(snapshot.player)
        stay |= {int(own[0])} if rule.initial else set()
        stay |= {int(own[-1])} if rule.newest else set()
    return np.isin(seated, sorted(stay))


def _worth(stay: Indices, free: Indices, rule: KeepSettings, roster: Roster, standings: Standings) -> Floats:
    """Return the measure by which each of `free` [n] is kept: [n]."""
    if rule.by == "newest":
        return free.astype(np.float64)
    if rule.by == "strongest":
        # Not mu - 3 sigma: a newcomer has its parent's mu but a fresh sigma, and would always go first.
        return standings.ratings.mu[free]
    rates = _rates(np.concatenate([stay, free]), rule.prior_strength, roster, standings)
    return farthest_points(rates[: len(stay)], rates[len(stay) :])


def _rates(snapshots: Indices, prior_strength: float, roster: Roster, standings: Standings) -> Floats:
    """Return the win rates of `snapshots` [n] against all m competitors that any of them has met: [n, m].

    Retired ones count too. Rates against a competitor that none has met would only repeat the ratings.
    """
    everyone = np.arange(len(roster))
    met = np.zeros(len(roster), dtype=np.bool_)
    for index in snapshots.tolist():
        met |= standings.payoff.recorded(index, everyone) > 0
    away = np.flatnonzero(met)
    return np.array([standings.win_rate(index, away, prior_strength) for index in snapshots.tolist()])


def farthest_points(kept: Floats, rows: Floats) -> Floats:
    """Return the distance of each of `rows` [n, m] from all that are kept before it: [n].

    The order is the greedy farthest-point order (Gonzalez, Clustering to minimize the maximum intercluster
    distance, 1985). It begins with the `kept` [k, m] or, without any, with the last row. The distance is
    the root of the mean squared difference, in [0, 1] for rows in [0, 1]; the later of equal rows comes
    first.
    """
    n, m = rows.shape
    distance, nearest, waiting = np.zeros(n), np.ones(n), np.ones(n, dtype=np.bool_)
    if not m:
        return distance
    for row in kept:
        nearest = np.minimum(nearest, np.sqrt(np.mean((rows - row) ** 2, axis=1)))
    for _ in range(n):
        chosen = n - 1 - int(np.argmax(np.where(waiting, nearest, -1.0)[::-1]))
        distance[chosen], waiting[chosen] = nearest[chosen], False
        nearest = np.minimum(nearest, np.sqrt(np.mean((rows - rows[chosen]) ** 2, axis=1)))
    return distance
