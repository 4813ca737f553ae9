"""Circling: the last snapshot of a player is far more exploitable than the average of its newer half.

Self-play without enough regularisation goes around an equilibrium and does not come to it, while the average
of its policies does (Mertikopoulos, Papadimitriou, Piliouras: Cycles in adversarial regularized learning,
SODA 2018). It is found in measurements of `league exploit`, of a snapshot and of the average at it.
"""

from __future__ import annotations

import pandas as pd

from analysis.diagnostics.finding import Finding
from analysis.diagnostics.record import Record

RATIO = 1.5  # of the snapshot to its average, from which on it is reported
AVERAGE = ":average"  # behind the name of a player or snapshot, its average (league.competitors.mixtures)


def find_circling(record: Record) -> list[Finding]:
    """Return a finding for each player of which the newest measured average is clearly less exploitable."""
    measured = record.measured
    exact = measured[measured["kind"] == "exact"]
    newest = exact.sort_values("created_at", kind="stable").drop_duplicates(
        ["snapshot_id", "unit"], keep="last"
    )
    found = []
    for player, curve in newest.groupby("player", sort=True):
        averages = newest[newest["player"] == f"{player}{AVERAGE}"]
        at = curve[(curve["snapshot_id"] + AVERAGE).isin(averages["snapshot_id"])]
        if not len(at):
            continue
        last = at.sort_values("env_steps", kind="stable").iloc[-1]
        average = averages[averages["snapshot_id"] == f"{last['snapshot_id']}{AVERAGE}"].iloc[-1]
        if last["value"] > 0.0 and average["value"] * RATIO <= last["value"]:
            found.append(_finding(str(player), last, average))
    return found


def _finding(player: str, last: pd.Series, average: pd.Series) -> Finding:
    alone, mixed = float(last["value"]), float(average["value"])
    name = f"{player}{AVERAGE}"
    times = f"{alone / mixed:.1f} times less" if mixed > 0.0 else "not at all"
    return Finding(
        "circling",
        "warning",
        player,
        f"{player}: its last snapshot circles: the average of its newer half is {times} exploitable "
        f"({mixed:.3g} {last['unit']} against {alone:.3g}); hand out {name}, or hold it closer "
        "(learner.entropy)",
        {
            "snapshot": str(last["snapshot_id"]),
            "exploitability": alone,
            "average": name,
            "exploitability_of_average": mixed,
            "unit": str(last["unit"]),
        },
    )
