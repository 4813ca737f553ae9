"""One PettingZoo env in one slot: AEC (agents act one after the other) or Parallel (all at once).

Both write observations, masks and rewards into the rows of their slot. An agent of the env is a seat
here. The set of living agents is read from the env after every step, because agents may come and go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space

from league.envs.adapters.gymnasium.spaces import SeatView, numbers, paid, shown
from league.envs.slots import SlotGame

SEEDS = 2**31  # many envs pass their seed to numpy's RandomState, which takes no larger ones


def shows(space: Space[Any]) -> Space[Any]:
    """Return the space of a seat that is shown observations of `space`."""
    if (
        isinstance(space, Box) and space.dtype == np.bool_
    ):  # planes of a board: one byte per cell instead of four
        return Box(0, 1, space.shape or (1,), np.int8)
    return shown(space)


class EnvMatch(ABC):
    """Common part of both kinds: the env, and its game, whose rows it writes."""

    def __init__(self, game: SlotGame, views: Sequence[SeatView], env: Any) -> None:
        self.env = env
        self._game = game
        self._views = views
        self._seat_of = {view.agent: seat for seat, view in enumerate(views)}

    def begin(self, slot: int, seed: int) -> None:
        """Start a new match. Raise ValueError if the env has no agents then."""
        self._reset(slot, seed % SEEDS)
        if self._game.finished[slot]:
            raise ValueError("the env has no agents after its reset")

    @abstractmethod
    def advance(self, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        """Apply the actions of these seats, and mark the seats that must act next."""

    @abstractmethod
    def refresh(self, slot: int) -> None:
        """Write what all living agents see now."""

    @abstractmethod
    def _reset(self, slot: int, seed: int) -> None:
        """Reset the env and mark the first seats to act; finish the match if there are none."""

    def _see(self, slot: int, seat: int, observation: Any) -> None:
        view, rows = self._views[seat], self._game.seen[seat]
        if view.inside is not None:
            observation = observation[view.inside]
        if isinstance(view.sees, Box):
            rows[""][slot] = observation
        else:
            for name, row in numbers(view.sees, observation).items():
                rows[name][slot] = row

    def _allow(self, slot: int, seat: int, observation: Any, info: Mapping[str, Any]) -> bool:
        """Write the legal actions of a seat, and return whether there are any."""
        view, game = self._views[seat], self._game
        mask = view.mask_in(observation, info)
        return view.allow(mask, game.mask[seat][slot], game.action_specs[seat])

    def _finish(self, slot: int) -> None:
        self._game.finished[slot] = True
        self._game.cut[slot] = self._game.cut_short[slot].any()

    def _note_end(self, slot: int, agent: Any, terminated: Any, truncated: Any) -> None:
        seat = self._seat_of[agent]
        self._game.ended[slot, seat] = True
        self._game.cut_short[slot, seat] = truncated and not terminated


def match_of(game: SlotGame, views: Sequence[SeatView], env: Any) -> EnvMatch:
    """Return the env as a match of the game, by its API."""
    from pettingzoo import AECEnv

    return (AecMatch if isinstance(env, AECEnv) else ParallelMatch)(game, views, env)


class AecMatch(EnvMatch):
    """Match in which agents act one after the other. PettingZoo requires to step dead agents with `None`."""

    def advance(self, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        env, gained, seat_of = self.env, self._game.gained, self._seat_of
        env.step(self._views[seats[0]].act(actions[0]))
        for agent, reward in env.rewards.items():
            if reward:
                gained[slot, seat_of[agent]] += paid(reward)
        self._next(slot)

    def refresh(self, slot: int) -> None:
        env = self.env
        for agent in env.agents:
            if not env.terminations[agent]:
                self._see(slot, self._seat_of[agent], env.observe(agent))

    def _reset(self, slot: int, seed: int) -> None:
        self.env.reset(seed=seed)
        self._next(slot)

    def _next(self, slot: int) -> None:
        """Write what the next agent sees, or finish the match."""
        env, game = self.env, self._game
        death = True in env.terminations.values() or True in env.truncations.values()
        if (death and not self._bury(slot)) or not env.agents:
            self._finish(slot)
            return
        agent = env.agent_selection
        seat = self._seat_of[agent]
        observation = env.observe(agent)
        self._see(slot, seat, observation)
        if not self._allow(slot, seat, observation, env.infos.get(agent, {})):
            raise ValueError(f"agent {agent!r} must act, and has no legal action")
        game.ended[slot, seat] = False  # the agent may have returned
        game.acting[slot, seat] = True

    def _bury(self, slot: int) -> bool:
        """Note dead agents, and step them with `None`. Return whether a living agent must act."""
        env = self.env
        for _ in range(len(self._views) + 1):
            dead = [a for a in env.agents if env.terminations[a] or env.truncations[a]]
            for agent in dead:
                self._note_end(slot, agent, env.terminations[agent], env.truncations[agent])
                if env.truncations[agent]:
                    self._see(slot, self._seat_of[agent], env.observe(agent))
            if len(dead) == len(env.agents):
                return False  # no agent can act any more
            if env.agent_selection not in dead:
                return True
            env.step(None)
        raise ValueError(f"agent {env.agent_selection!r} is dead, and stays when it is stepped with None")


class ParallelMatch(EnvMatch):
    """Match in which all agents act at once.

    An agent with an empty mask waits: its seat does not act, and the env gets an arbitrary action.
    """

    def __init__(self, game: SlotGame, views: Sequence[SeatView], env: Any) -> None:
        super().__init__(game, views, env)
        self._waiting: list[int] = []
        zeros = ((spec, np.zeros(spec.shape, spec.dtype)) for spec in game.action_specs)
        lowest = [spec.clipped(row[None])[0] for spec, row in zeros]
        self._idle = [view.act(action) for view, action in zip(views, lowest, strict=True)]

    def advance(self, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        views, gained, seat_of = self._views, self._game.gained, self._seat_of
        actions_of = {views[s].agent: views[s].act(a) for s, a in zip(seats, actions, strict=True)}
        for seat in self._waiting:
            actions_of[views[seat].agent] = self._idle[seat]
        observations, rewards, terminations, truncations, infos = self.env.step(actions_of)
        for agent, reward in rewards.items():
            gained[slot, seat_of[agent]] = paid(reward)
        for agent in actions_of:
            terminated, truncated = terminations.get(agent, False), truncations.get(agent, False)
            if terminated or truncated:
                self._note_end(slot, agent, terminated, truncated)
                if truncated and agent in observations:
                    self._see(slot, seat_of[agent], observations[agent])
        alive = [a for a in self.env.agents if not (terminations.get(a) or truncations.get(a))]
        self._ask(slot, alive, observations, infos)

    def refresh(self, slot: int) -> None:
        """Do nothing: every step writes the observations of all agents."""

    def _reset(self, slot: int, seed: int) -> None:
        observations, infos = self.env.reset(seed=seed)
        self._ask(slot, self.env.agents, observations, infos)

    def _ask(
        self, slot: int, agents: Sequence[Any], observations: Mapping[Any, Any], infos: Mapping[Any, Any]
    ) -> None:
        """Write what all living agents see, and mark those that may act; or finish the match."""
        acting, ended = self._game.acting, self._game.ended
        self._waiting = []
        for agent in agents:
            seat, observation = self._seat_of[agent], observations[agent]
            self._see(slot, seat, observation)
            ended[slot, seat] = False
            if self._allow(slot, seat, observation, infos.get(agent, {})):
                acting[slot, seat] = True
            else:
                self._waiting.append(seat)
        if not agents:
            self._finish(slot)
        elif not acting[slot].any():
            raise ValueError("agents are alive, and none has a legal action")
