"""Checks of what callers give to the statistics: each mistake is one `ValueError`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from analysis.statistics.games import Games

_ROUNDING = 1e-6  # of counts that are shares of a whole number


def check_counts(
    counts: npt.ArrayLike, *, least: float = 0.0, single: bool = False
) -> npt.NDArray[np.float64]:
    """Return `counts` [..., K] as numbers; with `single`, [K].

    Raise ValueError for fewer than two kinds of score, for counts that are negative or not whole numbers, and
    for less than `least` of them in all.
    """
    given = np.asarray(counts, dtype=np.float64)
    if single and given.ndim != 1:
        raise ValueError(f"counts have the shape {given.shape}, expected [K]")
    if given.ndim == 0 or given.shape[-1] < 2:
        raise ValueError(f"counts have the shape {given.shape}, expected [..., K] with K of at least 2")
    if not given.size:
        return given
    with np.errstate(invalid="ignore"):  # infinities less themselves
        good = np.isfinite(given) & (given >= 0.0) & (np.abs(given - np.rint(given)) <= _ROUNDING)
    if not good.all():
        odd = given[~good].flat[0]
        raise ValueError(f"counts hold {odd:g}, expected whole numbers of 0 or more")
    if given.sum(axis=-1).min() < least:
        raise ValueError("no pairs, expected at least one")
    return given


def check_number(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Raise ValueError unless a value is a finite number from `low` to `high`."""
    if not (math.isfinite(value) and low <= value <= high):
        wanted = f"of {low:g} or more" if math.isinf(high) else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} is {value}, expected a number {wanted}")


def check_whole(name: str, value: float, least: int) -> None:
    """Raise ValueError unless a value is a whole number of at least `least`."""
    if not (math.isfinite(value) and value == int(value) and value >= least):
        raise ValueError(f"{name} is {value}, expected a whole number of {least} or more")


def check_finite(name: str, values: npt.ArrayLike, *shape: int | None) -> npt.NDArray[np.float64]:
    """Return `values` as numbers. Raise ValueError unless there are some, all finite, in that shape.

    `None` is any length.
    """
    given = np.asarray(values, dtype=np.float64)
    fits = given.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, given.shape, strict=True))
    if not fits or not given.size or not np.isfinite(given).all():
        wanted = ", ".join("n" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} has the shape {given.shape}, expected finite numbers of shape [{wanted}]")
    return given


def check_antisymmetric(payoff: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `payoff` [n, n] as numbers. Raise ValueError unless finite, antisymmetric and not empty."""
    given = np.asarray(payoff, dtype=np.float64)
    square = given.ndim == 2 and given.shape[0] == given.shape[1] > 0
    good = square and np.isfinite(given).all()
    if not good or np.abs(given + given.T).max() > 1e-9 * max(1.0, np.abs(given).max()):
        raise ValueError(
            f"payoff of shape {given.shape}, expected [n, n], finite and antisymmetric: what the row gains, "
            "the column loses"
        )
    return given


def check_scores(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `scores` [n] as numbers. Raise ValueError for a score that is not in [0, 1]."""
    given = np.asarray(scores, dtype=np.float64)
    wrong = ~((given >= 0.0) & (given <= 1.0))
    if wrong.any():
        raise ValueError(f"scores hold {given[wrong].flat[0]:g}, expected points per game in [0, 1]")
    return given


def check_games(games: Games) -> None:
    """Raise ValueError for a name that occurs twice, games of one with itself, and points not in [0, 1]."""
    names = games.competitors
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"competitors: found '{twice}' twice, expected each name once")
    if not len(games):
        return
    itself = np.flatnonzero(games.home == games.away)
    if len(itself):
        raise ValueError(f"games: '{names[games.home[itself[0]]]}' plays against itself, expected two")
    seats = np.concatenate([games.home, games.away])
    if seats.min() < 0 or seats.max() >= len(names):
        raise ValueError(f"games: found a competitor beyond the {len(names)} names")
    check_scores(games.points)
