"""Bisection: find the two snapshots between which a player lost strength against an opponent.

The answers of this bisection are noisy (Horstein, IEEE Trans. Inform. Theory 9, 1963; Waeber, Frazier,
Henderson, SIAM J. Control Optim. 51, 2013). Each place between two snapshots has a probability of being the
drop, and the next pairs are played at the median, so that every answer halves the uncertainty. The scores
before and after the drop are unknown too: they are integrated out (a beta-binomial likelihood), under the
condition that the score fell. The search ends when one place has the requested probability, or when all pairs
have been played.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, ndtri

from storage.arrays import Floats

Play = Callable[[str, str, int], tuple[int, int, int]]
"""play(a, b, pairs): wins, draws, losses of a against b in that many pairs of games, new at each call."""

BATCH = 16  # pairs played before the next place is chosen
_SHARE_OF_ENDS = 0.125  # least share of all games for the first and for the last snapshot


@dataclass(frozen=True, slots=True)
class Location:
    """Place where a player's score against an opponent fell: between `before` and `after`."""

    opponent: str
    before: str  # the last snapshot with the old score
    after: str  # the first snapshot with the lower score
    probability: float  # of exactly this place, if there is one drop
    between: tuple[str, str]  # range that contains the drop with probability 95 %
    score_before: float  # over all snapshots played up to `before`
    score_after: float
    pairs: int  # number played
    played: tuple[str, ...]  # snapshots that played
    pairs_of_all: int  # number needed to classify every snapshot with the same certainty
    sure: bool  # whether the requested probability was reached

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        how = "" if self.sure else f", which is only {100 * self.probability:.0f} % probable"
        return (
            f"between {self.before} and {self.after} the score against {self.opponent} fell from "
            f"{100 * self.score_before:.0f} to {100 * self.score_after:.0f} %{how}; found with "
            f"{self.pairs:,} pairs; playing all snapshots takes {self.pairs_of_all:,} for the same certainty"
        )


def locate_forgetting(
    play: Play,
    snapshots: Sequence[str],
    opponent: str,
    *,
    most_pairs: int = 2_000,
    probability: float = 0.95,
    least_drop: float = 0.05,
) -> Location | None:
    """Return the place among `snapshots` (in order of training) where the score against `opponent` fell.

    Return `None` if a quarter of `most_pairs` does not show that the last snapshot scores less than the first
    by `least_drop`. Raise ValueError for fewer than two snapshots or fewer than two batches of pairs.
    """
    n = len(snapshots)
    if n < 2 or most_pairs < 2 * BATCH:
        raise ValueError(
            f"locate_forgetting: {n} snapshots and {most_pairs} pairs, expected at least 2 and {2 * BATCH}"
        )
    games, points, pairs = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)

    def ask(index: int) -> None:
        size = min(BATCH, most_pairs - int(pairs.sum()))
        wins, draws, losses = play(snapshots[index], opponent, size)
        games[index] += wins + draws + losses
        points[index] += wins + 0.5 * draws
        pairs[index] += size

    while not _fell(games[[0, -1]], points[[0, -1]], least_drop, probability):
        if pairs.sum() > max(most_pairs // 4, 2 * BATCH) - 2 * BATCH:
            return None
        ask(0)
        ask(n - 1)
    while (posterior := places(games, points)).max() < probability and pairs.sum() < most_pairs:
        ask(_most_telling(posterior, games))
    k = int(posterior.argmax())
    sides = (slice(0, k + 1), slice(k + 1, None))
    before, after = (float(points[side].sum() / max(games[side].sum(), 1.0)) for side in sides)
    cumulative = np.cumsum(posterior)
    low = int(np.searchsorted(cumulative, 0.025))
    high = min(int(np.searchsorted(cumulative, 0.975)), len(posterior) - 1)
    return Location(
        opponent=opponent,
        before=snapshots[k],
        after=snapshots[k + 1],
        probability=float(posterior[k]),
        between=(snapshots[low], snapshots[high + 1]),
        score_before=before,
        score_after=after,
        pairs=int(pairs.sum()),
        played=tuple(name for name, count in zip(snapshots, pairs, strict=True) if count),
        pairs_of_all=pairs_of_all(n, before, after, probability),
        sure=bool(posterior[k] >= probability),
    )


def places(games: Floats, points: Floats) -> Floats:
    """Return the probability [n - 1] that the drop follows snapshot k, given `games` and `points` [n]."""
    won_before, lost_before = np.cumsum(points)[:-1], np.cumsum(games - points)[:-1]
    won_after, lost_after = points.sum() - won_before, (games - points).sum() - lost_before
    fits = betaln(won_before + 1, lost_before + 1) + betaln(won_after + 1, lost_after + 1)
    fell = won_before / (won_before + lost_before) > won_after / (won_after + lost_after)
    fits = np.where(fell, fits, -np.inf)
    if not np.isfinite(fits).any():
        return np.full(len(fits), 1.0 / len(fits))
    chance = np.exp(fits - fits.max())
    return chance / chance.sum()


def _fell(games: Floats, points: Floats, least_drop: float, probability: float) -> bool:
    """Return whether the second of two scores is below the first by more than `least_drop`.

    The bound holds over all repeated tests, one after each batch.
    """
    if not games.all():
        return False
    mean = (points + 1) / (games + 2)
    error = math.sqrt(float((mean * (1 - mean) / (games + 2)).sum()))
    looks = 1 + games.sum() / (4 * BATCH)
    z = math.sqrt(2 * math.log(2 * looks / (1 - probability)))  # a bound over all looks
    return bool(mean[0] - mean[1] > max(least_drop, z * error))


def _most_telling(posterior: Floats, games: Floats) -> int:
    """Return the snapshot that is before the drop with a probability nearest to one half.

    Of equals it is the one with the fewest games. The first and the last snapshot keep their share of games:
    only they are certainly before and after the drop, so no place can be certain while their scores are not.
    """
    for end in (0, len(games) - 1):
        if games[end] < _SHARE_OF_ENDS * games.sum():
            return end
    before = 1.0 - np.append(0.0, np.cumsum(posterior))  # probability that the drop follows snapshot i
    distance = np.round(np.abs(before - 0.5), 6)
    return int(np.lexsort((games, distance))[0])


def pairs_of_all(n: int, before: float, after: float, probability: float) -> int:
    """Return the number of pairs needed to classify all n snapshots, with an equal number for each.

    Scores are compared with the middle of `before` and `after`; all n classifications are right with this
    `probability`. A pair is 2 games with independent results.
    """
    gap = max(before - after, 1e-3)
    error = math.sqrt(max(before * (1 - before), after * (1 - after)) / 2)
    z = float(ndtri(1 - (1 - probability) / n))
    return n * max(1, math.ceil((2 * z * error / gap) ** 2))
