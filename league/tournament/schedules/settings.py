"""Settings of a schedule: who meets whom, and how often."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from league.section import Section

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


class ScheduleSettings(Section):
    """Who meets whom. A pair is one seed, played with all seatings: two games, where two meet."""

    kind: Literal["round_robin", "gauntlet", "swiss", "adaptive", "top_k"] = Field(
        default="round_robin",
        description="round_robin: all meet all; gauntlet: the seeds meet all; swiss: in each round those "
        "meet who score alike; adaptive: those meet whose games tell most of the order of all; top_k: those "
        "whose games tell most of who the k best are, until that is known",
    )
    pairs: int = Field(
        default=2,
        ge=1,
        description="Pairs of any two who meet; in a swiss tournament, of one round; adaptive and top_k "
        "have a budget that goes by it",
    )
    seeds: tuple[str, ...] = Field(
        default=(), description="gauntlet: who meets everybody; the others do not meet one another"
    )
    rounds: int | None = Field(
        default=None,
        ge=1,
        description="swiss: its rounds; none: twice as many as a knock-out would take",
    )
    budget: int | None = Field(
        default=None,
        ge=1,
        description="adaptive, top_k: most pairs of all together; none: those of a round robin, of adaptive "
        "half of them",
    )
    uniform: float = Field(
        default=LEAST_UNIFORM,
        ge=LEAST_UNIFORM,
        le=1.0,
        description="adaptive, top_k: share of the pairs that are drawn among all alike, whatever the "
        "ratings say, as these cannot see who beats whom in a circle",
    )
    pairs_per_round: int | None = Field(
        default=None,
        ge=1,
        description="adaptive, top_k: pairs between two looks at the ratings; none: enough for each to meet "
        "two others, or a thirtieth of the budget if that is more",
    )
    k: int = Field(default=1, ge=1, description="top_k: how many are looked for")
    confidence: float = Field(
        default=0.95, gt=0.5, lt=1.0, description="top_k: how sure one has to be of who they are"
    )
    margin: float = Field(
        default=0.0,
        ge=0.0,
        allow_inf_nan=False,
        description="top_k: Elo by which one who is left out may be better than one who is not",
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
            raise ValueError("seeds: found none, expected whom a gauntlet is for")
        return self
