"""Prioritized fictitious self-play (Vinyals et al. 2019, "Grandmaster level in StarCraft II",
Methods): opponents are drawn in proportion to f(p), p the home player's win rate against each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from league.import_paths import import_path, is_import_path
from storage.arrays import Floats
from storage.suggestions import nearest

Weighting = Callable[[Floats], Floats]
"""From win rates in [0, 1] to weights of the same shape; what a user's own must be."""


def hard(p: Floats, exponent: float = 2.0) -> Floats:
    """(1 - p)^q: those it cannot beat, however hopeless."""
    return (1.0 - p) ** exponent


def variance(p: Floats) -> Floats:
    """p (1 - p): those near its own strength."""
    return p * (1.0 - p)


def linear(p: Floats) -> Floats:
    """1 - p."""
    return 1.0 - p


def capped_linear(p: Floats) -> Floats:
    """min(1/2, 1 - p): no more for the hopeless than for equals."""
    return np.minimum(0.5, 1.0 - p)


def even(p: Floats) -> Floats:
    """min(p, 1 - p): peaks at equals, more pointed than `variance`."""
    return np.minimum(p, 1.0 - p)


def bell(p: Floats) -> Floats:
    """exp(-(p - 1/2)^2 / (2 / 36)): normal around equals with standard deviation 1/6, as a population
    was paired (Jaderberg et al.: Human-level performance in 3D multiplayer games, Science 2019)."""
    return np.exp(-18.0 * (p - 0.5) ** 2)


def uniform(p: Floats) -> Floats:
    """1: fictitious self-play."""
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
    """Raises ValueError unless `name` is a weighting or has the form of an import path."""
    if name in WEIGHTINGS or is_import_path(name):
        return
    near = nearest(name, WEIGHTINGS)
    hint = f"did you mean '{near[0]}'?" if near else "or give your own as 'module:name'"
    raise ValueError(f"no weighting is called '{name}', expected one of {', '.join(WEIGHTINGS)}; {hint}")


def find_weighting(name: str, exponent: float = 2.0) -> Weighting:
    """The weighting of that name, `hard` with its exponent, or a user's own `module:name`."""
    check_name(name)
    if name == "hard":
        return lambda p: hard(p, exponent)
    if name in WEIGHTINGS:
        return WEIGHTINGS[name]
    try:
        found = import_path(name)
    except ValueError as error:
        raise ValueError(f"weighting {error}") from error
    if not callable(found):
        raise ValueError(f"weighting '{name}' is a {type(found).__name__}, expected a function of win rates")
    return found


def probabilities(weighting: Weighting, p: Floats) -> Floats:
    """f(p) as a distribution [n]. Uniform when the weights are all zero, or none can be drawn by
    (negative or not finite): an all-beaten pool is still a pool."""
    weights = np.asarray(weighting(p), dtype=np.float64)
    if weights.shape != p.shape:
        raise ValueError(f"weighting: shape {weights.shape} for win rates of shape {p.shape}")
    total = weights.sum()
    if not np.isfinite(total) or total <= 0.0 or (weights < 0.0).any():
        return np.full(p.shape, 1.0 / p.size)
    return weights / total
