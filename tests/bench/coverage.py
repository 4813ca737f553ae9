"""Do 95 % intervals hold the truth 95 times of 100, whatever the schedule? Simulated fields say so.

    python -m tests.bench.coverage [--fields 100] [--first 0] [--only swiss]

Strengths are drawn anew for each field, from a normal distribution of the spread said (a ladder is evenly
spaced, a chain rises by the same step each generation), and games by Bradley and Terry, or Luce at a table of
more than two. Counted is how often intervals hold: of all ratings, of the one rated first, of the one rated
last, of differences. `signif.` is the share of differences whose interval is on one side of 0: of equals it
is the share of false alarms. Behind each figure is its standard error over fields, of which there are
`--fields`, with seeds from `--first` on. At the end, of all fields together: how often the one rated first is
the best, by the probability that was said. `--few` is for that table alone: round robins of 2 to 20 with 1 to
4 pairs, of spreads from 0 to 400 Elo, and how often equals are called the best with over 0.95. `--world` is
for fields that are not normal: outliers, clusters, heavy tails, chains that walk or break, also by kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from analysis.statistics.games import Games
from analysis.statistics.hierarchy.posterior import posterior
from league.arena.matches import seatings
from league.tournament.schedules import make_schedule
from league.tournament.schedules.schedule import Pairings
from league.tournament.schedules.settings import ScheduleSettings
from storage.arrays import Floats
from tests.analysis.simulated_games import ELO, by_round, names
from tests.bench.shared import done_by, parser_of

FIRST_MOVER = 50.0  # Elo of the first place over the last
Shape = Callable[[int, float, float, np.random.Generator], Floats]
_DIFFERENCES = 500  # of one field, drawn at random where there are more


@dataclass(frozen=True, slots=True)
class Design:
    """A schedule and the fields that it is tried on."""

    kind: str  # a schedule, or chain, or ladder (a round robin of evenly spaced strengths)
    field: int
    spread: float  # Elo: standard deviation; of a chain each step, of a ladder its length
    pairs: int
    teams: int = 2
    draws: float = 0.0  # share of draws between equals, at most 1/2
    common: float = 0.0  # share of pairs of which one draw of luck decides both games for the same one
    shape: str = ""  # of SHAPES; else normal, or evenly spaced
    far: float = 0.0  # Elo from outliers, clusters or breaks of a chain to the rest

    @property
    def title(self) -> str:
        more = f", {self.shape}" * bool(self.shape) + f" {self.far:+.0f}" * bool(self.far)
        more += f", {self.teams} at a table" if self.teams > 2 else ""
        more += f", {self.draws:.0%} drawn" if self.draws else ""
        more += f", {self.common:.0%} of deals decide" if self.common else ""
        return f"{self.kind} {self.field}, {self.spread:.0f} Elo, {self.pairs} pairs{more}"


@dataclass(frozen=True, slots=True)
class Held:
    """What held in one field."""

    ratings: float
    first: float
    last: float
    differences: float
    significant: float
    p_best: float  # said of the one rated first
    best: float  # whether it is


DESIGNS = (
    *(Design("swiss", n, 150.0, 2) for n in (8, 32, 64, 100, 200)),
    Design("swiss", 64, 0.0, 2),
    Design("swiss", 64, 0.0, 10),
    Design("swiss", 32, 400.0, 2),
    Design("adaptive", 8, 150.0, 4),
    *(Design("adaptive", n, 150.0, 2) for n in (20, 50, 100, 200)),
    Design("adaptive", 20, 0.0, 2),
    Design("top_k", 12, 0.0, 4),
    *(Design("top_k", n, 150.0, 4) for n in (12, 32)),
    Design("gauntlet", 20, 0.0, 10),
    Design("gauntlet", 20, 150.0, 10),
    Design("gauntlet", 8, 400.0, 2),
    *(Design("round_robin", 4, 150.0, pairs, teams=4) for pairs in (1, 2, 10)),
    Design("round_robin", 4, 0.0, 1, teams=4),
    Design("round_robin", 6, 0.0, 1, teams=3),
    Design("round_robin", 6, 150.0, 2, teams=3),
    Design("swiss", 30, 150.0, 2, teams=3),
    Design("swiss", 32, 150.0, 1, teams=4),
    *(Design("round_robin", 8, spread, 2) for spread in (0.0, 50.0, 150.0, 400.0)),
    *(Design("round_robin", 8, 150.0, pairs) for pairs in (1, 5, 20)),
    *(Design("round_robin", n, 150.0, 5) for n in (2, 3)),
    Design("round_robin", 2, 0.0, 20),
    *(Design("round_robin", n, 150.0, 1) for n in (20, 50, 200)),
    Design("round_robin", 8, 0.0, 2, draws=0.4),
    *(Design("round_robin", 8, 150.0, pairs, draws=0.4) for pairs in (1, 5)),
    Design("round_robin", 8, 150.0, 5, common=0.6),
    Design("ladder", 20, 2000.0, 2),
    Design("ladder", 55, 2700.0, 2),
    *(Design("chain", n, 50.0, 20) for n in (10, 20, 55, 100)),
    *(Design("chain", n, 50.0, 2) for n in (10, 30, 100)),
)
WORLD = (
    *(Design("round_robin", 16, 50.0, 2, shape="one outlier", far=far) for far in (300.0, 800.0, 1200.0)),
    *(Design("swiss", 32, 100.0, 2, shape="three outliers", far=far) for far in (300.0, 600.0, 1200.0)),
    *(
        Design("round_robin", 20, 50.0, 1, shape="two clusters", far=far)
        for far in (200.0, 400.0, 600.0, 800.0)
    ),
    *(Design("adaptive", 21, 50.0, 2, shape="three clusters", far=far) for far in (200.0, 400.0, 800.0)),
    Design("gauntlet", 20, 50.0, 6, shape="two clusters", far=600.0),
    *(Design("round_robin", 20, 100.0, pairs, shape="t of 3") for pairs in (1, 4)),
    Design("swiss", 64, 100.0, 2, shape="t of 3"),
    Design("round_robin", 20, 120.0, 2, shape="laplace"),
    *(Design("chain", n, 100.0, pairs, shape="walk") for n, pairs in ((20, 4), (40, 2), (40, 20))),
    *(Design("chain", 40, 50.0, 5, shape="one break", far=far) for far in (-400.0, 400.0)),
    *(Design("chain", 40, 50.0, 5, shape="three breaks", far=far) for far in (-400.0, 400.0)),
)
"""Fields that are not normal, and chains that do not rise evenly."""
FEW = tuple(
    Design("round_robin", field, spread, pairs)
    for spread in (0.0, 50.0, 150.0, 400.0)
    for field, pairs in ((2, 1), (2, 2), (2, 4), (5, 2), (5, 4), (10, 1), (10, 3), (20, 1))
)
"""Fields of which little is known, for the probability of being the best."""


def played(truth: Floats, pairings: Pairings, design: Design, rng: np.random.Generator) -> Games:
    """All games of each pair."""
    n, teams = pairings.shape
    orders = seatings(teams)
    who = pairings[:, orders].reshape(-1, teams)
    number = np.repeat(np.arange(n), len(orders))
    if teams > 2:
        result = (truth[who] + FIRST_MOVER * np.linspace(0.5, -0.5, teams)) / ELO
        result = result + rng.gumbel(size=who.shape)
        a, b = np.triu_indices(teams, 1)
        columns = [np.repeat(column, len(a)) for column in (number, np.arange(len(who)))]
        points = (result[:, a] > result[:, b]).astype(np.float64).ravel()
        places = np.tile(a, len(who)), np.tile(b, len(who))
        return Games(names(len(truth)), who[:, a].ravel(), who[:, b].ravel(), *places, points, *columns)
    score = 1.0 / (1.0 + np.exp(-(truth[who[:, 0]] - truth[who[:, 1]] + FIRST_MOVER) / ELO))
    draw = 4.0 * design.draws * score * (1.0 - score)
    luck = rng.random((n, 2))
    luck[:, 1] = np.where(rng.random(n) < design.common, 1.0 - luck[:, 0], luck[:, 1])
    at = luck.ravel()
    points = np.where(at < score - draw / 2, 1.0, np.where(at < score + draw / 2, 0.5, 0.0))
    first = np.zeros(2 * n, dtype=np.int64)
    return Games(names(len(truth)), who[:, 0], who[:, 1], first, first + 1, points, number, np.arange(2 * n))


def chain(truth: Floats, pairs: int, rng: np.random.Generator) -> Games:
    """`pairs` pairs of each with the next."""
    rows = np.stack([np.arange(len(truth) - 1), np.arange(1, len(truth))], axis=1)
    return played(truth, np.repeat(rows, pairs, axis=0), Design("chain", len(truth), 0.0, pairs), rng)


def strengths(design: Design, rng: np.random.Generator) -> Floats:
    n, spread, shape = design.field, design.spread, design.shape
    if shape:
        return SHAPES[shape](n, spread, design.far, rng)
    if design.kind == "chain":
        return spread * np.arange(n)
    if design.kind == "ladder":
        return rng.permutation(np.linspace(0.0, spread, n))
    return rng.normal(size=n) * spread


def outliers(number: int) -> Shape:
    """So many above the rest."""
    return lambda n, spread, far, rng: spread * rng.normal(size=n) + far * (np.arange(n) < number)


def clusters(number: int) -> Shape:
    """So many alike, each this far above the one before."""
    return lambda n, spread, far, rng: spread * rng.normal(size=n) + far * (np.arange(n) % number)


def breaks(number: int) -> Shape:
    """Even steps, so many of which are this much larger."""
    return lambda n, spread, far, rng: np.cumsum(
        spread + far * (rng.permutation(np.arange(n)) < number).astype(np.float64)
    )


SHAPES: dict[str, Shape] = {
    "one outlier": outliers(1),
    "three outliers": outliers(3),
    "two clusters": clusters(2),
    "three clusters": clusters(3),
    "t of 3": lambda n, spread, far, rng: spread * rng.standard_t(3, size=n),
    "laplace": lambda n, spread, far, rng: spread * rng.laplace(size=n),
    "walk": lambda n, spread, far, rng: np.cumsum(spread * rng.normal(size=n)),
    "one break": breaks(1),
    "three breaks": breaks(3),
}


def tournament(design: Design, truth: Floats, seed: int, rng: np.random.Generator) -> Games:
    """All games of a tournament of `truth` by the schedule."""
    if design.kind == "chain":
        return chain(truth, design.pairs, rng)
    kind = "round_robin" if design.kind == "ladder" else design.kind
    seeds = {"seeds": ("c0",)} if kind == "gauntlet" else {}
    settings = ScheduleSettings.model_validate({"kind": kind, "pairs": design.pairs, **seeds})
    schedule = make_schedule(settings, names(design.field), design.teams)
    *_, games = by_round(schedule, design.field, seed, lambda row: played(truth, row, design, rng))
    return games


def held(design: Design, seed: int, samples: int = 1000) -> Held:
    """One field, and what of its posterior holds."""
    rng = np.random.default_rng([seed, design.field, design.pairs, design.teams])
    truth = strengths(design, rng)
    found = posterior(tournament(design, truth, seed, rng), samples=samples, seed=seed)
    true = truth - truth.mean()
    low, high = found.interval()
    holds = (low <= true) & (true <= high)
    first, last = int(found.elo.argmax()), int(found.elo.argmin())
    one, other = np.triu_indices(design.field, 1)
    if len(one) > _DIFFERENCES:
        some = rng.choice(len(one), _DIFFERENCES, replace=False)
        one, other = one[some], other[some]
    least, most = np.quantile(
        found.draws[:, one] - found.draws[:, other], [0.025, 0.975], axis=0, method="weibull"
    )
    gap = true[one] - true[other]
    return Held(
        float(holds.mean()),
        float(holds[first]),
        float(holds[last]),
        float(((least <= gap) & (gap <= most)).mean()),
        float(((least > 0.0) | (most < 0.0)).mean()),
        float(found.p_best[first]),
        float(true[first] == true.max()),
    )


def line(design: Design, found: Sequence[Held]) -> str:
    """A row of the table: figures with their standard errors over fields."""
    cells = []
    for name in ("ratings", "first", "last", "differences", "significant"):
        values = np.array([getattr(one, name) for one in found])
        cells.append(f"{values.mean():.3f} ± {values.std() / len(values) ** 0.5:.3f}")
    return f"| {design.title} | " + " | ".join(cells) + " |"


def reliability(found: Sequence[Held]) -> str:
    """The table of how often the one rated first is the best, by the probability that was said."""
    rows = ["\n| `p_best` of the first | fields | said | is the best |", "|---|---|---|---|"]
    said, best = (np.array([getattr(one, name) for one in found]) for name in ("p_best", "best"))
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 1.01)):
        among = (low <= said) & (said < high)
        if among.any():
            error = (best[among].mean() * (1.0 - best[among].mean()) / among.sum()) ** 0.5
            shown = f"{said[among].mean():.3f} | {best[among].mean():.3f} ± {error:.3f}"
            rows.append(f"| {low:.2f} to {min(high, 1.0):.2f} | {among.sum()} | {shown} |")
    return "\n".join(rows)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--fields", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first field")
    parser.add_argument("--few", action="store_true", help="little known fields, for p_best")
    parser.add_argument("--world", action="store_true", help="fields that are not normal")
    parser.add_argument("--only", default="", help="designs whose title holds this")
    parser.add_argument("--processes", type=int, default=1, help="that share the fields of a design")
    arguments = parser.parse_args()
    print("| design | all | first | last | differences | signif. |\n|---|---|---|---|---|---|", flush=True)
    everything: list[Held] = []
    equals: list[Held] = []
    kinds: dict[str, list[Held]] = {}
    for design in FEW if arguments.few else WORLD if arguments.world else DESIGNS:
        if arguments.only not in design.title:
            continue
        seeds = range(arguments.first, arguments.first + arguments.fields)
        found = done_by(arguments.processes, partial(held, design), seeds)
        print(line(design, found), flush=True)
        if design.spread:
            everything += found
        else:
            equals += found
        kinds.setdefault(design.shape.split()[-1] if design.shape else "normal", []).extend(found)
    print(reliability(everything))
    for kind, found in kinds.items() if arguments.world else ():
        print(f"\n{kind}:{reliability(found)}")
    sure = sum(one.p_best > 0.95 for one in equals)
    print(f"\nOf {len(equals)} fields of equals, in {sure} one had a `p_best` over 0.95.")


if __name__ == "__main__":
    main()
