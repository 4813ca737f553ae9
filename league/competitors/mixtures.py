"""Mixtures by name: distributions over snapshots that sit in a seat as one competitor.

    main-0:average                    the newest half of a player's snapshots, all alike
    main-0@120000:average             the same, as it was when that snapshot was frozen
    :nash                             the maximum-entropy Nash equilibrium of all snapshots, by recorded games
    main-0:nash                       the same of one player's snapshots
    main-0@120000:nash                the same of those up to that snapshot: PSRO's mixture at that pool size
    main-0@40000+main-0@80000         any snapshots, all alike
    0.25*main-0+0.75*main-1:greedy    or by weights, each in a mode of its own

A mode behind `:average` and `:nash` is that of all members. A snapshot is drawn for each match and seat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from blake3 import blake3

import storage
from analysis.solution.nash import max_entropy_nash
from analysis.solution.payoffs import Payoffs
from league.competitors.modes import SAMPLE, BadMode, in_mode, temperature_of
from storage.errors import Mistake
from storage.records import Snapshot
from storage.suggestions import near_or_some

AVERAGE, NASH = "average", "nash"
ROUNDING = 0.01  # of a sum of weights that are written by hand
LEAST_WEIGHT = 1e-6  # of a member of an equilibrium, below which it is a rounding error


class BadMixture(Mistake):
    """Text that names no mixture."""


@dataclass(frozen=True, slots=True)
class MixturePart:
    """A snapshot of a mixture, its weight, and the temperature at which it plays."""

    snapshot: Snapshot
    weight: float
    temperature: float = SAMPLE


@dataclass(frozen=True, slots=True)
class NamedMixture:
    """A distribution over snapshots; weights are positive and sum to 1."""

    name: str  # as it was given
    parts: tuple[MixturePart, ...]

    @property
    def listed(self) -> str:
        """All members with weights and modes, as a text that names the same mixture at any time."""
        return "+".join(
            f"{part.weight!r}*{in_mode(part.snapshot.snapshot_id, part.temperature)}" for part in self.parts
        )

    @property
    def digest(self) -> str:
        """Hash of the weights of all members, 64 hexadecimal digits."""
        return blake3("+".join(part.snapshot.blob_hash for part in self.parts).encode()).hexdigest()

    @property
    def newest(self) -> Snapshot:
        """The member that was frozen last."""
        return max((part.snapshot for part in self.parts), key=lambda one: (one.created_at, one.env_steps))

    def at(self, temperature: float) -> NamedMixture:
        """Return the mixture with all members at `temperature`."""
        return replace(self, parts=tuple(replace(part, temperature=temperature) for part in self.parts))


def mixed(name: str, weighted: Sequence[tuple[Snapshot, float, float]]) -> NamedMixture:
    """Return the mixture of (snapshot, weight, temperature); equal members become one.

    Raise BadMixture without members and for weights that are not positive and finite.
    """
    weights: dict[tuple[Snapshot, float], float] = {}
    for snapshot, weight, temperature in weighted:
        if not (math.isfinite(weight) and weight > 0.0):
            raise BadMixture(f"'{name}': found weight {weight:g}, expected a positive number")
        weights[snapshot, temperature] = weights.get((snapshot, temperature), 0.0) + weight
    total = math.fsum(weights.values())
    if not weights:
        raise BadMixture(f"'{name}': found no snapshots, expected one or more")
    return NamedMixture(name, tuple(MixturePart(s, weight / total, t) for (s, t), weight in weights.items()))


def until(snapshots: Sequence[Snapshot], newest: Snapshot) -> list[Snapshot]:
    """Return the snapshots of the player of `newest` up to it. `snapshots`: in the order of freezing."""
    own = [snapshot for snapshot in snapshots if snapshot.player == newest.player]
    return own[: own.index(newest) + 1]


def average(name: str, snapshots: Sequence[Snapshot], newest: Snapshot) -> NamedMixture:
    """Return the newest half of the player's snapshots up to `newest`, all alike.

    Policies of the first half of training are left out, as self-play has moved far from them; the average of
    the rest is what fictitious play and no-regret learning promise. `snapshots`: in the order of freezing.
    """
    own = until(snapshots, newest)
    return mixed(name, [(snapshot, 1.0, SAMPLE) for snapshot in own[len(own) // 2 :]])


def nash(name: str, run: Path, snapshots: Sequence[Snapshot]) -> NamedMixture:
    """Return the maximum-entropy Nash equilibrium of `snapshots`, by all games recorded among them.

    Games count what the run's payoffs count: outcomes, or scores. Snapshots that met no other are left out;
    pairs that never met have the score that strengths predict. Raise BadMixture if none met another.
    """
    table = storage.query(run, "SELECT * FROM payoff WHERE home <> away")
    frame = table.to_pandas()
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    frame = frame[frame["home"].isin(by_id) & frame["away"].isin(by_id) & (frame["games"] > 0)]
    met = [one for one in by_id if one in set(frame["home"]) | set(frame["away"])]
    if len(by_id) == 1:
        met = list(by_id)
    if not met:
        raise BadMixture(
            f"'{name}': none of {len(by_id)} snapshots has met another in {run}, so there is no payoff to "
            f"solve; use ':{AVERAGE}', or let them meet (league tournament)"
        )
    weights = np.ones(1)
    if len(met) > 1:
        weights = max_entropy_nash(Payoffs.from_frame(frame, met).matrix())
    kept = [(by_id[one], float(w), SAMPLE) for one, w in zip(met, weights, strict=True) if w >= LEAST_WEIGHT]
    return mixed(name, kept)


def listed(text: str, find: Callable[[str], tuple[Snapshot, float]]) -> NamedMixture:
    """Return the mixture of a list: `A+B`, or `0.25*A+0.75*B`. `find` returns snapshot and temperature.

    Raise BadMixture for weights that are no numbers, do not sum to 1, or are given for some alone.
    """
    members: list[tuple[Snapshot, float, float]] = []
    given: list[bool] = []
    for term in text.split("+"):
        weight, times, name = term.rpartition("*")
        if not name:
            raise BadMixture(f"'{text}': found an empty name, expected names joined by '+', such as A+B")
        try:
            number = float(weight) if times else 1.0
        except ValueError:
            raise BadMixture(
                f"'{text}': found weight '{weight}', expected a number, such as 0.25*{name}"
            ) from None
        snapshot, temperature = find(name)
        members.append((snapshot, number, temperature))
        given.append(bool(times))
    if any(given) and not all(given):
        bare = text.split("+")[given.index(False)]
        raise BadMixture(f"'{text}': '{bare}' has no weight, expected one for all or for none")
    found, total = mixed(text, members), math.fsum(weight for _, weight, _ in members)
    if any(given) and abs(total - 1.0) > ROUNDING:
        raise BadMixture(f"'{text}': the weights sum to {total:g}, expected 1")
    return found


def split(text: str) -> tuple[str, str, float | None] | None:
    """Return (name, kind, temperature) of `name:average` and `name:nash`, a mode behind or not; else None.

    The name is empty for the whole pool. Raise BadMixture for an unknown mode.
    """
    name, _, kind = text.rpartition(":")
    if kind in (AVERAGE, NASH) and ":" in text:
        return name, kind, None
    before, _, kind = name.rpartition(":")
    if kind in (AVERAGE, NASH) and ":" in name:
        mode = text.rpartition(":")[2]
        try:
            return before, kind, temperature_of(mode)
        except BadMode as error:
            raise BadMixture(f"'{text}': {error}") from None
    return None


def of_player(text: str, name: str, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots of player `name`; all without a name. Raise BadMixture if there are none."""
    own = [snapshot for snapshot in snapshots if not name or snapshot.player == name]
    if own:
        return own
    players = sorted({snapshot.player for snapshot in snapshots})
    near = near_or_some(name, players)
    raise BadMixture(f"'{text}': found '{name}', expected a player with snapshots; {near}")
