"""Settings that change while training goes on: a number, or a line from one number to another."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Linear(BaseModel):
    """From `start` to `end` as the run goes from its beginning to its stop, in a straight line."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    start: float = Field(gt=0, allow_inf_nan=False, description="Value at the beginning of the run")
    end: float = Field(ge=0, allow_inf_nan=False, description="Value when the run stops")


Schedule = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Linear


def value_at(schedule: float | Linear, progress: float) -> float:
    """The value at `progress`, the part of the run that is done, in [0, 1]."""
    if isinstance(schedule, Linear):
        return schedule.start + (schedule.end - schedule.start) * min(max(progress, 0.0), 1.0)
    return schedule
