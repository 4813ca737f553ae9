"""Comparison of two stored competitors on matches against each other. Writes nothing.

The unit is the pair: one seed, played with both seatings, so that neither the deal nor the first move
favours one competitor. Pairs are played in batches, and a sequential test follows each batch. Batches
grow, so that a large difference is found after a few pairs and a small one takes few tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analysis.statistics.elo import EloEstimate, elo_from_pairs, normalized_elo, score_counts
from analysis.statistics.games import GameTally, pair_scores, tally
from analysis.statistics.sprt import Answer, Sprt
from league.arena.arena import Arena
from league.arena.matches import drawn_seed
from league.rollout.openings import Openings
from storage.arrays import Floats, Indices
from storage.errors import Failure, Mistake
from storage.records import Purpose, ResultBatch

FIRST_BATCH, LAST_BATCH = 16, 256  # pairs; other numbers would give other games for the same seed
LOOK = 4  # pairs


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of `a` against `b`, with sides swapped within each pair."""

    a: str
    b: str
    results: tuple[ResultBatch, ...]  # matches 2 i and 2 i + 1 are pair i; in the first, a has the first side
    tally: GameTally  # the games that count, among (a, b); identical pairs count once
    sprt: Sprt | None
    until: float | None = None  # Elo: half of the interval's width at which it stops
    exhausted: bool = False  # it stopped as all pairs of a batch repeat earlier ones
    failures: Mapping[str, int] = field(default_factory=dict)  # matches forfeited, by cause

    @property
    def outcome_of_a(self) -> npt.NDArray[np.int8]:
        """Outcomes [games] of a, one for each game played."""
        own = [batch.outcome[np.arange(len(batch)), _seat_of(self.a, batch)] for batch in self.results]
        return np.concatenate(own) if own else np.zeros(0, dtype=np.int8)

    @property
    def played_pairs(self) -> int:
        """Number of pairs played."""
        return sum(map(len, self.results)) // 2

    @property
    def repeated_pairs(self) -> int:
        """Number of pairs without random choices that repeat an earlier pair move by move."""
        return sum(repeats for _, repeats in self.tally.repeated_pairs)

    @property
    def ruled_out_pairs(self) -> int:
        """Number of pairs that do not count: a match of theirs crashed or was forfeited by both."""
        return self.tally.ruled_out_pairs

    @property
    def pair_scores(self) -> Floats:
        """Mean points [n] of a in each pair that counts: a win is 1, a draw one half."""
        return pair_scores(self.tally.games, 0, 1)

    @property
    def wins_draws_losses(self) -> tuple[int, int, int]:
        """Numbers of wins, draws and losses of a in the games that count."""
        games = self.tally.games
        points = np.where(games.home == 0, games.points, 1.0 - games.points)
        return int((points == 1.0).sum()), int((points == 0.5).sum()), int((points == 0.0).sum())

    @property
    def pentanomial(self) -> Indices:
        """Numbers [5] of pairs in which a got 0, 1/2, 1, 3/2 and 2 points."""
        return score_counts(self.pair_scores)

    @property
    def estimate(self) -> EloEstimate:
        """Estimate of a's advantage in Elo."""
        return elo_from_pairs(self.pair_scores)

    @property
    def narrow(self) -> bool:
        """Whether the interval is as narrow as `until` asks."""
        return self.until is not None and len(self.pair_scores) > 0 and self.estimate.error <= self.until

    @property
    def normalized(self) -> EloEstimate:
        """Estimate of a's advantage in normalized Elo."""
        return normalized_elo(self.pentanomial).single()

    @property
    def llr(self) -> float | None:
        """Log likelihood ratio of the test, to compare with `sprt.bounds`; `None` without a test."""
        return None if self.sprt is None else float(self.sprt.llr(self.tested))

    @property
    def tested(self) -> Indices:
        """Numbers [5] of pairs as in `pentanomial`, of those that the test has seen.

        It looks after each `LOOK` pairs and at the end, so that one that ends in a large batch errs and
        estimates as one that ends in a small one. It does not see what was played after its answer.
        """
        counts = np.cumsum(self.pair_scores[:, None] == np.arange(5) / 4, axis=0)
        looks = counts[[*range(LOOK - 1, len(counts) - 1, LOOK), len(counts) - 1]] if len(counts) else counts
        if self.sprt is None or not len(looks):
            return self.pentanomial
        low, high = self.sprt.bounds
        llr = self.sprt.llr(looks)
        decided = np.flatnonzero((llr <= low) | (llr >= high))
        return looks[decided[0] if len(decided) else -1]

    @property
    def answer(self) -> Answer | None:
        """Hypothesis that the test accepted; `None` if it is undecided or there is no test."""
        return None if self.sprt is None or self.llr is None else self.sprt.decide(self.llr)


