"""How many games each schedule needs, on simulated fields of known strengths.

    python -m tests.bench.schedules [--seeds 20] [--fields 200]

Games are drawn from Bradley-Terry with a first mover that is 50 Elo ahead; a cyclic field has a
rock-paper-scissors of 150 Elo on top. Orders: Kendall's tau of the ratings and the true strengths,
averaged over the seeds, by pairs played; beside it the pairs that `adaptive` needs for a tau, as a share
of a round robin's. Top k: how often the k best are found, once a schedule is sure of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.stats import kendalltau

from analysis.statistics.games import Games
from analysis.statistics.hierarchy.normal import Normal, normal_of
from league.tournament.schedules import make_schedule
from league.tournament.schedules.designs import cyclic_design, developed
from league.tournament.schedules.rated import best, doubt
from league.tournament.schedules.schedule import Pairings, Round, Schedule
from league.tournament.schedules.settings import ScheduleSettings
from storage.arrays import Floats
from tests.analysis.simulated_games import by_round, names
from tests.bench.shared import parser_of

FIRST_MOVER = 50.0  # Elo
CYCLE = 150.0  # Elo


@dataclass(frozen=True, slots=True)
class Truth:
    """A field that meets in games of two."""

    elo: Floats  # [N]
    cycle: float = 0.0  # Elo that each kind of three has ahead of the next

    def play(self, pairings: Pairings, rng: np.random.Generator) -> Games:
        """The two games of each pair."""
        n = len(pairings)
        home, away = pairings.ravel(), pairings[:, ::-1].ravel()
        ahead = self.elo[home] - self.elo[away] + FIRST_MOVER
        ahead = ahead + self.cycle * np.array([0.0, 1.0, -1.0])[(away - home) % 3]
        points = (rng.random(2 * n) < 1.0 / (1.0 + 10.0 ** (-ahead / 400.0))).astype(np.float64)
        first = np.zeros(2 * n, dtype=np.int64)
        return Games(
            names(len(self.elo)),
            home,
            away,
            first,
            first + 1,
            points,
            np.repeat(np.arange(n), 2),
            np.arange(2 * n),
        )

    def tau(self, ratings: Normal) -> float:
        return float(kendalltau(ratings.elo, self.elo).statistic)


class Evenly(Schedule):
    """A round robin, a few of its pairs at a time, in an order in which all meet alike at any time."""

    def __init__(self, field: int, budget: int, per_round: int | None = None) -> None:
        cycles = -(-budget // (field * (field - 1) // 2))
        self._rows = developed(cyclic_design(field, 2, cycles), field)[:budget]
        self._size = per_round or field

    def next_round(self, history: list[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
        rows = self._rows[len(history) * self._size :][: self._size]
        return Round(rows) if len(rows) else None

    def total_pairs(self) -> int:
        return len(self._rows)


def games_by_round(truth: Truth, schedule: Schedule, seed: int) -> Iterator[Games]:
    """All games so far, after each round."""
    rng = np.random.default_rng(seed)
    return by_round(schedule, len(truth.elo), seed, lambda pairings: truth.play(pairings, rng))


def rounds(truth: Truth, schedule: Schedule, seed: int) -> Iterator[tuple[int, Normal]]:
    """Pairs played and the ratings after each round."""
    for games in games_by_round(truth, schedule, seed):
        yield games.num_pairs, normal_of(games)


Maker = Callable[[int, int], Schedule]
"""From entrants and a budget in pairs."""


def adaptive(field: int, budget: int, per_round: int | None = None) -> Schedule:
    settings = ScheduleSettings(kind="adaptive", budget=budget, pairs_per_round=per_round or field)
    return make_schedule(settings, names(field), 2)


def curve(
    make: Maker, truth: Callable[[np.random.Generator], Truth], budget: int, seeds: int
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Pairs [r] and the mean tau after them [r]; each seed has a field of its own, shuffled."""
    taus, pairs = [], np.zeros(0, dtype=np.int64)
    for seed in range(seeds):
        field = truth(np.random.default_rng([seed, 1]))
        found = [
            (played, field.tau(ratings))
            for played, ratings in rounds(field, make(len(field.elo), budget), seed)
            if played <= budget
        ]
        pairs = np.array([played for played, _ in found])
        taus.append([tau for _, tau in found])
    return pairs, np.mean(taus, axis=0)


def needed(pairs: npt.NDArray[np.int64], taus: Floats, target: float) -> float:
    """Pairs from which the mean tau is at least `target`, between two rounds by a line; nan: never."""
    above = np.flatnonzero(taus >= target)
    if not len(above):
        return float("nan")
    at = int(above[0])
    return float(np.interp(target, taus[max(0, at - 1) : at + 1], pairs[max(0, at - 1) : at + 1]))


