"""What a league's round robin has played so far: a fold of its recorded matches.

These matches are facts on who is stronger, and nothing else. They change neither ratings nor payoffs nor
counters of the run, so that training is the same with and without them. Their ids count down from -1, so that
the ids of other matches, and with them their seeds, are the same as well.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from storage.records import Purpose, ResultBatch

ROUND_ROBIN = "round_robin"  # the match type


def is_round_robin(results: ResultBatch) -> bool:
    """Return whether these are matches of the round robin, which come in batches of their own."""
    matches = results.matches
    if matches.purpose is not Purpose.EVALUATION or not len(matches):
        return False
    return matches.match_types[matches.match_type[0]] == ROUND_ROBIN


class Placed:
    """Counts of the round robin."""

    def __init__(self) -> None:
        self.env_steps = 0
        self.matches = 0
        self.next_id = -1
        self.games: Counter[tuple[str, str]] = Counter()  # by pair, in order of names

    def apply(self, results: ResultBatch) -> None:
        """Count recorded matches."""
        matches = results.matches
        self.env_steps += int(results.env_steps.sum())
        self.matches += len(results)
        self.next_id = min(self.next_id, int(matches.match_id.min()) - 1)
        low, high = matches.seat.min(axis=1), matches.seat.max(axis=1)
        pairs, counts = np.unique(np.stack([low, high]), axis=1, return_counts=True)
        for a, b, n in zip(*pairs.tolist(), counts.tolist(), strict=True):
            self.games[pair_of(matches.competitors[a], matches.competitors[b])] += n

    def of(self, one: str, other: str) -> int:
        """Return the number of matches that two competitors have played."""
        return self.games[pair_of(one, other)]


def pair_of(one: str, other: str) -> tuple[str, str]:
    """Return the two in order of names."""
    return (one, other) if one < other else (other, one)
