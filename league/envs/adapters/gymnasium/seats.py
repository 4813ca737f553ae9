"""The gymnasium env of each seat, from the id and the options of a game."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from storage.suggestions import nearest


@dataclass(frozen=True, slots=True)
class SeatEnv:
    """The env of one seat: its id or "module:id", its options, and the factor of its rewards."""

    name: str
    kwargs: dict[str, Any]
    scale: float

    def make(self) -> gymnasium.Env:
        """Make the env, rendered as text if it supports that and `kwargs` set no other `render_mode`.

        Raise ValueError.
        """
        try:
            return gymnasium.make(self.name, disable_env_checker=True, **{**self._text(), **self.kwargs})
        except Exception as error:  # any error of its constructor is due to options or installed packages
            raise ValueError(
                f"gymnasium.make('{self.name}', **{self.kwargs}) failed: {type(error).__name__}: {error}"
            ) from error

    def _text(self) -> dict[str, str]:
        entry = gymnasium.registry[self.name.rpartition(":")[2]].entry_point
        made_by = load_env_creator(entry) if isinstance(entry, str) else entry
        modes = getattr(made_by, "metadata", {}).get("render_modes", ())
        return {"render_mode": "ansi"} if "ansi" in modes else {}


def seat_envs(names: tuple[str, ...], seats: Any, kwargs: Any, scale: Any) -> list[SeatEnv]:
    """Return the envs by seat, from the ids in a game's name and the user's options.

    Raise ValueError if these do not fit.
    """
    if seats is None:
        seats = len(names)
    if not isinstance(seats, int) or seats < 1:
        raise ValueError(f"seats is {seats!r}, expected a whole number, at least 1")
    if len(names) not in (1, seats):
        raise ValueError(
            f"seats is {seats}, but the id names {len(names)} envs, one for each seat; leave seats out"
        )
    by_seat = _by_seat({} if kwargs is None else kwargs, seats)
    if len(by_seat) != seats or not all(isinstance(own, Mapping) for own in by_seat):
        raise ValueError(
            f"kwargs is {kwargs!r}, expected the env's own options by name, or a list of such, one for each "
            f"seat ({seats})"
        )
    scales = _by_seat(scale, seats)
    if len(scales) != seats or not all(type(own) in (int, float) and math.isfinite(own) for own in scales):
        raise ValueError(
            f"scale is {scale!r}, expected a number, or a list of such, one for each seat ({seats})"
        )
    envs = names if len(names) > 1 else names * seats
    return [
        SeatEnv(name, dict(own), float(times)) for name, own, times in zip(envs, by_seat, scales, strict=True)
    ]


def expect_registered(name: str) -> None:
    """Import the module of "module:id", if there is one. Raise LookupError with the nearest ids."""
    module, _, env = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise LookupError(f"module '{module}' cannot be imported: {error}") from error
    if env not in gymnasium.registry:
        near = nearest(env, gymnasium.registry, n=3, cutoff=0.6)
        remedy = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "expected an id such as CartPole-v1, or module:id if a module of yours registers it"
        )
        raise LookupError(f"gymnasium has no '{env}': {remedy}")


def _by_seat(found: Any, seats: int) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found] * seats
