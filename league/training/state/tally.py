"""Counts of recorded matches: of training by player, match type and opponent; of the round robin by pair.

Matches of the round robin are facts on who is stronger, and nothing else. They change neither ratings nor
payoffs nor counters of the run, so that training is the same with and without them. Their ids count down from
-1, so that the ids of other matches, and with them their seeds, are the same as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from league.rules.roster import Roster
from storage.records import Competitor, LivePlayer, MatchBatch, Purpose, ResultBatch, Snapshot

_Ints = npt.NDArray[np.integer]
ROUND_ROBIN = "round_robin"  # the match type


class MatchTally:
    """Counts of matches by (player, match type), and of seats by (player, opponent).

    Each seat that another competitor fills counts once; if the player fills all seats, it counts once as
    its own opponent. Matches that no player learns from are left out.
    """

    def __init__(self) -> None:
        self.types: Counter[tuple[str, str]] = Counter()
        self.opponents: Counter[tuple[str, str]] = Counter()

    def count(self, matches: MatchBatch) -> None:
        """Count M matches."""
        rows, home = homes_of(matches)
        if not len(rows):
            return
        who, seat = matches.competitors, matches.seat[rows]
        for i, kind, n in _pairs(home, matches.match_type[rows]):
            self.types[who[i], matches.match_types[kind]] += n
        others = seat != home[:, None]
        others[~others.any(axis=1), 0] = True
        for i, other, n in _pairs(np.repeat(home, others.sum(axis=1)), seat[others]):
            self.opponents[who[i], who[other]] += n

    def by_role(self, roster: Roster) -> Counter[tuple[str, str]]:
        """Return the counts of `opponents` by the role of the player and the kind of the opponent.

        The kind is the role of a live player, `past` and the role for a snapshot, and `bot`.
        """
        found: Counter[tuple[str, str]] = Counter()
        for (player, opponent), seats in self.opponents.items():
            found[_kind_of(roster[player]), _kind_of(roster[opponent])] += seats
        return found


def _kind_of(competitor: Competitor) -> str:
    if isinstance(competitor, Snapshot):
        return f"past {competitor.role}"
    return competitor.role if isinstance(competitor, LivePlayer) else "bot"


def matches_of(matches: MatchBatch) -> dict[str, int]:
    """Return the number of M matches that each player learns from, in order of name."""
    counts = np.bincount(homes_of(matches)[1], minlength=len(matches.competitors)).tolist()
    return {name: n for name, n in sorted(zip(matches.competitors, counts, strict=True)) if n}


def homes_of(matches: MatchBatch) -> tuple[_Ints, _Ints]:
    """Return the training matches that a player learns from [m], and that player in each of them [m].

    The player, an index of `competitors`, is the one in all seats that learn.
    """
    if matches.purpose is not Purpose.TRAINING:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(matches.learning.any(axis=1))
    return rows, matches.seat[rows, matches.learning[rows].argmax(axis=1)]


def _pairs(first: _Ints, second: _Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of values that occurs in `first` [n] and `second` [n], and its count."""
    width = int(second.max(initial=0)) + 1
    # one number for each pair: sorting rows of two takes ten times as long
    found, counts = np.unique(first.astype(np.int64) * width + second, return_counts=True)
    yield from zip((found // width).tolist(), (found % width).tolist(), counts.tolist(), strict=True)


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
