"""The order of a run's competitors by strength: the one notion of best.

Candidates are snapshots that were trained, so that the first is the best. Players that learn, bots, the
anchors of the ratings and untrained weights are listed apart, behind them: a player's next snapshot has its
place, and the others are what strength is measured against.
Strength is the mean of the posterior (`fit`), in Elo above the yardstick. A snapshot that has not played yet
is as strong as what it descends from, with a wider interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from analysis.statistics.davidson import sums
from analysis.statistics.elo import EloEstimate
from analysis.statistics.hierarchy.anchors import Anchor, zero_of
from analysis.statistics.strength.field import Field, Meeting, RunMember, Score, field_of
from analysis.statistics.strength.fit import SAMPLES, strengths
from storage.arrays import Floats

RANDOM = "random"  # the bot that is the yardstick before all others
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class RankedCompetitor:
    """The place of a competitor in the order. Strengths are nan where nothing is known of one."""

    competitor: str
    kind: str  # player, snapshot, bot
    elo: float  # above the yardstick; of games with one seat, the mean score
    low: float  # of the 95 % interval
    high: float
    chance: float  # probability that no other snapshot is stronger; nan: it never leads, or nothing shows it
    games: int  # that it played; a player that learns since its last snapshot
    apart: bool  # a player that learns, a bot, an anchor, or untrained: it never leads


@dataclass(frozen=True)
class Order:
    """Competitors, best first; behind them those that are listed apart, best first."""

    places: tuple[RankedCompetitor, ...]
    yardstick: str | None  # what strengths are above: a competitor, or the zero of anchors; `None`: the mean
    unit: str = "Elo"  # or score: in a game with one seat
    draws: dict[str, Floats] = field(default_factory=dict, repr=False)  # [S] strengths, by competitor
    stages: dict[tuple[str, str], float] = field(default_factory=dict, repr=False)  # strengths, by stage

    @property
    def best(self) -> RankedCompetitor | None:
        """The snapshot that is likely the best; `None`: there is none that was trained."""
        return next((place for place in self.places if not place.apart), None)

    @property
    def names(self) -> list[str]:
        """All competitors, in order."""
        return [place.competitor for place in self.places]

    def ahead(self, one: str, other: str) -> EloEstimate | None:
        """Return how much stronger `one` is than `other`; `None` unless both are estimated."""
        if one not in self.draws or other not in self.draws:
            return None
        apart = self.draws[one] - self.draws[other]
        low, high = np.quantile(apart, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
        superiority = float((apart > 0).mean() + 0.5 * (apart == 0).mean())
        return EloEstimate(float(apart.mean()), float(low), float(high), superiority)

    def level(self) -> list[str]:
        """Return the other snapshots that may be as strong as the best, untrained ones too, at 95 %."""
        if self.best is None:
            return []
        first = self.best.competitor
        others = [p.competitor for p in self.places if p.kind == "snapshot" and p.competitor != first]
        return [name for name in others if (by := self.ahead(first, name)) is not None and by.low < 0.0]


def order_of(
    members: Sequence[RunMember],
    meetings: Iterable[Meeting],
    *,
    teams: int = 2,
    anchors: Mapping[str, Anchor] = {},
    seed: int = 0,
) -> Order:
    """Return the order of `members`, in order of joining, by their `meetings`.

    `teams` play a match. `anchors`: competitors whose ratings are given; those that have met no one say
    nothing. The same facts give the same order.
    """
    if not members:
        return Order((), None)
    found = list(meetings)
    met = {name for each in found for name in (each.home, each.away)} & {m.competitor for m in members}
    given = {name: anchor for name, anchor in anchors.items() if name in met}
    of_field = field_of(members, found, teams, given)
    drawn = strengths(of_field, given, seed) if len(of_field.home) else None
    by_name = {
        member.competitor: drawn[:, number]
        for member in members
        if drawn is not None and (number := of_field.of(member)) is not None
    }
    games = _games(of_field, teams)
    apart = _apart(members) | set(anchors)
    yardstick = zero_of(given) if given else _yardstick(members, games, apart)
    order = _ordered(members, by_name, games, apart, yardstick)
    if drawn is None:
        return order
    zero = next((float(by_name[each.competitor].mean()) - each.elo for each in order.places), 0.0)
    ended = enumerate(of_field.nodes)
    stages = {(n, until): float(drawn[:, i].mean()) - zero for i, (n, until) in ended if until is not None}
    return replace(order, stages=stages)


def order_by_score(members: Sequence[RunMember], scores: Iterable[Score], *, seed: int = 0) -> Order:
    """Return the order of `members` of a game with one seat, by the mean scores of their stages.

    A snapshot has the scores of the stage that it ended, or its own.
    """
    rng = np.random.default_rng(seed)
    known = {(each.competitor, each.until): each for each in scores}
    draws, games = {}, {}
    for member in members:
        own = known.get((member.competitor, None)) or known.get((member.player or "", member.competitor))
        if own is not None and own.games > 1:
            error = float(np.sqrt(own.variance / own.games))
            draws[member.competitor] = own.mean + error * rng.standard_normal(SAMPLES)
            games[member.competitor] = own.games
    return _ordered(members, draws, games, _apart(members), None, unit="score")


def _apart(members: Sequence[RunMember]) -> set[str]:
    return {member.competitor for member in members if member.kind in ("player", "bot") or member.untrained}


def _games(found: Field, teams: int) -> dict[str, int]:
    """Return the games of each competitor as it is now."""
    n = len(found.nodes)
    count = sums(found.home, found.games, n) + sums(found.away, found.games, n)
    count *= (max(teams, 2) + 1.0) / 3.0
    return {name: round(float(count[i])) for i, (name, until) in enumerate(found.nodes) if until is None}


def _yardstick(members: Sequence[RunMember], games: dict[str, int], apart: set[str]) -> str | None:
    """Return what strengths are measured from: `random`, another bot, the anchor, or untrained weights."""
    fixed = [m for m in members if m.competitor in apart and m.kind != "player"]
    played = [m for m in fixed if games.get(m.competitor, 0)]
    order = sorted(played, key=lambda m: (m.competitor != RANDOM, m.kind != "bot", m.untrained))
    return order[0].competitor if order else None


def _ordered(
    members: Sequence[RunMember],
    draws: dict[str, Floats],
    games: dict[str, int],
    apart: set[str],
    yardstick: str | None,
    unit: str = "Elo",
) -> Order:
    candidates = [m.competitor for m in members if m.competitor not in apart and m.competitor in draws]
    chance: dict[str, float] = {}
    # untrained weights may be the strongest, where training went wrong, although they do not lead
    rivals = [m.competitor for m in members if m.kind == "snapshot" and m.competitor in draws]
    if len(rivals) > 1:
        best = np.bincount(np.argmax([draws[name] for name in rivals], axis=0), minlength=len(rivals))
        likely = dict(zip(rivals, (best / best.sum()).tolist(), strict=True))
        chance = {name: likely[name] for name in candidates}
    zero: Floats | float = 0.0
    if yardstick is not None:
        zero = draws.get(yardstick, 0.0)  # draws are on the scale of anchors
    elif unit == "Elo" and draws:
        zero = np.mean([draws[name] for name in candidates or draws], axis=0)
    guessed = _by_rating(members, draws)
    places = []
    for number, member in enumerate(members):
        name = member.competitor
        elo, low, high = guessed.get(name, np.nan) - float(np.mean(zero)), np.nan, np.nan
        if name in draws:
            own = draws[name] - zero
            elo = float(own.mean())
            low, high = (float(x) for x in np.quantile(own, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]))
        place = RankedCompetitor(
            name, member.kind, elo, low, high, chance.get(name, np.nan), games.get(name, 0), name in apart
        )
        places.append((place, number))
    places.sort(key=_key)
    return Order(tuple(place for place, _ in places), yardstick, unit, draws)


def _key(each: tuple[RankedCompetitor, int]) -> tuple[bool, bool, float, int]:
    """Return what places are sorted by: strength; where it is unknown those that learn, then the newest."""
    place, number = each
    if np.isnan(place.elo):
        return place.apart, True, 0.0 if place.kind == "player" else 1.0, -number
    return place.apart, False, -place.elo, -number


def _by_rating(members: Sequence[RunMember], draws: dict[str, Floats]) -> dict[str, float]:
    """Return strengths of those that are not estimated, by a line through those that are, over their mu."""
    rated = [m for m in members if m.mu is not None]
    known = [m for m in rated if m.competitor in draws]
    mu = np.array([m.mu for m in known], dtype=np.float64)
    if len(known) == len(rated) or len(known) < 2 or np.ptp(mu) == 0.0:
        return {}
    slope, start = np.polyfit(mu, [float(draws[m.competitor].mean()) for m in known], 1)
    return {m.competitor: float(slope * m.mu + start) for m in rated if m.mu is not None}
