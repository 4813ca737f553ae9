"""Stagnation: a player that no longer improves. This is stronger than a missing proof of improvement.

Ratings cannot show it, because they drift and opponents change. So a player is compared by its scores against
fixed opponents that it met throughout. The gain is the mean change of these scores from the first third of a
stretch of time to its last third, weighted by precision. Opponents that it nearly always or nearly never
beats carry no information and are left out. The player stagnates if the upper end of the gain's interval is
below MARGIN (a one-sided test of equivalence, since a player that gets worse does not improve either).
Results against its own snapshot from the start of the stretch must not contradict this. Forgotten opponents
are left out, because forgetting is not stagnation. If the changes differ between opponents by more than luck,
the interval gets wider (DerSimonian and Laird, Controlled Clin. Trials 7, 1986). Of several stretches until
now the longest significant one counts; it is at least a third of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from analysis.diagnostics.finding import Finding, Severity, percent_between, steps
from analysis.diagnostics.record import WINDOWS, Record, Series
from analysis.diagnostics.significance import Counts, dispersion, from_neighbours
from storage.arrays import Floats

MARGIN = 0.05  # points per game against near-even opponents: less does not count as improvement
LEVEL = 0.05  # one-sided, over all tested stretches
LEAST_GAMES = 30.0  # against an opponent, in the first and in the last third
INFORMATIVE = (0.1, 0.9)  # scores at which results against an opponent still show changes
LEAST_OPPONENTS = 2
STRETCHES = (3 * WINDOWS // 4, WINDOWS // 2, WINDOWS // 3 + 1)  # moments until now


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean change of score from the first third of a stretch to its last third, with its interval."""

    value: float
    low: float
    high: float
    opponents: int
    games: int


def find_stagnation(record: Record, known: set[tuple[str, str]]) -> list[Finding]:
    """Return players that do not improve, in order of names; none in tournaments.

    `known`: pairs (player, opponent) to leave out, because other findings explain them.
    """
    found = []
    for series in record.series if record.live else ():
        began = record.last_reset.get(series.player, 0)
        begun = int(np.searchsorted(series.edges, began))  # the first complete window since a reset
        kept = [i for i, opponent in enumerate(series.opponents) if (series.player, opponent) not in known]
        # Every player improves at first: a stretch begins later.
        starts = [WINDOWS - length for length in STRETCHES if WINDOWS - length > begun]
        z = float(-ndtri(LEVEL / max(1, len(starts))))
        for start in starts:
            gain = gain_since(series.counts[kept], start, z)
            if gain is not None and gain.high < MARGIN:
                own = _against_itself(record, series, start, z)
                if own is None or own["low"] < 0.5 or own["score"] < 0.5 + MARGIN:
                    found.append(_finding(record, series, start, gain, own))
                    break
    return found


def gain_since(counts: Counts, start: int, z: float) -> Gain | None:
    """Return the gain of scores [P, K] since moment `start`, with an interval of `z` standard errors.

    Return `None` if there are too few games, or too few informative opponents.
    """
    third = (counts.games.shape[1] - start) // 3
    early, late = counts[:, start : start + third].sum(), counts[:, -third:].sum()
    enough = (early.games >= LEAST_GAMES) & (late.games >= LEAST_GAMES)
    # By the mean of both: a choice by one of them would cause regression to the mean.
    level = (early.estimate + late.estimate) / 2
    informative = enough & (level > INFORMATIVE[0]) & (level < INFORMATIVE[1])
    if informative.sum() < LEAST_OPPONENTS:
        return None
    variance = (early.variance + late.variance)[informative]
    change = (late.estimate - early.estimate)[informative]
    weight = 1.0 / variance
    weight = 1.0 / (variance + _heterogeneity(change, weight))
    value = float(weight @ change / weight.sum())
    # The player's own fluctuation is shared by all opponents: averaging does not remove it.
    shared = 2.0 * wobble(counts[informative, -STRETCHES[0] :]) / third
    error = float(np.sqrt(1.0 / weight.sum() + shared))
    games = int((early.games + late.games)[informative].sum())
    return Gain(value, value - z * error, value + z * error, int(informative.sum()), games)


def wobble(counts: Counts) -> float:
    """Return the variance of a player's strength from moment to moment, by its scores [P, K].

    It is the square of the mean deviation over opponents, beyond chance.
    """
    deviation, by_chance, known = from_neighbours(counts, LEAST_GAMES / 2)
    weight = np.where(known, 1.0 / by_chance, 0.0)
    total = weight.sum(axis=0)
    if not (total > 0).any():
        return 0.0
    mean = (weight * deviation).sum(axis=0)[total > 0] / total[total > 0]
    # If strength is independent at each moment, the middle and both neighbours vary: 1 + 1/4 + 1/4.
    return max(0.0, float((mean**2 - 1.0 / total[total > 0]).mean()) / 1.5)


def _heterogeneity(change: Floats, weight: Floats) -> float:
    """Return the variance of true changes [p] among opponents, by DerSimonian and Laird's moments."""
    mean = weight @ change / weight.sum()
    excess = float(weight @ (change - mean) ** 2) - (len(change) - 1)
    return max(0.0, excess / float(weight.sum() - (weight**2).sum() / weight.sum()))


def _against_itself(record: Record, series: Series, start: int, z: float) -> dict[str, Any] | None:
    """Return the last third's result against the player's own snapshot from the start of the stretch.

    Return `None` if there are too few games.
    """
    before = _snapshot_at(record, series, start)
    if before not in series.opponents:
        return None
    third = (WINDOWS - start) // 3
    counts = series.counts[series.opponents.index(before), -third:].sum()
    if counts.games < LEAST_GAMES:
        return None
    return {"snapshot": before, **counts.evidence(dispersion(series.counts), z)}


def _snapshot_at(record: Record, series: Series, start: int) -> str:
    """Return the player's first snapshot of the first third of a stretch, or else the newest one before."""
    begin, end = int(series.edges[start]), int(series.edges[start + (WINDOWS - start) // 3])
    within = record.snapshot_within(series.player, begin, end)
    return within or record.snapshot_before(series.player, begin)


def _finding(record: Record, series: Series, start: int, gain: Gain, own: dict[str, Any] | None) -> Finding:
    player = series.player
    lasted = float(record.env_steps[-1] - record.env_steps[start])
    since = _snapshot_at(record, series, start)
    evidence = {
        "gain": gain.value,
        "low": gain.low,
        "high": gain.high,
        "margin": MARGIN,
        "opponents": gain.opponents,
        "games": gain.games,
        "since": since,
        "since_env_steps": float(record.env_steps[start]),
        "env_steps": lasted,
    }
    itself = ""
    if own is not None:
        evidence["against_itself"] = own
        itself = f"; against {own['snapshot']}, its snapshot of that time, it scores {percent_between(own)}"
    sentence = (
        f"{player} has not improved for {steps(lasted)}, since {since}: against {gain.opponents} "
        f"opponents met throughout its score changed by {100 * gain.value:+.1f} points of 100 "
        f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}), less than {100 * MARGIN:.0f}{itself}"
    )
    severity: Severity = "note" if player in record.last_reset else "warning"
    return Finding("stagnation", severity, player, sentence, evidence)
