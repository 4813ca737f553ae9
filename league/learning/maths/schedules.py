"""Settings that change while training goes on: a number, a ramp, or a line through points."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator, TypeAdapter
from pydantic_core import PydanticCustomError

from league.section import Section

Points = tuple[tuple[float, float], ...]


class Ramp(Section):
    """Ramp from `start` at the run's beginning to `end`, which holds from there on.

    `cosine` leaves the start and reaches the end slowly (arXiv 1608.03983, equation 5).
    """

    start: float = Field(ge=0, allow_inf_nan=False, description="Value at the beginning of the run")
    end: float = Field(ge=0, allow_inf_nan=False, description="Value at the end of the ramp")
    until: float = Field(default=1.0, gt=0, le=1, description="Part of the run after which `end` is reached")
    shape: Literal["linear", "cosine"] = Field(
        default="linear", description="How the value gets from `start` to `end`"
    )


_NUMBER: TypeAdapter[float] = TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)])


def number_or_points(given: Any) -> float | Points:
    """Return a number >= 0 or points as they are given. Raise ValueError if they are neither."""
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


def value_at(schedule: float | Points | Ramp, progress: float) -> float:
    """Return the value at `progress`, the part of the run that is done, in [0, 1]."""
    if isinstance(schedule, Ramp):
        along = min(max(progress / schedule.until, 0.0), 1.0)
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
