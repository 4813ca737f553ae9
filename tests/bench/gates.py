"""How often do gates pass falsely, and how often rightly, under each schedule? Simulated fields say so.

    python -m tests.bench.gates [--fields 300] [--first 0] [--only swiss] [--ahead 100]

A candidate and an incumbent are in a field of twelve, of spread 150 Elo, with a first mover 50 Elo ahead. The
incumbent is the strongest of the others. *False*: the two are equals, and the gate says that the candidate is
better: by the rating (`rating > 0 against incumbent`), by their own games (`elo > 0 against incumbent`). Of
fields in which strengths are drawn at random, false is also a pass of the one that ends first, where it is
not the best: by `rank <= 1`, by `p_best > 0.95`; the share is of all fields. *Power*: how often the gate on
the rating passes a candidate that is `--ahead` Elo better, and how often after a plain round robin of as many
games. Each share has the standard error sqrt(p (1 - p) / fields).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.gates.gates import parse_gate
from analysis.statistics.elo import EloEstimate, elo_from_counts
from analysis.statistics.games import Games, games_of
from analysis.statistics.hierarchy.posterior import Posterior, posterior
from analysis.statistics.meetings import Direct, meetings_of
from league.tournament.schedules import make_schedule
from league.tournament.schedules.schedule import Pairings, Schedule
from league.tournament.schedules.settings import ScheduleSettings
from storage.records import Entrant
from tests.analysis.simulated_games import join, names
from tests.bench.coverage import Design, played
from tests.bench.schedules import Evenly
from tests.bench.shared import parser_of

FIELD = 12
SPREAD = 150.0  # Elo
SAMPLES = 1_000
CANDIDATE, INCUMBENT = names(2)
RATING = f"{CANDIDATE} rating > 0 against {INCUMBENT}"
GAMES = f"{CANDIDATE} elo > 0 against {INCUMBENT}"
Floats = npt.NDArray[np.float64]

SCHEDULES = {
    "round_robin, 2 pairs": {"kind": "round_robin", "pairs": 2},
    "gauntlet, 6 pairs": {"kind": "gauntlet", "pairs": 6, "seeds": (CANDIDATE,)},
    "swiss, 2 pairs": {"kind": "swiss", "pairs": 2},
    "adaptive, 4 pairs": {"kind": "adaptive", "pairs": 4},
    "top_k 1, 4 pairs": {"kind": "top_k", "pairs": 4},
}


@dataclass(frozen=True, slots=True)
class Field:
    """What gates read of a tournament."""

    games: Games
    ratings: Posterior
    anchor: str | None = None

    @property
    def entrants(self) -> tuple[Entrant, ...]:
        """The field, all of them bots."""
        nothing = (None,) * 7
        return tuple(Entrant(name, "bot", *nothing, None) for name in self.ratings.competitors)

    def value(self, competitor: str, column: str) -> float:
        """Return an entry of the table of a verdict."""
        at = self.ratings.competitors.index(competitor)
        mine = (self.games.home == at) | (self.games.away == at)
        _, low, high = self.ratings.ranks()
        found = {
            "games": float(mine.sum()),
            "pairs": float(len(np.unique(self.games.pair[mine]))),
            "part": float(self.ratings.part[at]),
            "p_best": float(self.ratings.p_best[at]),
            "rank": float(1 + (self.ratings.elo > self.ratings.elo[at]).sum()),
            "rank_low": float(low[at]),
            "rank_high": float(high[at]),
        }
        return found[column]

    def difference(self, a: str, b: str) -> EloEstimate:
        """Return how far `a` is rated above `b`."""
        return self.ratings.difference(self.ratings.competitors.index(a), self.ratings.competitors.index(b))

    def direct(self, a: str, b: str) -> Direct | None:
        """Return the games of `a` against `b`, of which `a` has the lower number."""
        met = meetings_of(self.games)
        row = np.flatnonzero((met.first == names(FIELD).index(a)) & (met.second == names(FIELD).index(b)))
        if not len(row):
            return None
        at = int(row[0])
        found = elo_from_counts(met.counts[row])
        elo = EloEstimate(*(float(each[0]) for each in (found.elo, found.low, found.high, found.los)))
        return Direct(int(met.pairs[at]), int(met.games[at]), float(met.score[at]), elo)


def tournament(schedule: Schedule, truth: Floats, seed: int) -> tuple[Field, int]:
    """A tournament of `truth`, and the number of its pairs."""
    rng = np.random.default_rng([seed, 1])
    history: list[Pairings] = []
    games = games_of([], names(FIELD))
    while True:
        pairings = schedule.next_round(history, games, np.random.default_rng([seed, len(history)]))
        if pairings is None:
            ratings = posterior(games, samples=SAMPLES, seed=seed)
            return Field(games, ratings), sum(map(len, history))
        history.append(pairings)
        new = played(truth, pairings, Design("", FIELD, SPREAD, 1), rng)
        games = join([games, new]) if len(history) > 1 else new


def with_candidate(seed: int, ahead: float) -> Floats:
    """Strengths of a field whose candidate is so far ahead of the incumbent, the best of the others."""
    others = np.sort(np.random.default_rng([seed, 0]).normal(size=FIELD - 1) * SPREAD)[::-1]
    return np.concatenate([[others[0] + ahead], others])


def passes(field: Field, gate: str) -> bool:
    """Whether the field passes."""
    return parse_gate(gate).check(field).passed


def false_passes(settings: ScheduleSettings, seed: int) -> tuple[bool, bool, bool, bool]:
    """Whether gates on the rating, the games, the rank and `p_best` passed falsely in one field."""
    equals, _ = tournament(make_schedule(settings, names(FIELD), 2), with_candidate(seed, 0.0), seed)
    truth = np.random.default_rng([seed, 2]).normal(size=FIELD) * SPREAD
    drawn, _ = tournament(make_schedule(settings, names(FIELD), 2), truth, seed + 1_000_000)
    first = int(drawn.ratings.elo.argmax())
    wrong = truth[first] < truth.max()
    return (
        passes(equals, RATING),
        passes(equals, GAMES),
        bool(wrong) and passes(drawn, f"c{first} rank <= 1"),
        bool(wrong) and passes(drawn, f"c{first} p_best > 0.95"),
    )


def powers(settings: ScheduleSettings, ahead: float, seed: int) -> tuple[bool, bool, int]:
    """Whether the better candidate passed, whether after a round robin of as many pairs, and these."""
    truth = with_candidate(seed, ahead)
    field, pairs = tournament(make_schedule(settings, names(FIELD), 2), truth, seed)
    even, _ = tournament(Evenly(FIELD, pairs), truth, seed)
    return passes(field, RATING), passes(even, RATING), pairs


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--fields", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="seed of the first field")
    parser.add_argument("--only", default="", help="schedules whose title holds this")
    parser.add_argument("--ahead", type=float, default=100.0, help="Elo of a better candidate")
    given = parser.parse_args()
    print("| schedule | pairs | false: rating | games | rank | p_best | power | of a round robin |")
    print("|---|---|---|---|---|---|---|---|")
    seeds = range(given.first, given.first + given.fields)
    for title, settings in SCHEDULES.items():
        if given.only not in title:
            continue
        schedule = ScheduleSettings.model_validate(settings)
        wrong = np.mean([false_passes(schedule, seed) for seed in seeds], axis=0)
        right = np.mean([powers(schedule, given.ahead, seed) for seed in seeds], axis=0)
        shown = " | ".join(f"{share:.3f}" for share in (*wrong, *right[:2]))
        print(f"| {title} | {right[2]:.0f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
