"""How often do gates pass falsely, and how often rightly, under each schedule? Simulated fields say so.

    python -m tests.bench.gates [--fields 300] [--first 0] [--only swiss] [--ahead 100]

A candidate and an incumbent are in a field of twelve, of spread 150 Elo, with a first mover 50 Elo ahead. The
incumbent is the strongest of the others. *False*: the two are equals, and the gate says that the candidate is
better: by the rating (`rating > 0 against incumbent`), by their own games (`elo > 0 against incumbent`). Of
fields in which strengths are drawn at random, false is also a pass of the one that ends first, where it is
not the best: by `rank <= 1`, by `p_best > 0.95`; the share is of all fields. *Power*: how often the gate on
the rating passes a candidate that is `--ahead` Elo better, and how often after a plain round robin of as many
games. Each share has the standard error sqrt(p (1 - p) / fields). Gauntlets and fields that are not normal
(tables, outliers, clusters, chains, whose last link is the candidate and the one before it the incumbent)
have the gate on the rating alone.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from analysis.gates.gates import parse_gate
from analysis.statistics.games import Games
from analysis.statistics.hierarchy.posterior import Posterior, posterior
from analysis.statistics.meetings import meetings_of
from analysis.tournaments.tables import pairings_table, places_table, standings_table
from analysis.tournaments.tournament import Verdict
from league.tournament.schedules import make_schedule
from league.tournament.schedules.schedule import Schedule
from league.tournament.schedules.settings import ScheduleSettings
from storage.arrays import Floats
from tests.analysis.played_tournaments import bot
from tests.analysis.simulated_games import by_round, names
from tests.bench.coverage import Design, played, strengths
from tests.bench.coverage import tournament as played_in
from tests.bench.schedules import Evenly
from tests.bench.shared import done_by, parser_of

FIELD = 12
SPREAD = 150.0  # Elo
SAMPLES = 1_000
CANDIDATE, INCUMBENT = names(2)
RATING = f"{CANDIDATE} rating > 0 against {INCUMBENT}"
GAMES = f"{CANDIDATE} elo > 0 against {INCUMBENT}"

SCHEDULES = {
    "round_robin, 2 pairs": {"kind": "round_robin", "pairs": 2},
    "gauntlet, 6 pairs": {"kind": "gauntlet", "pairs": 6, "seeds": (CANDIDATE,)},
    "swiss, 2 pairs": {"kind": "swiss", "pairs": 2},
    "adaptive, 4 pairs": {"kind": "adaptive", "pairs": 4},
    "top_k 1, 4 pairs": {"kind": "top_k", "pairs": 4},
}
GAUNTLETS = ((1, 10, 6), (1, 40, 6), (3, 40, 2), (5, 40, 2), (5, 100, 1))
"""Seeds, of which the candidate is the first and the incumbent none; others; pairs of each two."""
WORLD = (
    Design("round_robin", 8, SPREAD, 2, teams=4),
    Design("swiss", 32, SPREAD, 2, teams=4),
    Design("round_robin", 16, 50.0, 2, shape="one outlier", far=800.0),
    Design("swiss", 32, 100.0, 2, shape="three outliers", far=600.0),
    *(Design("round_robin", 20, 50.0, pairs, shape="two clusters", far=600.0) for pairs in (1, 4)),
    Design("adaptive", 21, 50.0, 2, shape="three clusters", far=400.0),
    Design("chain", 20, 50.0, 10),
    Design("chain", 40, 100.0, 4, shape="walk"),
    Design("chain", 40, 50.0, 5, shape="one break", far=-400.0),
)


def verdict_on(games: Games, ratings: Posterior) -> Verdict:
    """What gates read of a tournament of bots, the rest of which is left out."""
    field = games.competitors
    return Verdict(
        entrants=tuple(map(bot, field)),
        anchors={},
        agreement=None,
        games=games,
        ratings=ratings,
        cyclic=None,
        width=None,
        table=standings_table(games, meetings_of(games), ratings, field),
        pairings=pairings_table(games, meetings_of(games), ratings, ()),
        place_advantage=places_table(ratings),
        unfinished_pairs=0,
        ruled_out_pairs=0,
        repeated_pairs=0,
        ends=(),
        withdrawn={},
    )


def tournament(schedule: Schedule, truth: Floats, seed: int) -> tuple[Verdict, int]:
    """A tournament of `truth`, and the number of its pairs."""
    rng = np.random.default_rng([seed, 1])
    design = Design("", FIELD, SPREAD, 1)
    *_, games = by_round(schedule, FIELD, seed, lambda pairings: played(truth, pairings, design, rng))
    return verdict_on(games, posterior(games, samples=SAMPLES, seed=seed)), games.num_pairs


def with_candidate(seed: int, ahead: float, field: int = FIELD) -> Floats:
    """Strengths of a field whose candidate is so far ahead of the incumbent, the best of the others."""
    others = np.sort(np.random.default_rng([seed, 0]).normal(size=field - 1) * SPREAD)[::-1]
    return np.concatenate([[others[0] + ahead], others])


def gauntlet(seeds: int, others: int, pairs: int, ahead: float, seed: int) -> bool:
    """Whether the candidate passes by its rating, where few seeds play all and the incumbent these alone."""
    truth = with_candidate(seed, ahead, seeds + others)
    who = np.array([0, *range(2, seeds + 1)])
    rows = [(a, b) for a in who for b in range(len(truth)) if b > a or b not in who]
    design, rng = Design("", len(truth), SPREAD, 1), np.random.default_rng([seed, 1])
    games = played(truth, np.repeat(np.array(rows), pairs, axis=0), design, rng)
    return passes(verdict_on(games, posterior(games, samples=SAMPLES, seed=seed)), RATING)


def in_world(design: Design, ahead: float, seed: int) -> bool:
    """Whether the candidate passes by its rating in a field of the design."""
    rng = np.random.default_rng([seed, 3])
    truth = strengths(design, rng)
    candidate = design.field - 1
    incumbent = candidate - 1 if design.kind == "chain" else int(truth[:-1].argmax())
    truth[candidate] = truth[incumbent] + ahead
    games = played_in(design, truth, seed, rng)
    gate = f"c{candidate} rating > 0 against c{incumbent}"
    return passes(verdict_on(games, posterior(games, samples=SAMPLES, seed=seed)), gate)


def passes(field: Verdict, gate: str) -> bool:
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
    parser.add_argument("--processes", type=int, default=1, help="that share the fields of a schedule")
    given = parser.parse_args()
    print("| schedule | pairs | false: rating | games | rank | p_best | power | of a round robin |")
    print("|---|---|---|---|---|---|---|---|")
    seeds = range(given.first, given.first + given.fields)
    for title, settings in SCHEDULES.items():
        if given.only not in title:
            continue
        schedule = ScheduleSettings.model_validate(settings)
        wrong = np.mean(done_by(given.processes, partial(false_passes, schedule), seeds), axis=0)
        right = np.mean(done_by(given.processes, partial(powers, schedule, given.ahead), seeds), axis=0)
        shown = " | ".join(f"{share:.3f}" for share in (*wrong, *right[:2]))
        print(f"| {title} | {right[2]:.0f} | {shown} |", flush=True)
    rows = [
        (
            f"gauntlet of {few} against {others}, {pairs} pairs",
            few * others * pairs,
            partial(gauntlet, few, others, pairs),
        )
        for few, others, pairs in GAUNTLETS
    ]
    rows += [(design.title, "", partial(in_world, design)) for design in WORLD]
    for title, pairs, passed in rows:
        if given.only not in title:
            continue
        false, power = (
            np.mean(done_by(given.processes, partial(passed, ahead), seeds)) for ahead in (0.0, given.ahead)
        )
        print(f"| {title} | {pairs} | {false:.3f} | - | - | - | {power:.3f} | - |", flush=True)


if __name__ == "__main__":
    main()