def compare(
    run: Path,
    a: str,
    b: str,
    *,
    pairs: int,
    seed: int = 0,
    sprt: Sprt | None = None,
    until: float | None = None,
    opening_plies: int = 0,
    other: Path | None = None,
) -> Comparison:
    """Play up to `pairs` pairs of competitors `a` and `b` of `run`, each given by name and mode.

    With `other`, b is a competitor of that run. With `sprt`, play only until the test decides; with `until`,
    until the 95 % interval is at most that much Elo to either side, which holds as often as others
    (`tests/bench/until.py`); with either, until a whole batch repeats earlier pairs. If `a` and `b` are the
    same competitor, the second gets another name. Raise UnknownCompetitor if a name fits nothing, CorruptBlob
    if weights are damaged, Mistake for runs of different games, for a game without two sides, for an opening
    that leaves no moves and for two rules of stopping, NotARun for the run of a tournament, Failure if not
    one pair counts.
    """
    if until is not None and not 0.0 < until < math.inf:
        raise Mistake(f"compare: until is {until:g}, expected Elo above 0, such as 20")
    if sprt is not None and until is not None:
        raise Mistake("compare: found until beside a sequential test, expected one rule by which it stops")
    if other is not None and other.resolve() == run.resolve():
        other = None
    arena = Arena.of_runs(*([run] if other is None else [run, other]), slots=2 * min(pairs, LAST_BATCH))
    agreed = arena.agreed
    if agreed.num_teams != 2:
        if agreed.num_teams == 1:
            raise Mistake(
                f"compare: matches of '{agreed.env_id}' have one side, so that no two competitors meet; what "
                f"each scored is shown by: league evaluate {run} {a}"
            )
        raise Mistake(
            f"compare: '{agreed.env_id}' has {agreed.game.num_seats} seats, expected 2, or two teams; "
            "use league tournament, which compares any number"
        )
    openings = Openings(opening_plies) if opening_plies else None
    if openings is not None:
        openings.check(agreed.game)
    seated = replace(
        arena.seat(a, b, runs=[0, 0 if other is None else 1]), openings=openings, fingerprint=True
    )
    one, another = seated.names
    table = arena.table("compare", seed, Purpose.TOURNAMENT)
    results: list[ResultBatch] = []

    def so_far() -> Comparison:
        counted = tally(results, seated.names)
        return Comparison(one, another, tuple(results), counted, sprt, until, failures=arena.failures)

    played: Comparison | None = None
    for first, size in batches(pairs):
        matches = table.pairs(seated.names, np.tile([0, 1], (size, 1)), first)
        results += arena.play(seated, matches, drawn_seed(seed, int(matches.match_id[0])))
        if sprt is None and until is None:
            continue
        before, played = played, so_far()
        if before is not None and played.repeated_pairs - before.repeated_pairs == size:
            played = replace(played, exhausted=True)
            break
        if played.answer is not None or played.narrow:
            break
    played = played or so_far()
    if not played.tally.games.num_pairs:
        raise Failure(
            f"compare: in each of {played.played_pairs} pairs of {played.a} and {played.b} a match crashed, "
            f"or was forfeited by both; nothing counts (see: league envs check {agreed.env_id})"
        )
    return played


def batches(pairs: int) -> Iterator[tuple[int, int]]:
    """Yield the first pair and the size of each batch; sizes double up to LAST_BATCH."""
    first, size = 0, FIRST_BATCH
    while first < pairs:
        yield first, min(size, pairs - first)
        first, size = first + size, min(2 * size, LAST_BATCH)


def _seat_of(competitor: str, batch: ResultBatch) -> Indices:
    """Return [M] the first seat of `competitor` in each match."""
    index = batch.matches.competitors.index(competitor)
    return np.argmax(batch.matches.seat == index, axis=1)
