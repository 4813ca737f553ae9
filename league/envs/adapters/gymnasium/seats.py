"""The gymnasium env of each seat, from the id and the options of a game, or from its competitor.

The run has an env for each seat, `gymnasium:CartPole-v1` with two seats, say. A competitor may bring an env
of its own, such as `gymnasium:MountainCar-v0`. Its seat is then played in that: if it is in the second seat,
the match is one of `gymnasium:CartPole-v1+MountainCar-v0`, in which the seats are in order. So the id of the
game of a match has the env of every seat, and the ids of all envs determine their options.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from league.import_paths import RAISED, why_not_imported
from storage.arrays import Indices
from storage.records import MatchBatch
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
        except RAISED as error:  # any error of its constructor is due to options or installed packages
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
        except RAISED as error:
            raise LookupError(f"module '{module}' cannot be imported: {why_not_imported(error)}") from error
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


PREFIX = "gymnasium:"
OWN_OPTIONS = ("kwargs", "scale")  # of the env of a competitor; all others are the run's


class FollowingEnvs:
    """Games of a run in which some competitors bring their own env."""

    def __init__(self, env: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> None:
        """`env` is the run's (`id`, `options`). `own` has the others, by any key that names who brings them.

        Raise ValueError for envs that cannot be seats of one match, or that have one id and other options.
        """
        self._id, self._options = str(env["id"]), dict(env["options"])
        self._own: dict[str, SeatEnv] = {}
        self._base: list[SeatEnv] = []
        if not own:
            return
        base = self._options
        if not self._id.startswith(PREFIX):
            raise ValueError(
                f"found env '{self._id}' of the run, expected a game '{PREFIX}...', seat by seat"
            )
        names = tuple(self._id.removeprefix(PREFIX).split("+"))
        self._base = seat_envs(names, base.get("seats"), base.get("kwargs"), base.get("scale", 1.0))
        for key, brought in own.items():
            self._own[key] = _seat_env(str(brought["id"]), dict(brought["options"]))
        options: dict[str, SeatEnv] = {}
        for seat in [*self._base, *self._own.values()]:
            if options.setdefault(seat.name, seat) != seat:
                raise ValueError(
                    f"found two envs '{seat.name}' with other options, expected one: kwargs and scale are "
                    "those of an env wherever it is played; register it under a second id"
                )

    def __bool__(self) -> bool:
        """Return whether any competitor brings its own env."""
        return bool(self._own)

    @property
    def num_seats(self) -> int:
        """Number of seats of a match, if any competitor brings its own env."""
        return len(self._base)

    def env_id(self, keys: Sequence[str | None]) -> str:
        """Return the id of the game of a match whose seats have competitors with these keys, in order."""
        if not any(key in self._own for key in keys):
            return self._id
        seats = [self._own.get(key or "", base) for key, base in zip(keys, self._base, strict=True)]
        return PREFIX + "+".join(seat.name for seat in seats)

    def options(self, env_id: str) -> dict[str, Any]:
        """Return the options of the game of a match. Raise ValueError for one that is not of this run."""
        if env_id == self._id:
            return self._options
        names = env_id.removeprefix(PREFIX).split("+")
        by_name = {seat.name: seat for seat in [*self._base, *self._own.values()]}
        unknown = [name for name in names if name not in by_name]
        if unknown or len(names) != len(self._base):
            raise ValueError(f"env '{env_id}' is not of this run, whose env is '{self._id}'")
        rest = {key: value for key, value in self._options.items() if key not in ("seats", *OWN_OPTIONS)}
        seats = [by_name[name] for name in names]
        return rest | {"kwargs": [seat.kwargs for seat in seats], "scale": [seat.scale for seat in seats]}

    def own_options(self, env_id: str) -> dict[str, Any] | None:
        """Return the options of the game of a match; `None` for the run's own game."""
        return None if env_id == self._id else self.options(env_id)

    def split(self, matches: MatchBatch, key_of: Callable[[str], str | None]) -> list[MatchBatch]:
        """Return the matches by game. The order within each game is that of `matches`.

        `key_of` returns the key of a competitor.
        """
        if not self._own:
            return [matches]
        keys = [key_of(competitor) for competitor in matches.competitors]
        tables, table_of = np.unique(matches.seat, axis=0, return_inverse=True)
        ids = np.array([self.env_id([keys[who] for who in table]) for table in tables.tolist()], dtype=object)
        of_match = ids[table_of.ravel()] if len(ids) else ids
        return [
            _part(matches, np.flatnonzero(of_match == env_id), env_id)
            for env_id in dict.fromkeys(of_match.tolist())
        ]


def following(config: Mapping[str, Any]) -> FollowingEnvs:
    """Return the envs of a run by its config: of a league by role, of a tournament by entrant."""
    return FollowingEnvs(config["env"], role_envs(config) | dict(config.get("seat_envs") or {}))


def role_envs(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the envs that the roles of a league bring to their seats, by role, from its config."""
    roles = (config.get("league") or {}).get("roles") or {}
    own = {name: role["env"] for name, role in roles.items() if (role or {}).get("env")}
    return {name: {"id": env["id"], "options": env.get("options") or {}} for name, env in own.items()}


def _seat_env(env_id: str, options: Mapping[str, Any]) -> SeatEnv:
    name = env_id.removeprefix(PREFIX)
    if not env_id.startswith(PREFIX) or "+" in name:
        raise ValueError(f"found env '{env_id}', expected one of gymnasium for one seat, '{PREFIX}NAME'")
    for option in options:
        if option not in OWN_OPTIONS:
            raise ValueError(
                f"found option '{option}' of env '{env_id}', expected {' or '.join(OWN_OPTIONS)}; others are "
                "those of the run's env"
            )
    try:
        expect_registered(name)
    except LookupError as error:
        raise ValueError(f"env '{env_id}': {error.args[0]}") from error
    return seat_envs((name,), 1, options.get("kwargs"), options.get("scale", 1.0))[0]


def _part(matches: MatchBatch, rows: Indices, env_id: str) -> MatchBatch:
    """Return some of the matches, as those of the game `env_id`."""
    part = matches.take(rows)
    present, seat = np.unique(part.seat, return_inverse=True)
    return replace(
        part,
        env=env_id,
        competitors=tuple(matches.competitors[who] for who in present.tolist()),
        seat=seat.reshape(part.seat.shape).astype(np.int32),
    )
