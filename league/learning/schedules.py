"""Settings that change while training goes on: a number, or a line from one number to another."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Linear(BaseModel):
    """From `start` at the run's beginning to `end`, in a straight line, and `end` from there on."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    start: float = Field(gt=0, allow_inf_nan=False, description="Value at the beginning of the run")
    end: float = Field(ge=0, allow_inf_nan=False, description="Value at the end of the line")
    until: float = Field(default=1.0, gt=0, le=1, description="Part of the run after which `end` is reached")


Schedule = Annotated[float, Field(ge=0, allow_inf_nan=False)] | Linear


def value_at(schedule: float | Linear, progress: float) -> float:
    """The value at `progress`, the part of the run that is done, in [0, 1]."""
    if isinstance(schedule, Linear):
        along = min(max(progress / schedule.until, 0.0), 1.0)
        return schedule.start + (schedule.end - schedule.start) * along
    return schedule
