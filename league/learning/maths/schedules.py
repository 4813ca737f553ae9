"""Settings that change while training goes on: a number, a ramp, or a line through points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PlainValidator, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from league.section import SettingsGroup

Points = tuple[tuple[float, float], ...]

MOST_NATS = 600.0  # of c in a power law: larger ones overflow


class Ramp(SettingsGroup):
    """Ramp from `start` at the run's beginning to `end`, which holds from there on.

    `cosine` leaves the start and reaches the end slowly (arXiv 1608.03983, equation 5). `power` falls as
    1 / (1 + c t)^exponent, fast at first, with the c that reaches `end`; with an exponent of 0.5 this is the
    annealing of MMD (arXiv 2206.05825).
    """

    start: float = Field(ge=0, allow_inf_nan=False, description="Value at the beginning of the run")
    end: float = Field(ge=0, allow_inf_nan=False, description="Value at the end of the ramp")
    until: float = Field(default=1.0, gt=0, le=1, description="Part of the run after which `end` is reached")
    shape: Literal["linear", "cosine", "power"] = Field(
        default="linear", description="How the value gets from `start` to `end`"
    )
    exponent: float = Field(
        default=0.5, gt=0, allow_inf_nan=False, description="power: exponent of the law; 0.5: 1 / sqrt(t)"
    )

    @model_validator(mode="after")
    def _power_laws_never_reach_0(self) -> Self:
        if self.shape == "power":
            for name, value in (("start", self.start), ("end", self.end)):
                if value == 0.0:
                    raise ValueError(
                        f"{name}: found 0 with shape power, expected more than 0: a power law never reaches "
                        "it; give a small number, or take shape linear or cosine"
                    )
            if math.log(max(self.start / self.end, self.end / self.start)) > MOST_NATS * self.exponent:
                raise ValueError(
                    f"exponent: found {self.exponent}, too small for {self.start} to {self.end}; "
                    "raise it, or take points [[progress, value], ...]"
                )
        elif self.exponent != 0.5:
            raise ValueError(
                f"exponent: found {self.exponent} with shape {self.shape}, which has none; set shape to power"
            )
        return self


_NUMBER: TypeAdapter[float] = TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)])
_ANY_NUMBER: TypeAdapter[float] = TypeAdapter(Annotated[float, Field(allow_inf_nan=False)])


def number_or_points(given: Any) -> float | Points:
    """Return a number >= 0 or points as they are given. Raise ValueError if they are neither."""
    if isinstance(given, bool):
        raise PydanticCustomError("schedule", "Input should be a valid number, a ramp, or points")
    if not isinstance(given, list | tuple):
        return _NUMBER.validate_python(given)
    if not given or not all(isinstance(point, list | tuple) and len(point) == 2 for point in given):
        raise PydanticCustomError(
            "schedule", "Input should be a valid number, a ramp, or points [[progress, value], ...]"
        )
    points = tuple((_NUMBER.validate_python(p), _NUMBER.validate_python(v)) for p, v in given)
    progress = [p for p, _ in points]
    if progress[-1] > 1 or any(a >= b for a, b in itertools.pairwise(progress)):
        raise PydanticCustomError(
            "schedule", "Input should be points [[progress, value], ...] whose progress grows within [0, 1]"
        )
    return points


NumberOrPoints = Annotated[
    Any,  # float | Points, for which pydantic would report two errors, one per member of the union
    PlainValidator(number_or_points, json_schema_input_type=float | list[tuple[float, float]]),
]
Schedule = NumberOrPoints | Ramp


def number_or_schedule(given: Any) -> float | Points | Ramp:
    """Return a finite number, points or a ramp. Raise ValueError for anything else."""
    if isinstance(given, Ramp):
        return given
    if isinstance(given, Mapping):
        return Ramp.model_validate(given)
    return number_or_points(given) if isinstance(given, list | tuple) else _ANY_NUMBER.validate_python(given)


Value = Annotated[
    Any, PlainValidator(number_or_schedule, json_schema_input_type=float | list[tuple[float, float]] | Ramp)
]
"""Number that may be negative, or a schedule, whose values may not."""


def value_at(schedule: float | Points | Ramp, progress: float) -> float:
    """Return the value at `progress`, the part of the run that is done, in [0, 1]."""
    if isinstance(schedule, Ramp):
        along = min(max(progress / schedule.until, 0.0), 1.0)
        if schedule.shape == "power":
            growth = (schedule.start / schedule.end) ** (1.0 / schedule.exponent) - 1.0
            return schedule.start * (1.0 + growth * along) ** -schedule.exponent
        if schedule.shape == "cosine":
            along = 0.5 * (1.0 - math.cos(math.pi * along))
        return schedule.start + (schedule.end - schedule.start) * along
    if isinstance(schedule, tuple):
        at, values = zip(*schedule, strict=True)
        return float(np.interp(progress, at, values))
    return schedule


def extremes(schedule: float | Points | Ramp) -> tuple[float, float]:
    """Return the smallest and the largest value of a schedule."""
    if isinstance(schedule, Ramp):
        return min(schedule.start, schedule.end), max(schedule.start, schedule.end)
    if isinstance(schedule, tuple):
        values = [value for _, value in schedule]
        return min(values), max(values)
    return schedule, schedule
