"""Meetings: a batch of results as counts of ordered pairs of competitors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.records import MatchBatch, Outcome, ResultBatch, by_team


def meetings(results: ResultBatch, seq: int) -> pa.Table:
    """Return rows of `meetings`: how often each ordered pair met in these M matches, with results and leads.

    `seq` is the number of the last match. Sorted by (home, away). The lead of a game is half of what home's
    score is above away's.
    """
    names, seated = sorted_by_name(results.matches)
    first, outcome, place = by_team(results)
    seated = seated[:, first]
    score = results.score[:, first].astype(np.float64)
    pairs_met: list[npt.NDArray[np.int64]] = []  # [pairs of one kind, 2]: home and away as one number, result
    leads: list[npt.NDArray[np.float64]] = []
    for home, away in itertools.permutations(range(seated.shape[1]), 2):
        result = np.sign(place[:, home] - place[:, away]) + 1  # 0: a win of home, 1: even, 2: a loss
        void = (result == 1) & (outcome[:, home] == Outcome.FORFEIT)  # two forfeits say nothing
        met = (seated[:, home] != seated[:, away]) & ~void
        pairs_met.append(np.stack([seated[:, home] * len(names) + seated[:, away], result], axis=1)[met])
        leads.append((score[:, home] - score[:, away])[met] / 2.0)
    pair, result = np.concatenate(pairs_met).T if pairs_met else np.zeros((2, 0), np.int64)
    pairs, met_in = np.unique(pair, return_inverse=True)
    counts = np.bincount(met_in * 3 + result, minlength=3 * len(pairs)).reshape(-1, 3)
    lead = np.concatenate(leads) if leads else np.zeros(0)
    return pa.table(
        {
            "seq": np.full(len(pairs), seq, dtype=np.int64),
            "purpose": names_column(np.zeros(len(pairs), np.int8), [results.matches.purpose.value]),
            "home": names_column((pairs // len(names)).astype(np.int32), names),
            "away": names_column((pairs % len(names)).astype(np.int32), names),
            "games": counts.sum(axis=1).astype(np.int32),
            "wins": counts[:, 0].astype(np.int32),
            "draws": counts[:, 1].astype(np.int32),
            "losses": counts[:, 2].astype(np.int32),
            "lead": np.bincount(met_in, lead, minlength=len(pairs)),
            "squares": np.bincount(met_in, lead**2, minlength=len(pairs)),
        }
    )


def sorted_by_name(matches: MatchBatch) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Return the competitors' names in order, each once, and the seating [M, S] as indices into them."""
    names, numbered = np.unique(np.array(matches.competitors, dtype=str), return_inverse=True)
    return names.tolist(), numbered[matches.seat].astype(np.int64)


def names_column(indices: npt.NDArray[np.integer], names: Sequence[str]) -> pa.DictionaryArray:
    """Return a text for each of `indices` [n]. Raise IndexError for one without a name: it is not stored."""
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(names, pa.string()), safe=True)
