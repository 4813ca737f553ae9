"""Forfeits: how often competitors failed in their matches, and which of them were withdrawn for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.records import FORFEITS, MatchBatch, Outcome, ResultBatch


def failures_of(results: ResultBatch) -> Counter[str]:
    """Return the number of matches that each competitor forfeited, by its name."""
    failed = np.isin(results.reason, FORFEITS)
    match, seat = np.nonzero(failed[:, None] & (results.outcome == Outcome.FORFEIT))
    who = np.unique(np.stack([match, results.matches.seat[match, seat]]), axis=1)[1]
    return Counter(results.matches.competitors[i] for i in who.tolist())


def most_failures(config: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
    """Return the forfeits after which each of the entrants is withdrawn, by a tournament's settings."""
    bots, of_all = config.get("bots") or {}, config.get("limits") or {}
    own = {name: ((bots.get(name) or {}).get("limits") or {}).get("failures") for name in names}
    most = {name: own[name] or of_all.get("failures") for name in names}
    return {name: number for name, number in most.items() if number is not None}


def withdrawn(results: Iterable[ResultBatch], most: Mapping[str, int]) -> dict[str, int]:
    """Return the competitors that have forfeited as many matches as `most` allows, with their number."""
    total: Counter[str] = Counter()
    for batch in results if most else ():
        total += failures_of(batch)
    return {name: total[name] for name, number in most.items() if total[name] >= number}


def playing(matches: MatchBatch, gone: Iterable[str]) -> npt.NDArray[np.int64]:
    """Return the rows [k] of the matches in which none of the competitors in `gone` sits."""
    gone = set(gone)
    out = np.array([name in gone for name in matches.competitors], dtype=np.bool_)
    return np.flatnonzero(~out[matches.seat].any(axis=1))
