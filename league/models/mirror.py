"""Mirror: a symmetry of a game that a policy may have by construction.

A position and its mirror image are worth the same, and their moves are mirror images. A policy with a
mirror gives equal probabilities to both, so that everything learned of a position is learned of its image.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from pydantic import Field, PositiveInt, model_validator

from league.section import Section


def reversal(shape: tuple[int, ...], axis: int) -> npt.NDArray[np.int64]:
    """Return the order [size] of the numbers of an array with one axis reversed, flat."""
    return np.flip(np.arange(math.prod(shape)).reshape(shape), axis).ravel()


class Mirror(Section):
    """Mirror of a game with discrete actions: an axis of the observation and one of the actions, reversed."""

    observation: tuple[PositiveInt, ...] = Field(
        description="Shape of an observation, such as [planes, columns, rows]", min_length=1, max_length=8
    )
    axis: int = Field(description="Axis of the observation that is reversed, from 0", ge=0)
    actions: tuple[PositiveInt, ...] = Field(
        description="Shape of the actions, such as [columns], or [rows, columns] if each cell is an action",
        min_length=1,
        max_length=8,
    )
    action_axis: int = Field(default=0, description="Axis of the actions that is reversed, from 0", ge=0)

    @model_validator(mode="after")
    def _axes_are_there(self) -> Mirror:
        for name, axis, shape in (
            ("axis", self.axis, self.observation),
            ("action_axis", self.action_axis, self.actions),
        ):
            if axis >= len(shape):
                raise ValueError(
                    f"{name}: found {axis}, expected one of the {len(shape)} axes of {list(shape)}"
                )
        return self

    @property
    def observation_order(self) -> npt.NDArray[np.int64]:
        """Order [size] in which the numbers of an observation are those of its mirror image."""
        return reversal(self.observation, self.axis)

    @property
    def action_order(self) -> npt.NDArray[np.int64]:
        """Mirror image [A] of each action."""
        return reversal(self.actions, self.action_axis)