def spread(field: int, width: float, cycle: float = 0.0) -> Callable[[np.random.Generator], Truth]:
    """Strengths drawn alike over `width` Elo."""
    return lambda rng: Truth(rng.uniform(0.0, width, field), cycle)


def normal(field: int, deviation: float) -> Callable[[np.random.Generator], Truth]:
    return lambda rng: Truth(rng.normal(0.0, deviation, field))


def ledge(field: int, k: int, height: float) -> Callable[[np.random.Generator], Truth]:
    """The hardest: k who are all as good as the others and `height` Elo."""
    return lambda rng: Truth(rng.permutation(np.where(np.arange(field) < k, height, 0.0)))


def top_k(k: int, confidence: float) -> Maker:
    def make(field: int, budget: int) -> Schedule:
        settings = ScheduleSettings(
            kind="top_k", k=k, confidence=confidence, budget=budget, pairs_per_round=field
        )
        return make_schedule(settings, names(field), 2)

    return make


@dataclass(frozen=True, slots=True)
class Search:
    """What became of looking for the k best in many fields."""

    sure: int  # fields in which a schedule was sure of them
    wrong: int  # of which it was wrong
    pairs: Floats  # [fields] played until then, or all of the budget


def search(
    make: Maker,
    truth: Callable[[np.random.Generator], Truth],
    *,
    k: int,
    confidence: float,
    budget: int,
    fields: int,
) -> Search:
    """Any schedule, stopped as `top_k` stops."""
    sure, wrong, pairs = 0, 0, np.full(fields, float(budget))
    for seed in range(fields):
        field = truth(np.random.default_rng([seed, 2]))
        for played, ratings in rounds(field, make(len(field.elo), budget), seed):
            if played <= budget and doubt(ratings, k) <= 1.0 - confidence:
                chosen = field.elo[best(ratings, k)]
                sure, wrong = sure + 1, wrong + int(chosen.min() < np.sort(field.elo)[-k])
                pairs[seed] = played
                break
    return Search(sure, wrong, pairs)


def print_orders(seeds: int) -> None:
    """Of narrow fields, whose taus vary most, ten times as many, in longer rounds."""
    for title, truth, budget, fields, per_round in (
        ("32 over 2,000 Elo", spread(32, 2000.0), 2000, seeds, 32),
        ("32 over 100 Elo", spread(32, 100.0), 1568, 10 * seeds, 96),
        ("32 over 2,000 Elo, cyclic", spread(32, 2000.0, CYCLE), 2000, seeds, 32),
        ("100 over 2,000 Elo", spread(100, 2000.0), 7000, seeds, 100),
    ):
        pairs, even = curve(partial(Evenly, per_round=per_round), truth, budget, fields)
        played, taus = curve(partial(adaptive, per_round=per_round), truth, budget, fields)
        chosen = np.interp(pairs, played, taus)
        print(f"\n{title}: {fields} fields\n{'pairs':>10}{'round robin':>14}{'adaptive':>12}{'ratio':>9}")
        for at in np.unique(np.geomspace(1, len(pairs), 9).astype(int)) - 1:
            print(f"{pairs[at]:>10,}{even[at]:>14.3f}{chosen[at]:>12.3f}{chosen[at] / even[at]:>9.3f}")
        print(f"{'least ratio of the two':<45}{(chosen / even).min():.3f}")
        for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
            target = float(even[round(share * (len(even) - 1))])
            games = needed(played, taus, target) / needed(pairs, even, target)
            print(f"{f'tau {target:.3f}, pairs needed, share':<45}{games:.2f}", flush=True)


def print_searches(fields: int) -> None:
    print(f"\n{'best k, 95 %':<34}{'schedule':<13}{'sure':>6}{'wrong':>7}{'pairs, median':>15}{'mean':>8}")
    for title, truth, k in (
        ("3 of 16, normal, 250 Elo", normal(16, 250.0), 3),
        ("3 of 16, all 80 Elo ahead", ledge(16, 3, 80.0), 3),
        ("1 of 32, normal, 250 Elo", normal(32, 250.0), 1),
    ):
        for name, make in (("round robin", Evenly), ("top_k", top_k(k, 0.95))):
            found = search(make, truth, k=k, confidence=0.95, budget=1600, fields=fields)
            print(
                f"{title:<34}{name:<13}{found.sure:>6}{found.wrong:>7}"
                f"{np.median(found.pairs):>15,.0f}{found.pairs.mean():>8,.0f}",
                flush=True,
            )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--fields", type=int, default=200)
    arguments = parser.parse_args()
    print_orders(arguments.seeds)
    print_searches(arguments.fields)


if __name__ == "__main__":
    main()
