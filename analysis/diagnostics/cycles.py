"""Cycles: three competitors, each of which beats the next, so that a ranking is misleading.

A cycle is false only if one of its three results is due to luck. So each result is tested alone, with Holm's
correction over all pairings that were played. Every cycle of significant results is then real, for any number
of triples. The strongest cycle is the one whose weakest result has the highest lower bound.

Circling: the last snapshot of a player is far more exploitable than the average of its newer half.

Self-play without enough regularisation goes around an equilibrium and does not come to it, while the average
of its policies does (Mertikopoulos, Papadimitriou, Piliouras: Cycles in adversarial regularized learning,
SODA 2018). It is found in measurements of `league exploit`, of a snapshot and of the average at it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.diagnostics.finding import Finding, percent, percent_between
from analysis.diagnostics.record import Forms, Record
from analysis.diagnostics.significance import above, holm
from storage.arrays import Floats

LEVEL = 0.01  # probability of any false cycle
LEAST_GAMES = 30.0
LEAST_SCORE = 0.55  # of each against the next: less is not misleading
GRAVE = 0.65  # least score of all three for a warning
MOST = 3
MOST_FORMS = 1_500  # tested competitors: those with the most games


def find_cycles(record: Record) -> list[Finding]:
    """Return the strongest cycles of three; no two of them share a result."""
    forms = record.forms
    if len(forms.names) > MOST_FORMS:
        kept = np.sort(np.argsort(-forms.counts.games.sum(axis=1), kind="stable")[:MOST_FORMS])
        forms = Forms(tuple(forms.names[i] for i in kept), forms.counts[np.ix_(kept, kept)])
    sure, bound = sure_results(forms)
    note = "; results of a player before a freeze count for that snapshot" if record.live else ""
    strongest = strongest_cycles(np.where(sure, bound, 0.0), MOST)
    return [_finding(forms, bound, cycle, note) for cycle in strongest]


def sure_results(forms: Forms) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return whether row beats column [N, N] significantly and by enough, and the lower bound of its score.

    The bound is at the level that the correction for many tests leaves.
    """
    counts = forms.counts
    played = counts.games >= LEAST_GAMES
    z = (counts.estimate - 0.5) / np.sqrt(counts.variance)
    p_value = np.ones(played.shape)
    p_value[played] = holm(above(z[played]))
    sure = (p_value < LEVEL) & (counts.score >= LEAST_SCORE)
    passed = z[p_value < LEVEL]
    critical = float(passed.min()) if len(passed) else np.inf  # of the weakest significant result
    bound = counts.estimate - min(critical, 40.0) * np.sqrt(counts.variance)
    return sure, np.clip(bound, 0.0, 1.0)


def strongest_cycles(weight: Floats, most: int) -> list[tuple[int, int, int]]:
    """Return up to `most` cycles i > j > k > i of positive weights [N, N], the largest least weight first.

    Cycles share no edge: each one is found without the edges of earlier ones.
    """
    weight = np.where(np.eye(len(weight), dtype=bool), 0.0, weight)
    found: list[tuple[int, int, int]] = []
    while len(found) < most:
        level = _highest_level(weight)
        if level is None:
            break
        i, j, k = _cycle(weight >= level)
        found.append((i, j, k))
        weight[[i, j, k], [j, k, i]] = 0.0
    return found


def _highest_level(weight: Floats) -> float | None:
    """Return the largest weight such that edges of at least this weight form a cycle of three, or `None`."""
    levels = np.unique(weight[weight > 0.0])
    if not len(levels) or not _has_cycle(weight >= levels[0]):
        return None
    low, high = 0, len(levels)  # levels[low] has one, levels[high] has none
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _has_cycle(weight >= levels[middle]) else (low, middle)
    return float(levels[low])


def _has_cycle(beats: npt.NDArray[np.bool_]) -> bool:
    within = np.flatnonzero(beats.any(axis=0) & beats.any(axis=1))  # only who wins and loses is in a cycle
    edges = beats[np.ix_(within, within)].astype(np.float32)
    return bool(((edges @ edges) * edges.T).any())


def _cycle(beats: npt.NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return the first cycle; there must be one."""
    edges = beats.astype(np.float32)
    k, i = np.argwhere(((edges @ edges) > 0).T & beats)[0]
    j = np.flatnonzero(beats[i] & beats[:, k])[0]
    return int(i), int(j), int(k)


def _finding(forms: Forms, bound: Floats, cycle: tuple[int, int, int], note: str) -> Finding:
    order = list(cycle)
    first = min(range(3), key=lambda position: forms.names[order[position]])
    order = order[first:] + order[:first]
    edges = list(zip(order, order[1:] + order[:1], strict=True))
    results: list[dict[str, Any]] = [
        {"winner": forms.names[row], "loser": forms.names[column], **forms.counts[row, column].evidence()}
        for row, column in edges
    ]
    shown = ", ".join(f"{r['winner']} beats {r['loser']} with {percent_between(r)}" for r in results)
    least = float(min(bound[edge] for edge in edges))
    grave = min(r["score"] for r in results) >= GRAVE
    names = [forms.names[i] for i in order]
    sentence = f"{shown}; corrected for all pairings, each wins more than {percent(least)}{note}"
    evidence = {"competitors": names, "results": results, "least_score_bound": least}
    return Finding("cycle", "warning" if grave else "note", names[0], sentence, evidence)


RATIO = 1.5  # of the snapshot to its average, from which on it is reported
AVERAGE = ":average"  # behind the name of a player or snapshot, its average (league.competitors.mixtures)


def find_circling(record: Record) -> list[Finding]:
    """Return a finding for each player of which the newest measured average is clearly less exploitable."""
    measured = record.measured
    exact = measured[measured["kind"] == "exact"]
    exact = exact.sort_values("created_at", kind="stable")
    newest = exact.drop_duplicates(["snapshot_id", "unit"], keep="last")
    found = []
    for player, curve in newest.groupby("player", sort=True):
        averages = newest[newest["player"] == f"{player}{AVERAGE}"]
        at = curve[(curve["snapshot_id"] + AVERAGE).isin(averages["snapshot_id"])]
        if not len(at):
            continue
        last = at.sort_values("env_steps", kind="stable").iloc[-1]
        average = averages[averages["snapshot_id"] == f"{last['snapshot_id']}{AVERAGE}"].iloc[-1]
        if last["value"] > 0.0 and average["value"] * RATIO <= last["value"]:
            found.append(_circles(str(player), last, average))
    return found


def _circles(player: str, last: pd.Series, average: pd.Series) -> Finding:
    alone, mixed = float(last["value"]), float(average["value"])
    name = f"{player}{AVERAGE}"
    times = f"{alone / mixed:.1f} times less" if mixed > 0.0 else "not at all"
    sentence = (
        f"{player}: its last snapshot circles: the average of its newer half is {times} exploitable "
        f"({mixed:.3g} {last['unit']} against {alone:.3g}); hand out {name}, or hold it closer "
        "(learner.entropy)"
    )
    evidence = {
        "snapshot": str(last["snapshot_id"]),
        "exploitability": alone,
        "average": name,
        "exploitability_of_average": mixed,
        "unit": str(last["unit"]),
    }
    return Finding("circling", "warning", player, sentence, evidence)
