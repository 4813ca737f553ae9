"""All places of a game stepped together, by gymnasium's `VectorEnv`. A place is one seat of one slot.

    sync, async           gymnasium steps single envs, one after the other or in a process each. A place is
                          reset from the seed of its match, so matches are the same as when stepped alone.
    vector_entry_point    the env's own vectorised implementation, often much faster. It is seeded as a
                          whole when no match is active. A match then depends on the matches beside it,
                          so it cannot be replayed alone, and the conformance check fails for this.

The env declares in `metadata["autoreset_mode"]` what follows the end of an episode in a place:

    DISABLED     nothing: the place must be reset before the next step
    NEXT_STEP    the next step begins a new episode there; it ignores the action and gives no reward
    SAME_STEP    the same step has begun a new episode; the last observation is in `infos["final_obs"]`

Places without a match, or with a seat that has finished, are stepped with arbitrary actions; their
results are ignored.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from league.envs.adapters.gymnasium.seats import SeatEnv
from league.envs.adapters.gymnasium.spaces import numbers

VECTORIZATIONS = ("none", "sync", "async", "vector_entry_point")


def vector_places(
    seats: Sequence[SeatEnv], num_slots: int, vectorization: Any, threads: int
) -> VectorPlaces | None:
    """Return the places of `num_slots` matches of these seats; `None` if `vectorization` is "none".

    The place of a seat is slot * len(seats) + seat. Raise ValueError.
    """
    if vectorization == "none":
        return None
    if vectorization not in VECTORIZATIONS:
        raise ValueError(f"vectorization is {vectorization!r}, expected one of {', '.join(VECTORIZATIONS)}")
    if threads:
        raise ValueError(
            f"threads is {threads} and vectorization {vectorization}, expected one of the two (matches are "
            "stepped independently, or together)"
        )
    first = seats[0]
    if any((seat.name, seat.kwargs) != (first.name, first.kwargs) for seat in seats):
        raise ValueError(f"vectorization is {vectorization}, but seats play different envs; expected none")
    if vectorization == "vector_entry_point" and len(seats) > 1:
        raise ValueError(
            "vectorization is vector_entry_point, but that gives no two seats the same chance; expected "
            "1 seat, or none, sync or async"
        )
    make = functools.partial(_make_vector, first, num_slots * len(seats), vectorization)
    try:
        return VectorPlaces(make)
    except Exception as error:  # any error of its constructor, as in `SeatEnv.make`
        raise ValueError(f"vectorization {vectorization}: {error}") from error


def _make_vector(seat: SeatEnv, num_places: int, vectorization: str) -> VectorEnv:
    make = functools.partial(gymnasium.make, seat.name, disable_env_checker=True, **seat.kwargs)
    if vectorization == "sync":
        return SyncVectorEnv([make] * num_places, autoreset_mode=AutoresetMode.DISABLED)
    if vectorization == "async":
        # a fork would copy the locks of this process, but not the threads that hold them
        return AsyncVectorEnv(
            [make] * num_places, context="forkserver", autoreset_mode=AutoresetMode.DISABLED
        )
    with warnings.catch_warnings():  # about a missing mode: `VectorPlaces` refuses it with a better message
        warnings.filterwarnings("ignore", message=".*(missing AutoresetMode|autoreset_mode).*")
        return gymnasium.make_vec(
            seat.name, num_envs=num_places, vectorization_mode="vector_entry_point", **seat.kwargs
        )


class Single(NamedTuple):
    """The spaces of one place."""

    observation_space: Space[Any]
    action_space: Space[Any]


class Moves(NamedTuple):
    """Results of one step for the n places that acted; arrays are [n, ...]."""

    seen: dict[str, npt.NDArray]  # by part
    reward: npt.NDArray
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]


class VectorPlaces:
    """The places of one `VectorEnv`. `fresh` marks the places at the start of an episode."""

    def __init__(self, make: Callable[[], VectorEnv]) -> None:
        """Make the env. Raise ValueError if it does not declare its autoreset mode."""
        self._make = make
        self._open()

    def _open(self) -> None:
        self._env = env = self._make()
        self._broken = False
        self._mode = _autoreset_mode(env)
        self._seeds_places = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self.single = Single(env.single_observation_space, env.single_action_space)
        env.action_space.seed(0)
        self._idle = np.asarray(env.action_space.sample())
        self._started = False
        self.fresh = np.zeros(env.num_envs, dtype=np.bool_)
        self._over = np.zeros(env.num_envs, dtype=np.bool_)  # ended, and not reset

    def drop(self) -> None:
        """Discard the env, which raised. The next `begin` makes another."""
        self._broken = True
        processes = isinstance(self._env.unwrapped, AsyncVectorEnv)
        with contextlib.suppress(
            Exception
        ):  # the env is broken already; a process that raised does not answer
            self._env.close(**({"terminate": True} if processes else {}))

    def begin(self, places: npt.NDArray[np.int64], seeds: npt.NDArray[np.int64], alone: bool) -> None:
        """Begin new episodes in these places [n]; if the env cannot, they become `fresh` in a later step.

        `alone`: no other place is in use.
        """
        if self._broken:
            self._open()
        if self._seeds_places:
            by_place: list[int | None] = [None] * len(self._over)
            for place, seed in zip(places.tolist(), seeds.tolist(), strict=True):
                by_place[place] = seed
            self._restart(places if self._started else None, by_place)
        elif alone or not self._started:
            self._restart(None, int(seeds[0]))
        elif self._mode is AutoresetMode.DISABLED:
            self._restart(places, None)

    def _restart(self, places: npt.NDArray[np.int64] | None, seed: Any) -> None:
        """Reset these places (`None`: all). No active match may be in them."""
        mask = np.ones(len(self._over), dtype=np.bool_)
        options = None
        if places is not None:
            mask[:] = False
            mask[places] = True
            options = {"reset_mask": mask.copy()}
        self._latest, _ = self._env.reset(seed=seed, options=options)
        self._started = True
        self._over[mask] = False
        self.fresh[mask] = True

    def step(self, places: npt.NDArray[np.int64], actions: list[Any]) -> Moves:
        """Step all places, with these actions in these places [n], and return what happened there."""
        if self._mode is AutoresetMode.DISABLED and self._over.any():
            self._restart(np.flatnonzero(self._over), None)
        every = self._idle.copy()
        if len(places):
            every[places] = actions
        self._latest, reward, terminated, truncated, infos = self._env.step(every)
        terminated, truncated = np.asarray(terminated), np.asarray(truncated)
        ended = terminated | truncated
        began, self._over = self._over, ended
        self.fresh = began if self._mode is AutoresetMode.NEXT_STEP else np.zeros_like(ended)
        seen = self.seen(places)
        if self._mode is AutoresetMode.SAME_STEP:
            self._over, self.fresh = np.zeros_like(ended), ended
            for row in np.flatnonzero(ended[places]).tolist():
                end = _at(infos["final_obs"], int(places[row]))
                for name, part in numbers(self.single.observation_space, end).items():
                    seen[name][row] = part
        return Moves(seen, np.asarray(reward)[places], terminated[places], truncated[places])

    def seen(self, places: npt.NDArray[np.int64]) -> dict[str, npt.NDArray]:
        """Return copies of the observations of these places [n] now, by part: [n, *part.shape] each."""
        space = self.single.observation_space
        if isinstance(space, Box):
            return {"": np.asarray(self._latest)[places]}
        if isinstance(space, Dict) and all(isinstance(part, Box) for part in space.spaces.values()):
            return {name: np.asarray(self._latest[name])[places] for name in space.spaces}
        every = list(iterate(self._env.observation_space, self._latest))
        rows = [numbers(space, every[place]) for place in places.tolist()]
        return {name: np.stack([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _autoreset_mode(env: VectorEnv) -> AutoresetMode:
    said = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(said)
    except ValueError:
        modes = ", ".join(mode.name for mode in AutoresetMode)
        raise ValueError(
            f"{type(env.unwrapped).__name__}.metadata['autoreset_mode'] is {said!r}, expected gymnasium's "
            f"AutoresetMode ({modes}); without it, the first step of an episode cannot be recognised"
        ) from None


def _at(batch: Any, place: int) -> Any:
    return {name: part[place] for name, part in batch.items()} if isinstance(batch, Mapping) else batch[place]
