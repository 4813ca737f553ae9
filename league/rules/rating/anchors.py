"""Anchors: competitors whose ratings are given, in leagues and in tournaments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from analysis.statistics.hierarchy.anchors import MOST_ELO, Anchor
from league.moved_keys import one_anchor
from league.section import SettingsGroup

_PROBIT = 1.702  # 1 / (1 + e^-x) is Phi(x / 1.702) to within 0.01 (G. Camilli, J. Educ. Stat. 19, 1994)
BETAS_PER_ELO = math.sqrt(2.0) * math.log(10.0) / 400.0 / _PROBIT
"""A lead of one Elo in units of TrueSkill's beta, so that known strengths have the same expected score."""


class AnchorSettings(SettingsGroup):
    """Given rating of a competitor; a number alone is its Elo."""

    elo: float = Field(ge=-MOST_ELO, le=MOST_ELO, description="Rating")
    error: float = Field(
        default=0.0, ge=0, le=MOST_ELO, description="Standard error of the rating; 0: it is fixed"
    )

    @model_validator(mode="before")
    @classmethod
    def _a_number_is_elo(cls, given: Any) -> Any:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return {"elo": given}
        if isinstance(given, Mapping | AnchorSettings):
            return given
        raise ValueError(f"found {given!r}, expected an Elo, or {{elo: 0, error: 30}}")

    def anchor(self) -> Anchor:
        """Return the anchor in the form that the statistics use."""
        return Anchor(self.elo, self.error)

    def rating(self, mu: float, beta: float) -> tuple[float, float | None, bool]:
        """Return mu and sigma in TrueSkill, where Elo 0 is `mu`, and whether it is fixed: without a sigma."""
        elo = BETAS_PER_ELO * beta
        return mu + self.elo * elo, self.error * elo or None, not self.error


class AnchoredSettings(SettingsGroup):
    """What ratings are relative to."""

    anchors: dict[str, AnchorSettings] = Field(
        default_factory=dict,
        description="Competitors whose ratings are given: {one_ply: 300, random: {elo: 0, error: 30}}. Elo 0 "
        "is `mu`. One without an error never moves; none: the first snapshot or bot admitted, at 0",
    )
    anchor_sigma: float = Field(
        default=25.0 / 300.0,
        gt=0,
        allow_inf_nan=False,
        description="Standard deviation of an anchor without an error",
    )

    _moved = model_validator(mode="before")(one_anchor)

    def anchor_of(self, name: str, first: bool) -> AnchorSettings | None:
        """Return the given rating of a competitor, `None` if it is no anchor.

        `first`: it is the first that never learns, which is the anchor if none is given.
        """
        return self.anchors.get(name) or (AnchorSettings(elo=0.0) if first and not self.anchors else None)
