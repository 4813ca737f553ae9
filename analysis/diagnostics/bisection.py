"""Between which two snapshots did a player lose strength against an opponent? Found with few matches.

A bisection whose answers are noisy (Horstein, IEEE Trans. Inform. Theory 9, 1963; Waeber, Frazier, Henderson,
SIAM J. Control Optim. 51, 2013): a probability for each place where the drop may be, and the next pairs are
played where its two sides weigh alike, so that every answer halves what is left. How strong the player was
before and after is not known either: of each place, scores on both sides are integrated over all that they
may be (a beta-binomial likelihood), after not being above before. It ends when one place has the probability
that was asked for, or when the pairs are used up, and then says how probable its answer is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, ndtri

from storage.arrays import Floats

Play = Callable[[str, str, int], tuple[int, int, int]]
"""play(a, b, pairs): wins, draws, losses of a against b in so many pairs of games, new ones at each call."""

BATCH = 16  # pairs played before the next place is chosen
_SHARE_OF_ENDS = 0.125  # of all games, that the first and the last snapshot have at least


@dataclass(frozen=True, slots=True)
class Location:
    """Where a player's score against an opponent fell: between `before` and `after`."""

    opponent: str
    before: str  # the last snapshot that still scored as the first
    after: str  # the first that no longer does
    probability: float  # that it is exactly there, if there is one drop
    between: tuple[str, str]  # with that probability or more, 95 %: at the least before and after
    score_before: float  # over all snapshots played up to `before`
    score_after: float
    pairs: int  # that were played
    played: tuple[str, ...]  # the snapshots that played
    pairs_of_all: int  # that telling before from after for every snapshot would have taken, equally surely
    sure: bool  # the probability asked for was reached

    @property
    def sentence(self) -> str:
        how = "" if self.sure else f", which is only {100 * self.probability:.0f} % probable"
        return (
            f"between {self.before} and {self.after} the score against {self.opponent} fell from "
            f"{100 * self.score_before:.0f} to {100 * self.score_after:.0f} %{how}; found with "
            f"{self.pairs:,} pairs, where playing all snapshots as surely takes {self.pairs_of_all:,}"
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
    """The place among `snapshots` (in order of training, two or more) where the score against `opponent`
    fell. None: the last does not score less than the first by `least_drop`, as far as a quarter of
    `most_pairs` could show. Raises ValueError for fewer than two snapshots, or than two batches of pairs.
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
    posterior = places(games, points)
    while posterior.max() < probability and pairs.sum() < most_pairs:
        ask(_most_telling(posterior, games))
        posterior = places(games, points)
    return _location(snapshots, opponent, posterior, games, points, pairs, probability)


def places(games: Floats, points: Floats) -> Floats:
    """[n - 1] probability that the drop is behind snapshot k, by `games` and `points` [n] of each."""
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
    """Whether the second of two lies below the first by more than `least_drop`; so surely that looking
    again after each batch does not make it likely by luck."""
    if not games.all():
        return False
    mean = (points + 1) / (games + 2)
    error = math.sqrt(float((mean * (1 - mean) / (games + 2)).sum()))
    looks = 1 + games.sum() / (4 * BATCH)
    z = math.sqrt(2 * math.log(2 * looks / (1 - probability)))  # a bound over all looks
    return bool(mean[0] - mean[1] > max(least_drop, z * error))


def _most_telling(posterior: Floats, games: Floats) -> int:
    """The snapshot that is before the drop with a probability nearest to one half, of equals the one that has
    played least. But the first and the last keep their share: they alone are surely before and after, and
    while either is known too little no place in between can be known, however often it is played."""
    for surely in (0, len(games) - 1):
        if games[surely] < _SHARE_OF_ENDS * games.sum():
            return surely
    before = 1.0 - np.append(0.0, np.cumsum(posterior))  # of snapshot i: that the drop is behind it
    distance = np.round(np.abs(before - 0.5), 6)
    return int(np.lexsort((games, distance))[0])


def _location(
    snapshots: Sequence[str],
    opponent: str,
    posterior: Floats,
    games: Floats,
    points: Floats,
    pairs: npt.NDArray[np.int64],
    probability: float,
) -> Location:
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
        pairs_of_all=pairs_of_all(len(snapshots), before, after, probability),
        sure=bool(posterior[k] >= probability),
    )


def pairs_of_all(n: int, before: float, after: float, probability: float) -> int:
    """That n snapshots need, each as many, for telling two scores apart at their middle with at most that
    probability of any mistake: 2 games a pair, of independent results."""
    gap = max(before - after, 1e-3)
    error = math.sqrt(max(before * (1 - before), after * (1 - after)) / 2)
    z = float(ndtri(1 - (1 - probability) / n))
    return n * max(1, math.ceil((2 * z * error / gap) ** 2))
