"""How fast results become ratings, on one core, beside the `trueskill` library.

    python -m tests.bench.ratings [--games 200000] [--competitors 1000]

Every competitor learns, so that no game is skipped: the dearest case. In a league most seats hold
snapshots whose rating is fixed, and their games cost less.
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
LIBRARY_GAMES = 2000


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


def teams_per_second(matches: int, competitors: int, team: list[int]) -> float:
    rng = np.random.default_rng(0)
    seated = rng.integers(competitors, size=(matches, len(team)))
    rank = np.argsort(rng.random((matches, max(team) + 1)), axis=1).astype(np.int8)[:, team]

    def work() -> None:
        book = make_book(competitors, np.random.default_rng(1), 0.1)
        for start in range(0, matches, BATCH):
            part = slice(start, start + BATCH)
            book.rate_teams(seated[part], np.array(team), rank[part])

    return matches / best_of(2, work)


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
    two = teams_per_second(games // 4, competitors, [0, 0, 1, 1])
    print(f"two against two, closed form   {two:>12,.0f} updates/s")
    many = teams_per_second(200, competitors, list(range(8)))
    print(f"free-for-all of 8, library     {many:>12,.0f} updates/s")
    for size in (100, competitors, 3 * competitors):
        milliseconds = 1e3 * standings_seconds(size)
        print(f"standings, {BATCH} matches among {size:<6} {milliseconds:>6.1f} ms")


if __name__ == "__main__":
    main()
