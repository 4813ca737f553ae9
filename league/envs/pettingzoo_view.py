"""Every game here as a PettingZoo env: `aec_env("connect_four")`, `parallel_env("tron")`.

An agent sees {"observation": ..., "action_mask": ...}. The mask of an agent that need not act allows
nothing, as in PettingZoo's own games. In AEC, agents of a simultaneous move act one after the other, and
see the result when all have acted. Parallel takes an action of every agent, and ignores those of agents
that need not act. An illegal action ends the match, and its agent gets the game's `loss_reward`.

A match depends on the seed of its reset alone; a reset without a seed derives one from the seed before.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space
from pettingzoo import AECEnv, ParallelEnv

from league.envs import registry
from league.envs.base import Transition

_SLOT = np.array([0])


def aec_env(env_id: str, *, render_mode: str | None = None, **options: Any) -> AecView:
    """Return the game `env_id`, with its `options`, as a PettingZoo AEC env.

    `render_mode`: `None` or "ansi". Raise UnknownEnv or BadOption as `registry.make` does, and ValueError
    unless actions are Discrete.
    """
    return AecView(_Match(env_id, options), render_mode)


def parallel_env(env_id: str, *, render_mode: str | None = None, **options: Any) -> ParallelView:
    """Return the game `env_id` as a PettingZoo Parallel env; arguments and errors as for `aec_env`."""
    return ParallelView(_Match(env_id, options), render_mode)


class _Match:
    """One match of a game, as its agents see it."""

    def __init__(self, env_id: str, options: Mapping[str, Any]) -> None:
        self.game = registry.make(env_id, 1, **options)
        for space in self.game.action_spaces:
            if not isinstance(space, Discrete):
                raise ValueError(f"env '{env_id}': actions are {space}, expected Discrete for PettingZoo")
        self.agents = [f"player_{seat}" for seat in range(self.game.num_seats)]
        self.seat_of = {agent: seat for seat, agent in enumerate(self.agents)}
        # copies, because each agent seeds and samples its own space
        self.action_spaces: dict[str, Space[Any]] = {
            agent: copy.deepcopy(space)
            for agent, space in zip(self.agents, self.game.action_spaces, strict=True)
        }
        self.observation_spaces: dict[str, Space[Any]] = {
            agent: Dict(
                {
                    "observation": copy.deepcopy(self.game.observation_spaces[seat]),
                    "action_mask": Box(0, 1, (self.game.action_specs[seat].mask_width,), np.int8),
                }
            )
            for agent, seat in self.seat_of.items()
        }
        self.metadata: dict[str, Any] = {
            "name": env_id,
            "render_modes": ["ansi"] if self.game.renders else [],
            "is_parallelizable": False,  # not all agents act in each cycle; use `parallel_env`
        }
        self._rng = np.random.default_rng()
        self.due: list[str] = []  # agents that must act now, in order of their seats

    def start(self, seed: int | None) -> None:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.game.reset(_SLOT, np.array([self._rng.integers(2**31) if seed is None else seed]))
        self._ask()

    def play(self, actions: Mapping[str, Any]) -> Transition:
        """Step the game with the actions of all due agents."""
        taken = [np.array([int(actions[self.agents[seat]]) for seat in b.seat]) for b in self._blocks]
        transition = self.game.step(taken)
        self._ask()
        return transition

    def _ask(self) -> None:
        self._blocks = self.game.due()
        self.due = [self.agents[seat] for seat in sorted(int(s) for b in self._blocks for s in b.seat)]

    def observe(self, agent: str) -> dict[str, Any]:
        seat = np.array([self.seat_of[agent]])
        seen: Any = self.game.observe(_SLOT, seat)
        first = {name: part[0] for name, part in seen.items()} if isinstance(seen, Mapping) else seen[0]
        mask = np.zeros(self.game.action_specs[int(seat[0])].mask_width, dtype=np.int8)
        if agent in self.due:
            mask[:] = self.game.legal(_SLOT, seat)[0]
        return {"observation": first, "action_mask": mask}


class _View:
    """Common part of both kinds of env."""

    def __init__(self, match: _Match, render_mode: str | None) -> None:
        if render_mode is not None and render_mode not in match.metadata["render_modes"]:
            raise ValueError(
                f"env '{match.metadata['name']}': render_mode is {render_mode!r}, "
                f"expected one of {[None, *match.metadata['render_modes']]}"
            )
        self._match = match
        self.render_mode = render_mode
        self.metadata = match.metadata
        self.possible_agents = match.agents
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Space[Any]:
        return self._match.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self._match.action_spaces[agent]

    def render(self) -> str | None:
        return self._match.game.render(0) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class AecView(_View, AECEnv):
    """AEC env: agents act one after the other."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._match.start(seed)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._chosen: dict[str, Any] = {}
        self.agent_selection = self._match.due[0]

    def observe(self, agent: str) -> dict[str, Any]:
        return self._match.observe(agent)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._chosen[agent] = action
        if len(self._chosen) == len(self._match.due):
            self._play()
        else:
            self.agent_selection = self._match.due[len(self._chosen)]
        self._accumulate_rewards()

    def _play(self) -> None:
        transition = self._match.play(self._chosen)
        self._chosen = {}
        self.rewards = dict(zip(self.agents, transition.rewards[0].tolist(), strict=True))
        if len(transition.ended):
            cut = bool(transition.truncated[0])
            self.terminations = dict.fromkeys(self.agents, not cut)
            self.truncations = dict.fromkeys(self.agents, cut)
            self.agent_selection = self.agents[0]
        else:
            self.agent_selection = self._match.due[0]


class ParallelView(_View, ParallelEnv):
    """Parallel env: all agents act at once; actions of agents that need not act are ignored."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        self._match.start(seed)
        self.agents = self.possible_agents[:]
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Step the match. Raise ValueError if the action of a due agent is missing."""
        if not self.agents:
            return {}, {}, {}, {}, {}
        for agent in self._match.due:
            if agent not in actions:
                raise ValueError(
                    f"env '{self.metadata['name']}': no action of {agent}, expected one of each of "
                    f"{', '.join(self._match.due)}"
                )
        transition = self._match.play(actions)
        rewards = dict(zip(self.agents, transition.rewards[0].tolist(), strict=True))
        over = len(transition.ended) > 0
        cut = over and bool(transition.truncated[0])
        observations, agents = self._observations(), self.agents
        if over:
            self.agents = []
        return (
            observations,
            rewards,
            dict.fromkeys(agents, over and not cut),
            dict.fromkeys(agents, cut),
            {agent: {} for agent in agents},
        )

    def _observations(self) -> dict[str, Any]:
        return {agent: self._match.observe(agent) for agent in self.agents}
