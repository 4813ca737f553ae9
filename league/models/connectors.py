"""Connectors: steps that transform an observation on its way from the game to the network.

Each is a frozen record of settings with pure functions. Its memory of a seat between two decisions is
a row of floats that the caller keeps, all zero when a match begins.

    flatten        every observation as one row
    reshape        the same numbers in another shape, such as planes of a board for a cnn
    transpose      axes in another order, such as the planes of a frame before its rows and columns
    scale          numbers divided by a constant, such as pixels by 255
    normalise      mean 0 and variance 1, by statistics that are learned with the weights
    frame_stack    the last few observations together, the newest last; zeros before the first
    previous       the seat's last action and the reward since, beside the observation

One of your own is a class derived from `ConnectorSettings` (`league.extend.Connector`): `{use: module:Class}`
with its settings beside it. Policies import it only if it is trusted (`league.import_paths`).

The pipeline of a policy is `Connectors(connectors, observation, action)`.
"""

from __future__ import annotations

import functools
import json
import math
from abc import ABC, abstractmethod
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Discriminator, Field, PositiveFloat, PositiveInt, Tag, ValidationError

from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart
from league.import_paths import import_path, require_trust, running
from league.mistakes import explain
from league.section import SettingsGroup, StoredPart, by_kind, kind_of
from storage.arrays import Floats32

CONNECTORS = "policy.connectors"  # the place of connectors in a config


class ConnectorSettings(SettingsGroup, ABC):
    """One connector. `seen` describes its input: the output of the connector before it."""

    @property
    def wants_reward(self) -> bool:
        """True if `apply` uses the reward since the seat's last action."""
        return False

    @abstractmethod
    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        """Return the spec of the output. Raise ValueError if the connector cannot take `seen`."""

    def memory_size(self, seen: ObservationSpec, action: ActionSpec) -> int:
        """Return the number of floats of memory per seat."""
        return 0

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        """Transform observations [n, *seen.shape]; write memory [n, memory_size] in place."""
        return observation

    def acted(self, memory: Floats32, raw: npt.NDArray, action: ActionSpec) -> None:
        """Note in `memory` [n, memory_size] the actions `raw` [n, *action.shape] that were drawn."""


class Flatten(ConnectorSettings):
    """The observation as one row."""

    kind: Literal["flatten"] = "flatten"

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        return ObservationSpec((seen.size,), seen.dtype)

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        return observation.reshape(len(observation), seen.size)


class Reshape(ConnectorSettings):
    """The same numbers in another shape."""

    kind: Literal["reshape"] = "reshape"
    shape: tuple[PositiveInt, ...] = Field(
        description="Shape of one observation, such as [planes, rows, columns]", min_length=1, max_length=8
    )

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        if math.prod(self.shape) != seen.size:
            raise ValueError(
                f"connector reshape: an observation has {seen.size} numbers, shape {list(self.shape)} "
                f"has {math.prod(self.shape)}"
            )
        return ObservationSpec(self.shape, seen.dtype)

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        return observation.reshape(len(observation), *self.shape)


class Transpose(ConnectorSettings):
    """The same numbers with the axes in another order."""

    kind: Literal["transpose"] = "transpose"
    axes: tuple[int, ...] = Field(
        default=(2, 0, 1),
        description="Axes in their new order; [2, 0, 1] makes frames [rows, columns, planes] planes first",
        min_length=2,
        max_length=8,
    )

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        if sorted(self.axes) != list(range(len(seen.shape))):
            raise ValueError(
                f"connector transpose: an observation is shaped {list(seen.shape)}, axes are "
                f"{list(self.axes)}, expected each of its {len(seen.shape)} axes once"
            )
        return ObservationSpec(tuple(seen.shape[axis] for axis in self.axes), seen.dtype)

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        return np.ascontiguousarray(observation.transpose(0, *(1 + axis for axis in self.axes)))


class Scale(ConnectorSettings):
    """The numbers divided by a constant, as float32."""

    kind: Literal["scale"] = "scale"
    divisor: PositiveFloat = Field(
        default=255.0, allow_inf_nan=False, description="Number that all are divided by"
    )

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        return ObservationSpec(seen.shape, "float32", seen.parts)

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        return observation.astype(np.float32) / np.float32(self.divisor)


class Normalise(ConnectorSettings):
    """Mean 0 and variance 1. It is the first layer of the network; each snapshot holds its statistics."""

    kind: Literal["normalise"] = "normalise"
    clip: PositiveFloat = Field(
        default=10.0, allow_inf_nan=False, description="Largest absolute value of the output"
    )
    epsilon: PositiveFloat = Field(default=1e-8, allow_inf_nan=False, description="Added to the variance")

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        return seen


