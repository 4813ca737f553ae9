"""Any gymnasium env as a game: `gymnasium:CartPole-v1`. Every seat plays a copy of its own.

All seats of a match get the match's seed, so they face the same chance and differ by what they do;
the one with the highest return ranks first. A seat whose copy ended waits for the others, at no
reward. gymnasium's `terminated` and `truncated` are kept apart seat by seat: a match is truncated
when the time of any of its seats ran out, and `was_cut` tells those from the ones that came to an end.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, flatten, flatten_space

from league.envs.base import BatchedGame
from storage.records import EndReason

log = logging.getLogger(__name__)

Act = Callable[[npt.NDArray], Any]


@functools.cache
def game_of(name: str) -> type[GymnasiumGame]:
    """The game of gymnasium's env `name`: its id, or "module:id" where `module` is what registers it.

    Raises LookupError, naming the nearest ids.
    """
    module, _, env = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise LookupError(f"module '{module}' cannot be imported: {error}") from error
    if env not in gymnasium.registry:
        near = difflib.get_close_matches(env, gymnasium.registry, n=3, cutoff=0.6)
        remedy = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "expected an id such as CartPole-v1, or module:id if a module of yours registers it"
        )
        raise LookupError(f"gymnasium has no '{env}': {remedy}")
    return type("GymnasiumGame", (GymnasiumGame,), {"id": f"gymnasium:{name}", "env": env})


class GymnasiumGame(BatchedGame):
    """`seats` copies of an env in each match, made by `gymnasium.make(env, **kwargs)`.

    Observations are float32 (int8 and uint8 stay as they are); what is neither a Box nor a Dict of
    Boxes is flattened, as gymnasium does. Actions count from 0 and lie in one row.
    """

    id: ClassVar[str] = "gymnasium"
    env: ClassVar[str]

    def __init__(
        self,
        num_slots: int,
        *,
        seats: int = 1,
        kwargs: Mapping[str, Any] | None = None,
        loss_reward: float = -1.0,
        step_limit: int | None = None,
    ) -> None:
        if not isinstance(seats, int) or seats < 1:
            raise ValueError(f"{self.id}: seats is {seats!r}, expected a whole number, at least 1")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise ValueError(f"{self.id}: kwargs is {kwargs!r}, expected the env's own options by name")
        self._kwargs = dict(kwargs or {})
        first = self._make()
        observation, (action, self._act) = _shown(first.observation_space), _taken(first.action_space)
        self.num_seats = seats
        self.observation_spaces = (observation,) * seats
        self.action_spaces = (action,) * seats
        self.loss_reward = float(loss_reward)
        super().__init__(num_slots, step_limit=step_limit)
        self._mask = np.ones((num_slots * seats, self.action_specs[0].mask_width), dtype=np.bool_)
        self._copies = Copies(self._make, first, num_slots * seats, observation)
        self._done = np.zeros((num_slots, seats), dtype=np.bool_)  # the copy ended
        self._cut = np.zeros((num_slots, seats), dtype=np.bool_)  # because its time ran out

    def _make(self) -> gymnasium.Env:
        try:
            return gymnasium.make(self.env, disable_env_checker=True, **self._kwargs)
        except Exception as error:  # whatever its constructor raises, it is the options, or what is installed
            raise ValueError(
                f"{self.id}: gymnasium.make('{self.env}', **{self._kwargs}) failed: "
                f"{type(error).__name__}: {error}"
            ) from error

    def observe(
        self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]
    ) -> npt.NDArray | Mapping[str, npt.NDArray]:
        place = slot * self.num_seats + seat
        parts = {name: part[place] for name, part in self._copies.seen.items()}
        return parts if self._shows_parts else parts[""]

    def legal(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return self._mask[: len(slot)]

    def was_cut(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return self._cut[slot, seat] | ~self._done[slot, seat]

    def _reset(self, slots: npt.NDArray[np.int64], seeds: npt.NDArray[np.int64]) -> None:
        places = slots[:, None] * self.num_seats + np.arange(self.num_seats)
        self._copies.reset(places.ravel(), np.repeat(seeds, self.num_seats))
        self._done[slots] = False
        self._cut[slots] = False

    def _turn(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        slot, seat = np.nonzero(self.active[:, None] & ~self._done)
        return slot, seat

    def _play(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64], action: npt.NDArray) -> None:
        moves = self._copies.step(slot * self.num_seats + seat, [self._act(a) for a in action])
        self._rewards[slot, seat] = moves.reward
        self._done[slot, seat] = moves.terminated | moves.truncated
        self._cut[slot, seat] = moves.truncated & ~moves.terminated
        self._over[slot] = self._done[slot].all(axis=1)
        late = slot[self._over[slot] & self._cut[slot].any(axis=1)]
        self._truncated[late] = True
        self._reason[late] = EndReason.STEP_LIMIT
        # nobody knows how a crashed match would have gone on: it is cut short where its seats last stood
        crashed = slot[moves.crashed]
        self._over[crashed] = True
        self._truncated[crashed] = True
        self._reason[crashed] = EndReason.CRASH


class Moves(NamedTuple):
    """What n copies did in one step; the arrays are [n]."""

    reward: npt.NDArray[np.float32]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    crashed: npt.NDArray[np.bool_]  # the env raised: nothing else is known of its step


class Copies:
    """One env for each place, made when it is first needed, stepped one after the other.

    The game asks no more of its envs than this: what `seen` holds, `reset` and `step`. So another
    way of stepping them, all at once or in other processes, can take its place.
    """

    def __init__(
        self, make: Callable[[], gymnasium.Env], first: gymnasium.Env, num_places: int, shown: Space[Any]
    ) -> None:
        """`first` is an env made already, `shown` the space of what is kept in `seen`."""
        self._make = make
        self._envs = {0: first}
        self._space = first.observation_space
        self._reported: set[type[Exception]] = set()
        parts = shown.spaces if isinstance(shown, Dict) else {"": shown}
        self.seen = {  # what each place sees now, by part: [num_places, *shape]
            name: np.zeros((num_places, *(part.shape or ())), dtype=part.dtype)
            for name, part in parts.items()
        }

    def reset(self, places: npt.NDArray[np.int64], seeds: npt.NDArray[np.int64]) -> None:
        for place, seed in zip(places.tolist(), seeds.tolist(), strict=True):
            if place not in self._envs:
                self._envs[place] = self._make()
            observation, _ = self._envs[place].reset(seed=seed)
            self._see(place, observation)

    def step(self, places: npt.NDArray[np.int64], actions: list[Any]) -> Moves:
        """One step of each copy. One that raises is thrown away; what it showed last stays in `seen`."""
        moves = Moves(np.zeros(len(places), np.float32), *np.zeros((3, len(places)), np.bool_))
        for row, (place, action) in enumerate(zip(places.tolist(), actions, strict=True)):
            try:
                observation, reward, terminated, truncated, _ = self._envs[place].step(action)
                self._see(place, observation)
                moves.reward[row] = reward
                moves.terminated[row], moves.truncated[row] = terminated, truncated
            except Exception as error:  # the env's own mistake costs its match, not the run
                moves.reward[row] = 0.0
                moves.crashed[row] = True
                del self._envs[place]
                if type(error) not in self._reported:
                    self._reported.add(type(error))
                    log.warning(
                        "%s: a match crashed (further ones like it are not named)", error, exc_info=True
                    )
        return moves

    def _see(self, place: int, observation: Any) -> None:
        space = self._space
        if isinstance(space, Dict):
            rows = {name: _numbers(part, observation[name]) for name, part in space.spaces.items()}
        else:
            rows = {"": _numbers(space, observation)}
        for name, row in rows.items():
            self.seen[name][place] = row


def _numbers(space: Space[Any], observation: Any) -> Any:
    return observation if isinstance(space, Box) else flatten(space, observation)


def _shown(space: Space[Any]) -> Space[Any]:
    """The space in which a game shows what an env shows in `space`."""
    if isinstance(space, Dict):
        return Dict({name: _box(part) for name, part in space.spaces.items()})
    return _box(space)


def _box(space: Space[Any]) -> Space[Any]:
    flat = space if isinstance(space, Box) else flatten_space(space)
    if not isinstance(flat, Box) or flat.dtype in (np.int8, np.uint8):
        return flat  # the game refuses what is no Box
    with np.errstate(over="ignore"):  # bounds beyond float32 are none
        return Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)


def _taken(space: Space[Any]) -> tuple[Space[Any], Act]:
    """The space in which a seat acts, and what makes an action of it one of the env's own `space`."""
    if isinstance(space, Discrete):
        start = int(space.start)
        return Discrete(int(space.n)), lambda action: int(action) + start
    if isinstance(space, MultiDiscrete | MultiBinary):
        multi = space if isinstance(space, MultiDiscrete) else MultiDiscrete(np.full(space.shape, 2))
        kind = space.dtype

        def counted(action: npt.NDArray) -> npt.NDArray:
            return (action.reshape(multi.nvec.shape) + multi.start).astype(kind)

        return MultiDiscrete(multi.nvec.ravel()), counted
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        box = space

        def bounded(action: npt.NDArray) -> npt.NDArray:  # a bound need not be a float32
            return np.clip(action.reshape(box.shape).astype(box.dtype), box.low, box.high)

        with np.errstate(over="ignore"):
            low, high = (bound.astype(np.float32).ravel() for bound in (space.low, space.high))
        return Box(low, high, dtype=np.float32), bounded
    return space, lambda action: action  # the game refuses it, by name
