"""Anchors: competitors whose ratings are given, fixed or with an error, and whether games bear them out.

One anchor says where the scale begins. Several also say how far apart they are: each is an observation of a
strength above one zero that is not known, with a normal error (zero: fixed).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.statistics.davidson import ELO
from analysis.statistics.elo import Z_95
from storage.arrays import Floats, Indices
from storage.errors import Mistake

FIXED = 0.01  # Elo: error of an anchor without one, so small that no figure shows it
_TEXT = re.compile(r"(?P<name>.+?)(=(?P<elo>[-+]?[\d.]+)((\+-|±)(?P<error>[\d.]+))?)?")
MOST_ELO = 10_000.0


@dataclass(frozen=True, slots=True)
class Anchor:
    """A given rating, and the standard error of it."""

    elo: float = 0.0
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """K anchors among the competitors, in log-odds."""

    index: Indices  # [K]
    strength: Floats  # [K]
    weight: Floats  # [K] one over the variance of the error

    @property
    def exact(self) -> npt.NDArray[np.bool_]:
        """Whether each has no error, [K]."""
        return self.weight >= (ELO / FIXED) ** 2 * (1.0 - 1e-9)

    def pull(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the log-likelihood [S] of parameters `x` [S, P], for any zero, and its slopes [S, P]."""
        apart = x[:, self.index] - self.strength
        apart -= (apart @ self.weight / self.weight.sum())[:, None]
        slope = np.zeros_like(x)
        slope[:, self.index] = -self.weight * apart
        return -0.5 * apart**2 @ self.weight, slope

    def add_to(self, information: Floats) -> None:
        """Add what the anchors tell to `information` [P, P]."""
        own = np.ix_(self.index, self.index)
        information[own] += np.diag(self.weight) - np.outer(self.weight, self.weight) / self.weight.sum()

    def zero(self, x: Floats, rng: np.random.Generator) -> Floats:
        """Return the zero of the scale [S], given strengths `x` [S, N]."""
        middle = (x[:, self.index] - self.strength) @ self.weight / self.weight.sum()
        error = self.weight.sum() ** -0.5
        return middle + (rng.normal(0.0, error, len(x)) if error > 2.0 * FIXED / ELO else 0.0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well anchors agree: the games, and the others, give each a rating to compare with its own."""

    p_value: float  # probability of luck alone being as far off
    competitors: tuple[str, ...]
    off: Floats  # [K] Elo by which games and the other anchors rate each above what is given
    error: Floats  # [K] standard error of that, the errors of all anchors included

    @property
    def farthest(self) -> tuple[str, float, float, float]:
        """Return the anchor that is off most surely, by how much, and its 95 % interval."""
        k = int(np.argmax(np.abs(self.off) / self.error))
        off, half = float(self.off[k]), Z_95 * float(self.error[k])
        return self.competitors[k], off, off - half, off + half


def anchors_of(given: str | Mapping[str, Any] | None) -> dict[str, Anchor]:
    """Return anchors as settings have them: a name with Elo 0, or the Elo of each, also with its error."""
    named = {given: 0.0} if isinstance(given, str) else given or {}
    return {
        name: one if isinstance(one, Anchor) else Anchor(**one) if isinstance(one, Mapping) else Anchor(one)
        for name, one in named.items()
    }


def zero_of(anchors: Mapping[str, Anchor]) -> str:
    """Return what ratings on the scale of `anchors` are above, in words: the only one, if it is at 0."""
    if list(anchors.values()) == [Anchor()]:
        return next(iter(anchors))
    given = (f"{one.elo:g}" + (f"+-{one.error:g}" if one.error else "") for one in anchors.values())
    return f"the zero of {', '.join(f'{name} ({elo})' for name, elo in zip(anchors, given, strict=True))}"


def held(anchors: Mapping[str, Anchor], competitors: Sequence[str]) -> Held | None:
    """Return the anchors among the competitors, `None` if there are none.

    Raise ValueError for one that is no competitor, and for numbers that are no rating.
    """
    for name, anchor in anchors.items():
        if name not in competitors:
            raise ValueError(f"anchor is '{name}', expected one of {len(competitors)} competitors")
        if not (abs(anchor.elo) <= MOST_ELO and 0.0 <= anchor.error <= MOST_ELO):
            raise ValueError(
                f"anchor '{name}' is {anchor}, expected Elo within {MOST_ELO:g}, error 0 or more"
            )
    if not anchors:
        return None
    elo, error = np.array([(anchor.elo, anchor.error) for anchor in anchors.values()]).T
    return Held(
        np.array([competitors.index(name) for name in anchors]),
        elo / ELO,
        (ELO / np.maximum(error, FIXED)) ** 2,
    )


def agreement(anchors: Mapping[str, Anchor], competitors: Sequence[str], draws: Floats) -> Agreement | None:
    """Return how well anchors agree with `draws` [S, N] of strengths in Elo by games alone.

    `competitors` [N] of one part. Differences are compared, with their covariance. Return `None` for fewer
    than two.
    """
    known = {name: anchor for name, anchor in anchors.items() if name in competitors}
    if len(known) < 2:
        return None
    at = [competitors.index(name) for name in known]
    given, error = np.array([(anchor.elo, max(anchor.error, FIXED)) for anchor in known.values()]).T
    found = draws[:, at] - draws[:, at].mean(axis=1, keepdims=True)
    off, covariance = found.mean(axis=0) - given, np.cov(found, rowvar=False, bias=True) + np.diag(error**2)
    k = len(at)
    apart = np.concatenate([np.full((k - 1, 1), -1.0), np.eye(k - 1)], axis=1)
    step = apart @ off
    square = float(step @ np.linalg.solve(apart @ covariance @ apart.T, step))
    from scipy.special import gammaincc  # here, as the league's rules read what is beside this

    contrasts = np.empty((k, k))
    for one in range(k):
        others = np.delete(np.arange(k), one)
        weight = np.linalg.solve(covariance[np.ix_(others, others)], np.ones(k - 1))
        contrasts[one, others], contrasts[one, one] = -weight / weight.sum(), 1.0
    errors = np.sqrt(np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts))
    return Agreement(float(gammaincc((k - 1) / 2.0, square / 2.0)), tuple(known), contrasts @ off, errors)


def parse_anchor(text: str) -> tuple[str, Anchor]:
    """Return the name and the rating of `NAME`, `NAME=ELO` or `NAME=ELO+-ERROR`. Raise Mistake."""
    found = _TEXT.fullmatch(text.strip())
    try:
        if found is None or ("=" in text and found["elo"] is None):
            raise ValueError
        anchor = Anchor(float(found["elo"] or 0.0), float(found["error"] or 0.0))
    except ValueError:
        raise Mistake(
            f"--anchor: found '{text}', expected NAME, NAME=ELO or NAME=ELO+-ERROR, such as sf_1320=1320+-30"
        ) from None
    if not (math.isfinite(anchor.elo) and abs(anchor.elo) <= MOST_ELO and anchor.error <= MOST_ELO):
        raise Mistake(f"--anchor: found '{text}', expected Elo within {MOST_ELO:g}")
    return found["name"], anchor
