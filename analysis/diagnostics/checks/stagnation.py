"""Stagnation: a player that no longer improves, which is more than that no improvement was proven.

A rating cannot say it: it drifts, and who is drawn changes. So a player is held against opponents that do
not change and that it has met all along, each compared with itself: the gain is the mean change of score
from the first third of a stretch of time to its last, weighted by how well it is known. Opponents that it
always beats or never does say nothing and are left out. It stagnates if the upper end of the gain's interval
is below MARGIN (a test of equivalence, one-sided, as a player that gets worse does not improve either). Its
own snapshot from the beginning of the stretch must not say otherwise: who improves beats what it was.
Who forgets one opponent has not stagnated for that: those are left out, and opponents whose changes differ
more than luck explains widen the interval (DerSimonian and Laird, Controlled Clin. Trials 7, 1986). Of a few
stretches until now the longest counts; it is at least a third of the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.diagnostics.finding import Finding, percent_between, steps
from analysis.diagnostics.record import WINDOWS, Record, Series
from analysis.diagnostics.significance import Counts, dispersion, quantile
from storage.arrays import Floats

MARGIN = 0.05  # points per game against opponents near even: less is no improvement to wait for
LEVEL = 0.05  # one-sided, over all stretches that are tried
LEAST_GAMES = 30.0  # against an opponent, in the first and in the last third
TELLING = (0.1, 0.9)  # scores at which an opponent can still tell better from worse
LEAST_OPPONENTS = 2
STRETCHES = (3 * WINDOWS // 4, WINDOWS // 2, WINDOWS // 3 + 1)  # moments until now


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean change of score from the first third of a stretch to its last."""

    value: float
    low: float
    high: float
    opponents: int
    games: int


def find_stagnation(record: Record, known: set[tuple[str, str]]) -> list[Finding]:
    """Players that do not improve, in order of their names; in tournaments nobody learns. `known` (player,
    opponent) are left out: what happened there has been told."""
    found = []
    for series in record.series if record.live else ():
        began = record.last_reset.get(series.player, 0)
        begun = int(np.searchsorted(series.edges, began))  # the first whole window since a reset
        kept = [i for i, opponent in enumerate(series.opponents) if (series.player, opponent) not in known]
        # Everybody improves in its first moments: a stretch begins behind them.
        starts = [WINDOWS - length for length in STRETCHES if WINDOWS - length > begun]
        z = quantile(LEVEL / max(1, len(starts)))
        for start in starts:
            gain = gain_since(series.counts[kept], start, z)
            if gain is not None and gain.high < MARGIN:
                own = _against_itself(record, series, start, z)
                if own is None or own[1] < 0.5 or own[0] < 0.5 + MARGIN:
                    found.append(_finding(record, series, start, gain, own))
                    break
    return found


def gain_since(counts: Counts, start: int, z: float) -> Gain | None:
    """Of scores [P, K], from moment `start` until now; its interval reaches `z` standard errors. None: too
    few games, against too few opponents that could tell."""
    third = (counts.games.shape[1] - start) // 3
    early, late = counts[:, start : start + third].sum(), counts[:, -third:].sum()
    enough = (early.games >= LEAST_GAMES) & (late.games >= LEAST_GAMES)
    # By the mean of both: to choose by one of them alone would find regression to the mean.
    level = (early.estimate + late.estimate) / 2
    telling = enough & (level > TELLING[0]) & (level < TELLING[1])
    if telling.sum() < LEAST_OPPONENTS:
        return None
    variance = (early.variance + late.variance)[telling]
    change = (late.estimate - early.estimate)[telling]
    weight = 1.0 / variance
    weight = 1.0 / (variance + _heterogeneity(change, weight))
    value = float(weight @ change / weight.sum())
    # The player's own wobble is the same for all opponents: more of them do not average it away.
    shared = 2.0 * wobble(counts[telling, -STRETCHES[0] :]) / third
    error = float(np.sqrt(1.0 / weight.sum() + shared))
    games = int((early.games + late.games)[telling].sum())
    return Gain(value, value - z * error, value + z * error, int(telling.sum()), games)


def wobble(counts: Counts) -> float:
    """Variance of a player's strength from moment to moment, as it shows in its scores [P, K] against all
    opponents at once: how far their mean strays from the line between its neighbours, beyond chance."""
    known = counts.games >= LEAST_GAMES / 2
    known = known[:, :-2] & known[:, 1:-1] & known[:, 2:]
    score, variance = counts.estimate, counts.variance
    strays = score[:, 1:-1] - (score[:, :-2] + score[:, 2:]) / 2
    by_chance = variance[:, 1:-1] + (variance[:, :-2] + variance[:, 2:]) / 4
    weight = np.where(known, 1.0 / by_chance, 0.0)
    total = weight.sum(axis=0)
    if not (total > 0).any():
        return 0.0
    mean = (weight * strays).sum(axis=0)[total > 0] / total[total > 0]
    # Of a strength that is new at each moment the middle and both halves stray: 1 + 1/4 + 1/4.
    return max(0.0, float((mean**2 - 1.0 / total[total > 0]).mean()) / 1.5)


def _heterogeneity(change: Floats, weight: Floats) -> float:
    """Variance of true changes [p] among opponents, by DerSimonian and Laird's moments."""
    mean = weight @ change / weight.sum()
    excess = float(weight @ (change - mean) ** 2) - (len(change) - 1)
    return max(0.0, excess / float(weight.sum() - (weight**2).sum() / weight.sum()))


def _against_itself(
    record: Record, series: Series, start: int, z: float
) -> tuple[float, float, float, str, int] | None:
    """Score, low and high of the stretch's last third against what the player was when it began, which
    snapshot that is, and how many games."""
    before = _what_it_was(record, series, start)
    if before not in series.opponents:
        return None
    third = (WINDOWS - start) // 3
    counts = series.counts[series.opponents.index(before), -third:].sum()
    if counts.games < LEAST_GAMES:
        return None
    low, high = (float(x) for x in counts.interval(dispersion(series.counts), z))
    return float(counts.score), low, high, before, int(counts.games)


def _what_it_was(record: Record, series: Series, start: int) -> str:
    """The player's first snapshot from the first third of a stretch; the newest from before, where there was
    none."""
    begin, end = int(series.edges[start]), int(series.edges[start + (WINDOWS - start) // 3])
    within = [name for at, name in record.frozen.get(series.player, ()) if begin <= at <= end]
    return within[0] if within else record.snapshot_before(series.player, begin)


def _finding(
    record: Record, series: Series, start: int, gain: Gain, own: tuple[float, float, float, str, int] | None
) -> Finding:
    player = series.player
    lasted = float(record.env_steps[-1] - record.env_steps[start])
    since = _what_it_was(record, series, start)
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
        score, low, high, snapshot, games = own
        evidence["against_itself"] = {
            "snapshot": snapshot,
            "score": score,
            "low": low,
            "high": high,
            "games": games,
        }
        itself = f"; against {snapshot}, what it was then, it scores {percent_between(score, low, high)}"
    return Finding(
        kind="stagnation",
        severity="note" if player in record.last_reset else "warning",
        subject=player,
        sentence=(
            f"{player} has not improved for {steps(lasted)}, since {since}: against {gain.opponents} "
            f"opponents met all along its score changed by {100 * gain.value:+.1f} points of 100 "
            f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}), less than {100 * MARGIN:.0f}{itself}"
        ),
        evidence=evidence,
    )
