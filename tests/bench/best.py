"""Is the snapshot that is named best as good as the best, and is its probability right?

    python -m tests.bench.best [--leagues 20] [--seed 0] [--kind rising]

Leagues of known strengths are simulated: what training plays, and the round robin of the newest snapshots
within its share of the games (`evaluation.placing`). The named best is right if the verdict on a tournament
in which each two snapshots play 200 pairs cannot tell it from its first. Printed are the share of leagues in
which that is so, the mean of the stated probabilities, and how often the named best is the best of all,
which should be as often; at the end the same by stated probability.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.statistics.games import Games
from analysis.statistics.hierarchy.posterior import posterior
from analysis.statistics.strength.field import Meeting, RunMember
from analysis.statistics.strength.order import Order, order_of
from league.config.sections import EvaluationSettings
from league.training.round_robin import BEST, ENOUGH, NEWEST, SEEDS, WHILE
from storage.arrays import Floats
from tests.analysis.simulated_games import ELO, played
from tests.bench.shared import parser_of

PAIRS = 200  # of each two snapshots in the tournament
# Of a player between two of its freezes, least and most: as in short and long runs.
STAGE_GAMES = (3_000, 50_000)
PARTS = 6  # of a stage, in each of which the player is another
PLACING = EvaluationSettings().placing  # share of the games that the round robin takes


@dataclass
class League:
    """A league whose strengths are known."""

    members: list[RunMember] = field(default_factory=list)
    power: dict[str, float] = field(default_factory=dict)  # Elo
    style: dict[str, float] = field(default_factory=dict)  # angle
    cyclic: float = 0.0  # Elo by which styles beat one another
    games: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    points: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    placed: Counter[tuple[str, str]] = field(default_factory=Counter)  # games of the round robin, by pair

    def score(self, power: float, style: float, other: str) -> float:
        """Return the probability that a policy of this power and style beats `other`."""
        ahead = power - self.power[other] + self.cyclic * math.sin(style - self.style[other])
        return 1.0 / (1.0 + math.exp(-ahead / ELO))

    def play(self, name: str, other: str, games: int, won: int, until: str | None = None) -> None:
        """Record games of `name`, of which it won some."""
        self.games[name, other, until] += games
        self.points[name, other, until] += won

    def meetings(self) -> list[Meeting]:
        """Return all that was played."""
        return [
            Meeting(home, away, games, self.points[home, away, until], until)
            for (home, away, until), games in self.games.items()
        ]

    def candidates(self) -> list[str]:
        """Return the snapshots that were trained."""
        return [m.competitor for m in self.members if m.kind == "snapshot" and not m.untrained]


Path = Callable[[int, int], tuple[float, float]]  # (player, generation): gain in Elo, turn of style


def rising(rng: np.random.Generator) -> tuple[int, int, Path, float]:
    """Return one main that learns less and less."""
    return 1, 20, lambda player, g: (400.0 / (g + 1.0) + rng.normal(0.0, 20.0), rng.normal(0.0, 0.2)), 30.0


def forgetting(rng: np.random.Generator) -> tuple[int, int, Path, float]:
    """Return a main that gets worse after a while."""
    turn = int(rng.integers(8, 16))

    def path(player: int, g: int) -> tuple[float, float]:
        return rng.normal(60.0 if g < turn else -25.0, 20.0), rng.normal(0.0, 0.3)

    return 1, 20, path, 30.0


def circling(rng: np.random.Generator) -> tuple[int, int, Path, float]:
    """Return a main that goes round in styles that beat one another, and hardly rises."""
    return 1, 20, lambda player, g: (rng.normal(200.0 if g < 2 else 6.0, 15.0), rng.normal(0.7, 0.2)), 150.0


def several(rng: np.random.Generator) -> tuple[int, int, Path, float]:
    """Return three players of which some learn faster."""
    pace = rng.uniform(20.0, 60.0, 3)
    return 3, 12, lambda player, g: (rng.normal(pace[player], 20.0), rng.normal(0.2, 0.3)), 60.0


def plateau(rng: np.random.Generator) -> tuple[int, int, Path, float]:
    """Return a main whose snapshots are nearly level after a while."""
    return 1, 25, lambda player, g: (rng.normal(80.0 if g < 6 else 0.0, 8.0), rng.normal(0.0, 0.2)), 20.0


def teams(rng: np.random.Generator) -> tuple[int, int, Path, float]:
    """Return a main in a game of two teams in which much is luck: it rises slowly."""
    return 1, 20, lambda player, g: (rng.normal(8.0, 4.0), rng.normal(0.0, 0.2)), 5.0


KINDS = {f.__name__: f for f in (rising, forgetting, circling, several, plateau, teams)}


def simulate(kind: str, rng: np.random.Generator) -> League:
    """Return a league of one kind, after its training and the round robin of its end."""
    players, generations, path, cyclic = KINDS[kind](rng)
    least, most = np.log(STAGE_GAMES)
    stage = int(np.exp(rng.uniform(least, most)))
    it = League(cyclic=cyclic)
    it.power["random"], it.style["random"] = rng.normal(-150.0, 40.0), 0.0
    it.members.append(RunMember("random", "bot", mu=25.0))
    newest: list[str] = []
    for p in range(players):
        name = f"p{p}@0"
        it.power[name], it.style[name] = rng.normal(0.0, 10.0), rng.uniform(0.0, 6.3)
        it.members.append(RunMember(name, "snapshot", "main", f"p{p}", untrained=True, mu=25.0))
        newest.append(name)
    frozen = list(newest)
    for g in range(generations):
        for p in range(players):
            before, name = newest[p], f"p{p}@{g + 1}"
            gain, turn = path(p, g)
            it.power[name], it.style[name] = it.power[before] + gain, it.style[before] + turn
            it.members.append(RunMember(name, "snapshot", "main", f"p{p}", before, g + 1, mu=25.0 + g))
            _stage(it, f"p{p}", before, name, [*frozen, "random"], stage, rng)
            newest[p] = name
            frozen.append(name)
            _round_robin(it, frozen, players, WHILE, rng)
    for p in range(players):
        it.members.append(RunMember(f"p{p}", "player", "main", f"p{p}", newest[p], mu=25.0))
    _round_robin(it, frozen, players, 1.0, rng)
    return it


def _stage(
    it: League, player: str, before: str, name: str, pool: list[str], stage: int, rng: np.random.Generator
) -> None:
    """Play what a player plays between two freezes: against a pool, the hard ones more (PFSP)."""
    rate = np.array([it.score(it.power[before], it.style[before], other) for other in pool])
    weight = (1.0 - rate) ** 2 + 1e-3
    share = rng.multinomial(stage, weight / weight.sum())
    for other, games in zip(pool, share.tolist(), strict=True):
        for part in range(PARTS):
            done = (part + 0.5) / PARTS
            power = (1.0 - done) * it.power[before] + done * it.power[name]
            style = (1.0 - done) * it.style[before] + done * it.style[name]
            n = games // PARTS
            if n:
                won = int(rng.binomial(n, it.score(power, style, other)))
                it.play(player, other, n, won, name)


def _round_robin(it: League, frozen: list[str], players: int, part: float, rng: np.random.Generator) -> None:
    """Play the pairs that have played least while `part` of the share has room, as `next_pairs` chooses."""
    count = max(NEWEST, 2 * players)
    new, older = frozen[-count:][::-1], frozen[:-count]
    rated = sorted(older, key=lambda name: -it.power[name])[:BEST]
    fixed = [name for name in dict.fromkeys([*rated, frozen[0]]) if name not in new] + ["random"]
    pairs = [*itertools.combinations(new, 2), *itertools.product(new, fixed)]
    room = part * PLACING * sum(it.games.values()) - sum(it.placed.values())
    games = 2 * SEEDS[0]
    while room >= games:
        pair = min(pairs, key=lambda pair: it.placed[pair])
        if it.placed[pair] >= ENOUGH:
            return
        one, other = pair
        it.play(one, other, games, int(rng.binomial(games, it.score(it.power[one], it.style[one], other))))
        it.placed[pair] += games
        room -= games


@dataclass(frozen=True, slots=True)
class Judged:
    """The named best of a league, judged by what is true of it."""

    chance: float  # as it is stated
    level: bool  # a tournament cannot tell it from its first
    first: bool  # it is the best of all


def judge(it: League, order: Order, rng: np.random.Generator) -> Judged:
    """Return whether the named best is among the best: strengths are mean scores against all others."""
    names = it.candidates()
    true = np.array(
        [[0.5 if a == b else it.score(it.power[a], it.style[a], b) for b in names] for a in names]
    )
    assert order.best is not None
    named, best = names.index(order.best.competitor), int(true.mean(axis=1).argmax())
    found = posterior(tournament(names, true, rng), samples=1_000)
    first = int(found.elo.argmax())
    return Judged(
        order.best.chance, named == first or found.difference(first, named).low <= 0.0, named == best
    )


def tournament(names: list[str], true: Floats, rng: np.random.Generator) -> Games:
    """Return the games of a round robin of PAIRS pairs, whose scores [N, N] are expected."""
    games = played(len(names), lambda home, away: (true[home, away], 0.0), PAIRS, rng)
    return replace(games, competitors=tuple(names))


def judged(kind: str, leagues: int, seed: int) -> list[Judged]:
    """Return what is true of the named best of so many leagues."""
    found = []
    for number in range(leagues):
        rng = np.random.default_rng([seed, number])
        it = simulate(kind, rng)
        found.append(judge(it, order_of(it.members, it.meetings()), rng))
    return found


def main() -> None:
    """Print one line for each kind, and one of all."""
    arguments = parser_of(__doc__)
    arguments.add_argument("--leagues", type=int, default=20, help="of each kind")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--kind", choices=sorted(KINDS))
    given = arguments.parse_args()
    every: list[Judged] = []
    for kind in [given.kind] if given.kind else KINDS:
        found = judged(kind, given.leagues, given.seed)
        _print(kind, found)
        every += found
    _print("all", every)
    print(reliability(every))


def reliability(found: list[Judged]) -> str:
    """Return lines on how often the named best is the best, by the probability that was stated."""
    stated, first = (np.array([getattr(one, name) for one in found]) for name in ("chance", "first"))
    lines = []
    for low, high in itertools.pairwise((0.0, 0.4, 0.6, 0.8, 0.95, 1.01)):
        among = (low <= stated) & (stated < high)
        if among.any():
            error = math.sqrt((stated[among] * (1.0 - stated[among])).sum()) / among.sum()
            lines.append(
                f"stated {low:.2f} to {min(high, 1.0):.2f}  {among.sum():4} leagues  mean "
                f"{stated[among].mean():.2f}  "
                f"is the best {first[among].mean():.2f} (luck: {error:.2f})"
            )
    return "\n".join(lines)


def _print(kind: str, found: list[Judged]) -> None:
    level = np.mean([one.level for one in found])
    stated, first = np.mean([one.chance for one in found]), np.mean([one.first for one in found])
    print(
        f"{kind:12}  {len(found):4} leagues  named best is level with the first {level:.2f}  "
        f"stated {stated:.2f}  is the best {first:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
