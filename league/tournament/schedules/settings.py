"""Settings of a schedule: the pairings and their number."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from league.section import SettingsGroup

LEAST_UNIFORM = 0.3

_TAKEN_BY = {
    "seeds": ("gauntlet",),
    "rounds": ("swiss",),
    "budget": ("adaptive", "top_k"),
    "uniform": ("adaptive", "top_k"),
    "pairs_per_round": ("adaptive", "top_k"),
    "k": ("top_k",),
    "confidence": ("top_k",),
    "margin": ("top_k",),
}


class ScheduleSettings(SettingsGroup):
    """Schedule of pairs. A pair is one seed, played with all seatings: two games if two competitors meet."""

    kind: Literal["round_robin", "gauntlet", "swiss", "adaptive", "top_k"] = Field(
        default="round_robin",
        description="round_robin: all meet all; gauntlet: the seeds meet all; swiss: in each round "
        "competitors with similar scores meet; adaptive: pairs with the most information on the ranking; "
        "top_k: pairs with the most information on the k best, until these are known",
    )
    pairs: int = Field(
        default=2,
        ge=1,
        description="Number of pairs of any two that meet; swiss: in one round; adaptive, top_k: only the "
        "default budget depends on it",
    )
    seeds: tuple[str, ...] = Field(
        default=(), description="gauntlet: competitors that meet all others; these do not meet one another"
    )
    rounds: int | None = Field(
        default=None,
        ge=1,
        description="swiss: number of rounds; none: twice as many as a knock-out would take",
    )
    budget: int | None = Field(
        default=None,
        ge=1,
        description="adaptive, top_k: greatest number of pairs in all; none: that of a round robin, for "
        "adaptive half of it",
    )
    uniform: float = Field(
        default=LEAST_UNIFORM,
        ge=LEAST_UNIFORM,
        le=1.0,
        description="adaptive, top_k: share of the pairs that are drawn uniformly, regardless of ratings, "
        "which cannot represent cycles",
    )
    pairs_per_round: int | None = Field(
        default=None,
        ge=1,
        description="adaptive, top_k: number of pairs between two updates of the ratings; none: enough for "
        "each to meet two others, or a thirtieth of the budget if that is more",
    )
    k: int = Field(default=1, ge=1, description="top_k: number of best competitors to find")
    confidence: float = Field(
        default=0.95, gt=0.5, lt=1.0, description="top_k: confidence at which the search ends"
    )
    margin: float = Field(
        default=0.0,
        ge=0.0,
        allow_inf_nan=False,
        description="top_k: Elo by which one of the others may be better than one of the k best",
    )

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[str, ...]) -> tuple[str, ...]:
        for seed in seeds:
            if seeds.count(seed) > 1:
                raise ValueError(f"found '{seed}' twice, expected each seed once")
        return seeds

    @model_validator(mode="after")
    def _only_what_its_kind_takes(self) -> Self:
        for name, kinds in _TAKEN_BY.items():
            given = getattr(self, name) != type(self).model_fields[name].default
            if given and self.kind not in kinds:
                raise ValueError(f"{name}: is for {' and '.join(kinds)} alone, found kind '{self.kind}'")
        if self.kind == "gauntlet" and not self.seeds:
            raise ValueError("seeds: found none, expected the seeds of the gauntlet")
        return self
