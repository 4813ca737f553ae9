"""Any game of Pgx as a batched game: `pgx:` and its id, such as othello or go_9x9.

Games of turns in JAX (Koyamada et al. 2023, https://arxiv.org/abs/2303.17503). All slots make a step in one
compiled call, on the CPU or on another device of JAX. Seat 0 moves first: Pgx draws which of its players that
is, from the match's seed like all other chance.
"""

from __future__ import annotations

import functools
import os
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from storage.arrays import Bools, Indices
from storage.records import EndReason
from storage.suggestions import or_near

LOWEST = {"kuhn_poker": -2.0, "leduc_holdem": -13.0, "backgammon": -3.0}  # returns; of all others -1


@functools.cache
def game_of(name: str) -> type[PgxGame]:
    """Return the game class of Pgx's id `name`. Raise LookupError if there is none, or no Pgx."""
    # read when JAX is imported: cards are for policies, and threads that spin slow others down
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    try:
        import pgx
    except ImportError as error:
        raise LookupError(
            f"games of Pgx need the extra `pgx` ({error}): pip install 'checkpoint-league[pgx]'"
        ) from None
    if name not in (known := pgx.available_envs()):
        raise LookupError(
            f"Pgx has no '{name}'" + or_near(name, known, f", expected one of {', '.join(known)}")
        )
    return type("PgxGame", (PgxGame,), {"id": f"pgx:{name}", "name": name})


class PgxGame(BatchedGame):
    """Game of Pgx, with one Discrete action space for all seats.

    Boards [rows, columns, planes] are shown planes first. Pgx declares neither bounds of returns nor draws,
    so draws count as possible. `loss_reward` is the return of a forfeit; by default the game's lowest.
    """

    id: ClassVar[str] = "pgx"
    name: ClassVar[str]

    def __init__(
        self, num_slots: int, *, loss_reward: float | None = None, step_limit: int | None = None
    ) -> None:
        import jax
        import pgx

        self._env = env = pgx.make(self.name)
        shape = tuple(int(n) for n in env.observation_shape)
        self._of_board = len(shape) == 3
        self.num_seats = int(env.num_players)
        self._init = jax.jit(jax.vmap(env.init))
        keys = _keys(np.zeros(num_slots, dtype=np.int64))
        self._state: Any = self._init(keys)
        planes = np.asarray(self._state.observation).dtype == np.bool_  # else numbers without known bounds
        self._dtype = np.int8 if planes else np.float32
        if self._of_board:
            shape = (shape[2], *shape[:2])
        low, high = (0, 1) if planes else (-np.inf, np.inf)
        self.observation_spaces = (Box(low, high, shape, self._dtype),) * self.num_seats
        self.action_spaces = (Discrete(int(env.num_actions)),) * self.num_seats
        lowest = LOWEST.get(self.name, -1.0)
        self.loss_reward = float(lowest if loss_reward is None else loss_reward)
        if self.name in LOWEST:
            self.score_bounds = (lowest, -lowest)
        super().__init__(num_slots, step_limit=step_limit)
        self._keys = keys  # [num_slots, 2]
        self._first = np.zeros(num_slots, dtype=np.int64)  # Pgx's player in seat 0
        self._compile(jax)
        self._look()

    def _compile(self, jax: Any) -> None:
        env, where = self._env, jax.numpy.where

        def chosen(rows: Any, new: Any, old: Any) -> Any:
            """Return `new` in these rows [num_slots], `old` in the others."""

            def each(a: Any, b: Any) -> Any:
                return where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b)

            return jax.tree.map(each, new, old)

        def begin(state: Any, rows: Any, keys: Any) -> Any:
            return chosen(rows, jax.vmap(env.init)(keys), state)

        def step(state: Any, rows: Any, action: Any, keys: Any, moves: Any) -> Any:
            drawn = jax.vmap(jax.random.fold_in)(keys, moves)
            return chosen(rows, jax.vmap(env.step)(state, action, drawn), state)

        self._begin, self._step = jax.jit(begin), jax.jit(step)
        # its public form, `observe`, shows a state to the player whose turn it is alone
        self._observe = jax.jit(jax.vmap(env._observe))

    def _look(self) -> None:
        """Bring what all seats may need of the state from JAX."""
        state = self._state
        self._player = np.asarray(state.current_player).astype(np.int64)
        self._seen = self._shown(state.observation)
        self._mask = np.asarray(state.legal_action_mask)

    def _shown(self, observation: Any) -> npt.NDArray:
        seen = np.asarray(observation)
        return seen.transpose(0, 3, 1, 2) if self._of_board else seen

    def _seat_of(self, player: Indices, slot: Indices) -> Indices:
        return (player - self._first[slot]) % self.num_seats

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        player = (seat + self._first[slot]) % self.num_seats
        seen = self._seen[slot].astype(self._dtype)
        others = np.flatnonzero(player != self._player[slot])
        for own in np.unique(player[others]).tolist():  # not at their turn: seldom looked at
            rows = others[player[others] == own]
            view = self._observe(self._state, np.full(self.num_slots, own, dtype=np.int32))
            seen[rows] = self._shown(view)[slot[rows]].astype(self._dtype)
        return np.ascontiguousarray(seen)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        mask = self._mask[slot].copy()
        mask[self._seat_of(self._player[slot], slot) != seat] = True  # no decision of theirs is due
        return mask

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._keys[slots] = _keys(seeds)
        rows = np.zeros(self.num_slots, dtype=np.bool_)
        rows[slots] = True
        self._state = self._begin(self._state, rows, self._keys)
        self._look()
        self._first[slots] = self._player[slots]

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, self._seat_of(self._player[slot], slot)

    def _play(self, slot: Indices, seat: Indices, action: npt.NDArray) -> None:
        rows, chosen = np.zeros(self.num_slots, dtype=np.bool_), np.zeros(self.num_slots, dtype=np.int32)
        rows[slot], chosen[slot] = True, action
        self._state = self._step(self._state, rows, chosen, self._keys, self.env_steps)
        self._look()
        players = (self._first[slot][:, None] + np.arange(self.num_seats)) % self.num_seats
        self._rewards[slot] = np.take_along_axis(np.asarray(self._state.rewards)[slot], players, axis=1)
        over, cut = (np.asarray(flag)[slot] for flag in (self._state.terminated, self._state.truncated))
        self._over[slot] = over | cut
        self._truncated[slot] = cut & ~over
        self._reason[slot[cut & ~over]] = EndReason.STEP_LIMIT


def _keys(seeds: Indices) -> npt.NDArray[np.uint32]:
    """Return keys of JAX [k, 2] for these seeds [k]."""
    return np.stack([seeds >> 32, seeds & 0xFFFFFFFF], axis=1).astype(np.uint32)