class FrameStack(ConnectorSettings):
    """The last few observations, oldest first: along the first axis for planes, else in one row.

    Frames [rows, columns] become planes.

    The parts of a dict observation are stacked separately.
    """

    kind: Literal["frame_stack"] = "frame_stack"
    frames: int = Field(description="Number of observations, with the present one", ge=2, le=1024)

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        if seen.parts:
            parts = tuple(SpacePart(part.name, self._stacked(part.shape)) for part in seen.parts)
            return ObservationSpec((self.frames * seen.size,), _held(seen.dtype), parts)
        return ObservationSpec(self._stacked(seen.shape), _held(seen.dtype))

    def memory_size(self, seen: ObservationSpec, action: ActionSpec) -> int:
        return (self.frames - 1) * seen.size

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        n = len(observation)
        history = np.empty((n, self.frames, seen.size), dtype=_held(seen.dtype))
        history[:, :-1] = memory.reshape(n, self.frames - 1, seen.size)
        history[:, -1] = observation.reshape(n, seen.size)
        memory[:] = history[:, 1:].reshape(n, memory.shape[1])
        if not seen.parts:
            return history.reshape(n, *self._stacked(seen.shape))
        rows, start = [], 0
        for part in seen.parts:
            rows.append(history[:, :, start : start + part.size].reshape(n, self.frames * part.size))
            start += part.size
        return np.concatenate(rows, axis=1)

    def _stacked(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if len(shape) == 3:
            return (self.frames * shape[0], *shape[1:])
        if len(shape) == 2:
            return (self.frames, *shape)
        return (self.frames * math.prod(shape),)


def _held(dtype: str) -> str:
    """Return the type of a stack: memory is float32, which cannot hold every integer of 32 bits."""
    return dtype if np.can_cast(dtype, np.float32) else "float32"


class Previous(ConnectorSettings):
    """The seat's last action (one-hot for each choice, or the raw numbers) and the reward since.

    They are appended to the observation as float32. Before the first decision the action is all zeros,
    which is not a valid one-hot.
    """

    kind: Literal["previous"] = "previous"
    action: bool = Field(default=True, description="Whether the last action is shown")
    reward: bool = Field(default=True, description="Whether the reward since the last action is shown")

    @property
    def wants_reward(self) -> bool:
        return self.reward

    def output(self, seen: ObservationSpec, action: ActionSpec) -> ObservationSpec:
        added = self.memory_size(seen, action) + self.reward
        if not added:
            raise ValueError("connector previous: neither action nor reward is shown, expected one of them")
        parts = seen.parts
        if not parts and len(seen.shape) > 1:
            parts = (SpacePart("observation", seen.shape),)
        if parts:  # networks can still find the planes
            name = "previous"
            while name in {part.name for part in parts}:
                name += "_"
            parts = (*parts, SpacePart(name, (added,)))
        return ObservationSpec((seen.size + added,), "float32", parts)

    def memory_size(self, seen: ObservationSpec, action: ActionSpec) -> int:
        """Return the size of the last action as it is shown."""
        if not self.action:
            return 0
        return action.width

    def apply(
        self, observation: npt.NDArray, memory: Floats32, reward: Floats32, seen: ObservationSpec
    ) -> npt.NDArray:
        n = len(observation)
        row = np.empty((n, seen.size + memory.shape[1] + self.reward), dtype=np.float32)
        row[:, : seen.size] = observation.reshape(n, seen.size)
        row[:, seen.size : seen.size + memory.shape[1]] = memory
        if self.reward:
            row[:, -1] = reward
        return row

    def acted(self, memory: Floats32, raw: npt.NDArray, action: ActionSpec) -> None:
        if not self.action:
            return
        k, width, flat = len(action.sizes), action.mask_width, raw.reshape(len(raw), -1)
        memory[:, :width], memory[:, width:] = 0.0, flat[:, k:]
        first = np.array([start for start, _ in action.columns], dtype=np.int64)  # column of each choice
        np.put_along_axis(memory, flat[:, :k].astype(np.int64) + first, np.float32(1.0), axis=1)


class OwnConnector(StoredPart):
    """A connector of your own, with its settings beside its path."""

    @property
    def made(self) -> ConnectorSettings:
        """The connector itself.

        Raise WeightsMismatch if its class is not trusted, ValueError if it cannot be used.
        """
        require_trust("policy.connectors", self.use)
        return _made(self.use, json.dumps(self.model_extra, sort_keys=True))


Given = tuple[ConnectorSettings | OwnConnector, ...]  # as settings have them


@functools.lru_cache(maxsize=256)
def _made(path: str, settings: str) -> ConnectorSettings:
    """Return the connector at `path` with these settings, a JSON text. Raise ValueError."""
    found = import_path(path)
    if not (isinstance(found, type) and issubclass(found, ConnectorSettings)):
        raise ValueError(f"'{path}' is {found!r}, expected a class derived from league.extend.Connector")
    try:
        return found.model_validate(json.loads(settings))
    except ValidationError as error:
        raise ValueError(f"'{path}': {explain(error, found)}") from None
    except TypeError as error:  # a class that lacks a method
        raise ValueError(f"'{path}': {error}") from None


KINDS = ("flatten", "reshape", "transpose", "scale", "normalise", "frame_stack", "previous")
Connector = Annotated[
    Annotated[Flatten, Tag("flatten")]
    | Annotated[Reshape, Tag("reshape")]
    | Annotated[Transpose, Tag("transpose")]
    | Annotated[Scale, Tag("scale")]
    | Annotated[Normalise, Tag("normalise")]
    | Annotated[FrameStack, Tag("frame_stack")]
    | Annotated[Previous, Tag("previous")]
    | Annotated[OwnConnector, Tag("use")],
    Discriminator(kind_of),
    BeforeValidator(by_kind("", KINDS)),
]


def made(connector: ConnectorSettings | OwnConnector) -> ConnectorSettings:
    """Return a connector as it works. Raise as `OwnConnector.made`."""
    return connector.made if isinstance(connector, OwnConnector) else connector


def seen_through(connectors: Given, observation: ObservationSpec, action: ActionSpec) -> ObservationSpec:
    """Return the output spec of the last of `connectors`. Raise ValueError if one does not fit."""
    for position, connector in enumerate(connectors):
        if isinstance(connector, Normalise) and position != len(connectors) - 1:
            raise ValueError("connector normalise: it is the network's first layer, so it must come last")
        observation = made(connector).output(observation, action)
    return observation


def try_connectors(connectors: Given, observation: ObservationSpec, action: ActionSpec) -> None:
    """Show two observations of zeros to connectors of the user's own.

    Raise ValueError for one that raises, or that gives something else than its `output` says.
    """
    seen = observation
    for given in connectors:
        connector = made(given)
        if isinstance(given, OwnConnector):
            where = f"'{given.kind}'"
            rows = np.zeros((2, *seen.shape), dtype=seen.dtype)
            with running("", given.kind, ValueError):
                shown = connector.output(seen, action)
                if not isinstance(shown, ObservationSpec):
                    raise ValueError(f"output gave {shown!r:.60}, expected an ObservationSpec")
                memory = np.zeros((2, connector.memory_size(seen, action)), dtype=np.float32)
                found = connector.apply(rows, memory, np.zeros(2, dtype=np.float32), seen)
                connector.acted(memory, np.zeros((2, *action.shape), dtype=action.dtype), action)
            gave = f"a {type(found).__name__}"
            if isinstance(found, np.ndarray):
                gave = f"{list(found.shape)} {found.dtype}"
            expected = f"{[2, *shown.shape]} {shown.dtype}"
            if gave != expected:
                raise ValueError(f"{where}: apply gave {gave}, expected {expected}, as output says")
        else:
            shown = connector.output(seen, action)
        seen = shown


class Connectors:
    """The pipeline of one policy. Memory [n, memory_size] holds the parts of the connectors in order."""

    def __init__(self, connectors: Given, observation: ObservationSpec, action: ActionSpec) -> None:
        self._action, self._shown = action, observation.shape
        self._stages: list[tuple[ConnectorSettings, ObservationSpec, slice, str]] = []
        seen, start = observation, 0
        for given in connectors:
            connector = made(given)
            end = start + connector.memory_size(seen, action)
            own = given.kind if isinstance(given, OwnConnector) else ""
            self._stages.append((connector, seen, slice(start, end), own))
            seen, start = connector.output(seen, action), end
        self.seen = seen
        self.memory_size = start
        self.wants_reward = any(connector.wants_reward for connector, *_ in self._stages)

    def apply(self, observation: npt.NDArray, memory: Floats32, reward: Floats32 | None) -> npt.NDArray:
        """Transform observations [n, *shape] of the game to [n, *seen.shape]. `reward` [n]; `None`: zeros.

        Raise OwnCodeFailed, with its place, for what a connector of the user's own raises.
        """
        if observation.shape[1:] != self._shown:  # a board as a row, or the other way round
            observation = observation.reshape(len(observation), *self._shown)
        if not self._stages:
            return observation
        if reward is None:
            reward = np.zeros(len(observation), dtype=np.float32)
        for connector, seen, part, own in self._stages:
            with running(CONNECTORS, own):
                observation = connector.apply(observation, memory[:, part], reward, seen)
        return observation

    def acted(self, memory: Floats32, raw: npt.NDArray) -> None:
        """Write the actions `raw` [n, *action.shape] that were drawn to `memory`. Raise as `apply` does."""
        for connector, _, part, own in self._stages:
            with running(CONNECTORS, own):
                connector.acted(memory[:, part], raw, self._action)
