"""How fast results become ratings, on one core, beside the `trueskill` library.

    python -m tests.bench.ratings [--games 200000] [--competitors 1000]

In rates per second every competitor learns, so that no game is skipped: the dearest case. In a league most
seats hold snapshots whose rating is fixed, and their games cost less. Matches of many teams are measured both
ways, in batches of 1,024, by the processor's time of the fastest.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import trueskill

from league.rules.rating.rating import RatingBook, RatingSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import Outcome, ResultBatch, Role, Snapshot
from tests import made_up
from tests.bench.shared import parser_of

BATCH = 2048  # matches that come in together
TABLES, BATCHES = 1024, 6  # matches of many teams that come in together, and how often
LIBRARY_GAMES = 2000
TEAMS = {
    "two against two (closed form)": [0, 0, 1, 1],
    **{f"free-for-all of {seats}": list(range(seats)) for seats in (3, 4, 8, 16)},
    "four teams of two": [0, 0, 1, 1, 2, 2, 3, 3],
    "four teams of four": [t for t in range(4) for _ in range(4)],
}


def best_of(runs: int, work: Callable[[], None]) -> float:
    """Seconds of the fastest run: what the machine can do when nothing else is on it."""
    seconds = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def make_book(competitors: int, rng: np.random.Generator, draws: float | str) -> RatingBook:
    book = RatingBook(RatingSettings.model_validate({"draw_probability": draws}))
    for mu in rng.normal(25.0, 5.0, competitors):
        book.admit(mu=mu, learns=True)
    return book


def pairs_per_second(games: int, competitors: int, draws: float | str = 0.1) -> float:
    rng = np.random.default_rng(0)
    home = rng.integers(competitors, size=games)
    away = (home + rng.integers(1, competitors, size=games)) % competitors
    outcome = rng.choice(3, size=games, p=[0.45, 0.1, 0.45]).astype(np.int8)

    def work() -> None:
        book = make_book(competitors, np.random.default_rng(1), draws)
        for start in range(0, games, BATCH):
            part = slice(start, start + BATCH)
            book.rate_pairs(home[part], away[part], outcome[part])

    return games / best_of(3, work)


def table_microseconds(
    team: list[int], competitors: int, learners: int | None = None, tied: float = 0.1
) -> float:
    """Microseconds of the processor for a match of these teams, in batches of TABLES.

    With `learners`, each match seats one of them, and all others are placed, as a league draws it; `None`:
    everyone learns. A share `tied` of the matches ends with all teams level.
    """
    rng, teams = np.random.default_rng(0), max(team) + 1
    skill = rng.normal(25.0, 5.0, competitors)
    seated = rng.integers(learners or 0, competitors, size=(BATCHES * TABLES, teams))
    if learners is not None:
        seated[np.arange(len(seated)), rng.integers(teams, size=len(seated))] = rng.integers(
            learners, size=len(seated)
        )
    performance = skill[seated] + rng.normal(0.0, 25 / 6, seated.shape)
    rank = np.argsort(np.argsort(-performance, axis=1), axis=1)
    rank[rng.random(len(rank)) < tied] = 0
    book = RatingBook(RatingSettings())
    for k, mu in enumerate(skill.tolist()):
        free = learners is None or k < learners
        book.admit(mu=mu, learns=free, anchor=not free)
        book.variance[k] = 1.0

    seats, ranks, spent = seated[:, team], rank.astype(np.int8)[:, team], []
    for start in range(0, len(seated), TABLES):
        began = time.thread_time()
        book.rate_teams(seats[start : start + TABLES], np.array(team), ranks[start : start + TABLES])
        spent.append(time.thread_time() - began)
    return 1e6 * min(spent) / TABLES


def library_table_microseconds(seats: int) -> float:
    """Microseconds of the `trueskill` library for a match of so many seats."""
    environment = trueskill.TrueSkill(mu=25.0, sigma=25 / 3, beta=25 / 6, tau=0.0, draw_probability=0.1)
    groups = [(environment.create_rating(25.0 + seat, 1.0),) for seat in range(seats)]

    def work() -> None:
        for _ in range(20):
            environment.rate(groups)

    return 1e6 * best_of(3, work) / 20


def library_pairs_per_second() -> float:
    environment = trueskill.TrueSkill(
        mu=25.0, sigma=25 / 3, beta=25 / 6, tau=25 / 300, draw_probability=0.1, backend=None
    )
    rng = np.random.default_rng(0)
    ratings = [environment.create_rating(mu) for mu in rng.normal(25.0, 5.0, 100).tolist()]
    pairs = rng.integers([0, 1], [100, 100], size=(LIBRARY_GAMES, 2)).tolist()

    def work() -> None:
        for h, step in pairs:
            a = (h + step) % 100
            ratings[h], ratings[a] = environment.rate_1vs1(ratings[h], ratings[a])

    return LIBRARY_GAMES / best_of(2, work)


def batch_of(roster: Roster, rng: np.random.Generator) -> ResultBatch:
    """BATCH matches among all of the roster."""
    home = rng.integers(len(roster), size=BATCH)
    seat = np.stack([home, (home + 1 + rng.integers(len(roster) - 1, size=BATCH)) % len(roster)], axis=1)
    outcome = rng.integers(3, size=BATCH)
    both = np.stack([outcome, int(Outcome.LOSS) - outcome], axis=1)
    return made_up.results(made_up.matches(roster.ids, seat), both)


def standings_seconds(competitors: int) -> float:
    """Seconds to fold BATCH matches among all of so many snapshots into payoff and ratings."""
    names = [f"s{k}" for k in range(competitors)]
    roster = Roster([Snapshot(n, "p", Role("main"), 0, 0, None, "", 0, "mlp", 0.0, "bench") for n in names])
    standings, batch = Standings(roster), batch_of(roster, np.random.default_rng(0))

    def work() -> None:
        standings.record(batch)

    return best_of(5, work)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--games", type=int, default=200_000)
    parser.add_argument("--competitors", type=int, default=1000)
    arguments = parser.parse_args()
    games, competitors = arguments.games, arguments.competitors
    library, ours = library_pairs_per_second(), pairs_per_second(games, competitors)
    estimating = pairs_per_second(games, competitors, "estimated")
    print(f"one against one, closed form   {ours:>12,.0f} updates/s")
    print(f"the same, draws estimated      {estimating:>12,.0f} updates/s")
    print(f"one against one, library       {library:>12,.0f} updates/s")
    print(f"ratio to the library           {ours / library:>12.1f}")
    print("us of the processor for a match  a learner among 10 placed  50 among 1,000  1,000 learn  library")
    for name, team in TEAMS.items():
        drawn, wide = table_microseconds(team, 11, 1), table_microseconds(team, 1050, 50)
        every, beside = table_microseconds(team, 1000), library_table_microseconds(len(set(team)))
        print(f"{name:<32} {drawn:>25.1f} {wide:>15.1f} {every:>12.1f} {beside:>8.0f}", flush=True)
    for size in (100, competitors, 3 * competitors):
        milliseconds = 1e3 * standings_seconds(size)
        print(f"standings, {BATCH} matches among {size:<6} {milliseconds:>6.1f} ms")


if __name__ == "__main__":
    main()
