"""Pools: competitors that opponents are drawn from, and how likely each is, as arrays over the roster.

Opponents may be weighted: they are drawn in proportion to f(p), p the home player's win rate against each.
This is prioritized fictitious self-play (Vinyals et al.: Grandmaster level in StarCraft II using multi-agent
reinforcement learning, Nature 2019, Methods). Few opponents are drawn from a pool, and dealt out evenly to
the seats of many matches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from league.import_paths import import_callable, is_import_path, takes
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.arrays import Floats, Indices
from storage.suggestions import or_near

Weighting = Callable[[Floats], Floats]
"""Function from win rates in [0, 1] to weights of the same shape; a user's own is one too."""


def hard(p: Floats, exponent: float = 2.0) -> Floats:
    """Return (1 - p)^q: most weight on opponents that the player cannot beat."""
    return (1.0 - p) ** exponent


def variance(p: Floats) -> Floats:
    """Return p (1 - p): most weight on opponents of about its own strength."""
    return p * (1.0 - p)


def linear(p: Floats) -> Floats:
    """Return 1 - p."""
    return 1.0 - p


def capped_linear(p: Floats) -> Floats:
    """Return min(1/2, 1 - p): no more weight on stronger opponents than on equals."""
    return np.minimum(0.5, 1.0 - p)


def even(p: Floats) -> Floats:
    """Return min(p, 1 - p): a peak at equals, more pointed than `variance`."""
    return np.minimum(p, 1.0 - p)


def bell(p: Floats) -> Floats:
    """Return exp(-(p - 1/2)^2 / (2 / 36)): normal around equals with standard deviation 1/6.

    A population was paired so (Jaderberg et al.: Human-level performance in 3D multiplayer games, Science
    2019).
    """
    return np.exp(-18.0 * (p - 0.5) ** 2)


def uniform(p: Floats) -> Floats:
    """Return 1 for every opponent: fictitious self-play."""
    return np.ones_like(p)


WEIGHTINGS: Mapping[str, Weighting] = MappingProxyType(
    {
        "hard": hard,
        "variance": variance,
        "linear": linear,
        "capped_linear": capped_linear,
        "even": even,
        "bell": bell,
        "uniform": uniform,
    }
)


def check_name(name: str) -> None:
    """Raise ValueError unless `name` is a weighting or has the form of an import path."""
    if name in WEIGHTINGS or is_import_path(name):
        return
    hint = or_near(name, WEIGHTINGS, "; or give your own as 'module:name'")
    raise ValueError(f"no weighting is called '{name}', expected one of {', '.join(WEIGHTINGS)}{hint}")


def find_weighting(name: str, exponent: float = 2.0, options: Mapping[str, Any] = {}) -> Weighting:
    """Return the weighting of that name: `hard` with its exponent, or a user's own, with its `options`.

    Raise ValueError for an unknown name, or one that cannot be imported.
    """
    check_name(name)
    if name == "hard":
        return lambda p: hard(p, exponent)
    if name in WEIGHTINGS:
        return WEIGHTINGS[name]
    try:
        found = import_callable(name, "a function of win rates")
    except ValueError as error:
        raise ValueError(f"weighting {error}") from error
    if not takes(found, 1, options):
        raise ValueError(f"weighting '{name}' cannot be called as ({', '.join(('p', *options))})")
    weigh = functools.partial(found, **options) if options else found
    _require_numbers(name, weigh)
    return weigh


def _require_numbers(name: str, weighting: Callable[[Floats], Any]) -> None:
    """Raise ValueError if a user's own weighting returns no weights, for win rates that it might get."""
    rates = np.linspace(0.1, 0.9, 5)
    try:
        found = weighting(rates)
    except Exception:  # of its code: it is reported where it happens, with its place
        return
    try:
        weights = np.asarray(found, dtype=np.float64)
        fits = weights.shape == rates.shape and bool((np.isfinite(weights) & (weights >= 0)).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ValueError(
            f"weighting '{name}' returned {found!r:.60} for 5 win rates, expected 5 weights, at least 0 each"
        )


def probabilities(weighting: Weighting, p: Floats) -> Floats:
    """Return f(p) as a distribution [n].

    It is uniform if all weights are zero, or if some are negative or not finite: a pool of opponents that
    are all beaten is still a pool. Raise ValueError for weights of another shape.
    """
    weights = np.asarray(weighting(p), dtype=np.float64)
    if weights.shape != p.shape:
        raise ValueError(f"weighting: shape {weights.shape} for win rates of shape {p.shape}")
    total = weights.sum()
    if not np.isfinite(total) or total <= 0.0 or (weights < 0.0).any():
        return np.full(p.shape, 1.0 / p.size)
    return weights / total


@dataclass(frozen=True, slots=True)
class Pool:
    """`candidates` [k], indices into the roster, and `p` [k], the probability of each; k may be 0."""

    candidates: Indices
    p: Floats

    def __bool__(self) -> bool:
        return len(self.candidates) > 0


EMPTY = Pool(np.zeros(0, dtype=np.int64), np.zeros(0))


def alike(candidates: Indices) -> Pool:
    """Return a pool of `candidates` [k] that are all equally likely."""
    return Pool(candidates, np.full(len(candidates), 1.0 / max(len(candidates), 1)))


def newcomers(roster: Roster, standings: Standings) -> Pool:
    """Return the snapshots that have too few games to be placed, all equally likely."""
    snapshots = roster.snapshots()
    games = standings.ratings.games[snapshots]
    return alike(snapshots[games < standings.settings.placement_games])


def snapshots_and_bots(roster: Roster) -> Pool:
    """Return all seated snapshots and bots, all equally likely."""
    return alike(np.concatenate([roster.snapshots(), roster.indices(bot.name for bot in roster.bots)]))


def rarest_pairs(roster: Roster, standings: Standings) -> Floats:
    """Return the probability of each pair of snapshots [n, n] to be played for the record.

    It is in proportion to 1 / (1 + games of the pair), and 0 for a snapshot against itself. The sum is 1
    for n of at least 2.
    """
    snapshots = roster.snapshots()
    weights = 1.0 / (1.0 + standings.payoff.recorded(cast(int, snapshots[:, None]), snapshots))
    np.fill_diagonal(weights, 0.0)
    return weights / weights.sum()


@dataclass(frozen=True, slots=True)
class Deal:
    """Matches [m] of one match type whose opponents come from one pool."""

    match_type: int
    matches: Indices
    pool: Pool


def deal(deals: Sequence[Deal], opponent: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Return `opponent` [M, T - 1] with those of all `deals`, of which about `most` are different."""
    opponent = opponent.copy()
    others = opponent.shape[1]
    for each, draws in zip(deals, _budget(deals, most), strict=True):
        seats = len(each.matches) * others
        drawn = rng.choice(each.pool.candidates, size=min(seats, draws), p=each.pool.p)
        opponent[each.matches] = drawn[np.arange(seats) % len(drawn)].reshape(-1, others)
    return opponent


def _budget(deals: Sequence[Deal], most: int) -> list[int]:
    """Return how many draws each deal may make: in proportion to its matches, at least one."""
    total = sum(len(each.matches) for each in deals)
    budget = [max(1, most * len(each.matches) // total) for each in deals]
    while sum(budget) > max(most, len(deals)):
        budget[budget.index(max(budget))] -= 1
    return budget
