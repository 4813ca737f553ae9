"""Trial of an env of gymnasium or PettingZoo itself, before an adapter reads it: what its calls return."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Discrete, Space

from league.envs.trial.blame import defined_at, own_classes, place_of, sentence_of
from league.envs.trial.promises import Found, fault_of_number, fault_of_observation, shown

MOST_STEPS = 200
MASK = "action_mask"


def try_gymnasium(env: Any, seat: int, seconds: float) -> None:
    """Play random steps in the gymnasium env of a seat. Raise Found."""
    _GymnasiumTrial(env, {seat: seat}, seconds).play()


def try_pettingzoo(env: Any, seconds: float) -> None:
    """Play random legal steps in an AEC or Parallel env of PettingZoo. Raise Found."""
    from pettingzoo import AECEnv

    kind = _AecTrial if isinstance(env, AECEnv) else _ParallelTrial
    kind(env, {agent: seat for seat, agent in enumerate(env.possible_agents)}, seconds).play()


class _Trial:
    """Calls of an env, whose agents are seats."""

    def __init__(self, env: Any, seat_of: Mapping[Any, int], seconds: float) -> None:
        self.env = env
        self.seat_of = seat_of
        self.end = time.monotonic() + seconds
        self.author = type(env.unwrapped)
        self.bounded = bool(own_classes([self.author]))

    def call(self, method: str, agents: tuple[Any, ...], *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self.env, method)(*arguments, **options)
        except Exception as error:  # a user's env may raise anything
            place = place_of(error, [self.author]) or defined_at([self.author], method)
            raise Found(f"{sentence_of(error)}, in its {method}", self.seats(*agents), place) from error

    def expect(self, found: str, agents: tuple[Any, ...], *methods: str) -> None:
        if found:
            raise Found(found, self.seats(*agents), defined_at([self.author], *methods))

    def seats(self, *agents: Any) -> tuple[int, ...]:
        return tuple(self.seat_of[agent] for agent in agents if agent in self.seat_of)

    def look_at_reward(self, agent: Any, reward: Any) -> None:
        found = fault_of_number(reward)
        self.expect(found and f"its reward is {found}", (agent,), "step")


class _GymnasiumTrial(_Trial):
    """One agent, which is the seat itself."""

    def play(self) -> None:
        env, agents = self.env, tuple(self.seat_of)
        env.action_space.seed(0)
        fresh, seed = True, 0
        for _ in range(MOST_STEPS):
            if fresh:
                returned = self.call("reset", agents, seed=seed)
                self.expect(_fault_of_reset(returned), agents, "reset")
                self._look_at("reset", returned[0])
                seed += 1
            returned = self.call("step", agents, env.action_space.sample())
            self.expect(_fault_of_step(returned), agents, "step")
            observation, reward, terminated, truncated, _ = returned
            self._look_at("step", observation)
            self.look_at_reward(agents[0], reward)
            fresh = bool(terminated or truncated)
            if time.monotonic() > self.end:
                return

    def _look_at(self, method: str, observation: Any) -> None:
        found = fault_of_observation(self.env.observation_space, observation, bounded=self.bounded)
        self.expect(found and f"the observation of its {method} {found}", tuple(self.seat_of), method)


def _fault_of_reset(returned: Any) -> str:
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return ""
    found = f"{len(returned)} values" if isinstance(returned, tuple) else f"{shown(returned)} alone"
    if isinstance(returned, tuple) and len(returned) == 2:
        found = f"{shown(returned[1])} as info"
    return f"reset returned {found}, expected an observation and a dict of info"


def _fault_of_step(returned: Any) -> str:
    found = _fault_of_five(returned, "envs of gym", "", "observation, reward, terminated, truncated, info")
    if found:
        return found
    for name, value in (("terminated", returned[2]), ("truncated", returned[3])):
        if not isinstance(value, bool | int) and type(value).__name__ not in ("bool", "bool_"):
            return f"step returned {shown(value)} as {name}, expected True or False"
    return ""


def _fault_of_five(returned: Any, older: str, kind: str, names: str) -> str:
    """Return what is wrong with what a step returned, expected a tuple of five values; "" if nothing is."""
    if not isinstance(returned, tuple):
        return f"step returned {shown(returned)}, expected {kind}{names}"
    if len(returned) == 5:
        return ""
    as_before = f", as {older} did" if len(returned) == 4 else ""
    return f"step returned {len(returned)} values{as_before}, expected 5: {names}"


class _AgentsTrial(_Trial):
    """Common part of both kinds of PettingZoo's envs."""

    def __init__(self, env: Any, seat_of: Mapping[Any, int], seconds: float) -> None:
        super().__init__(env, seat_of, seconds)
        self.rng = np.random.default_rng(0)
        self.wide: dict[Any, Space[Any]] = {agent: env.action_space(agent) for agent in self.seat_of}
        for number, space in enumerate(self.wide.values()):
            space.seed(number)

    def see(self, agent: Any, observation: Any, info: Any, *methods: str) -> Any:
        """Look at what an agent sees; return its mask, or `None` if every action is legal."""
        space = self.env.observation_space(agent)
        masked = isinstance(space, Dict) and MASK in space.spaces
        mask = info.get(MASK) if isinstance(info, Mapping) else None
        if masked and isinstance(observation, Mapping) and MASK in observation:
            mask = observation[MASK]
            observation = {name: part for name, part in observation.items() if name != MASK}
            space = Dict({name: part for name, part in space.spaces.items() if name != MASK})
        found = fault_of_observation(space, observation, bounded=self.bounded)
        self.expect(found and f"its observation {found}", (agent,), *methods)
        if mask is None:
            return None
        width = getattr(self.wide[agent], "n", None)
        if width is not None:
            shape = np.shape(mask)
            wrong = "" if shape == (width,) else f"its mask is shaped {shape}, expected {(int(width),)}"
            self.expect(wrong, (agent,), *methods)
        return mask

    def act(self, agent: Any, mask: Any) -> Any:
        space = self.wide[agent]
        if mask is None or not isinstance(space, Discrete):
            return space.sample()
        return int(self.rng.choice(np.flatnonzero(np.asarray(mask)))) + int(space.start)

    def known(self, agents: Any, where: str, *methods: str) -> None:
        for agent in agents:
            names = ", ".join(map(str, self.seat_of))
            found = "" if agent in self.seat_of else f"{where} has agent {agent!r}, expected some of {names}"
            self.expect(found, (), *methods)

    def look_at_rewards(self, rewards: Any) -> None:
        kind = "" if isinstance(rewards, Mapping) else f"rewards are {shown(rewards)}, expected a dict"
        self.expect(kind, (), "step")
        self.known(rewards, "the dict of rewards", "step")
        for agent, reward in rewards.items():
            self.look_at_reward(agent, reward)


class _AecTrial(_AgentsTrial):
    """Agents act one after the other."""

    def play(self) -> None:
        env, seed, fresh, acted = self.env, 0, True, False
        for _ in range(MOST_STEPS):
            if time.monotonic() > self.end:
                return
            if fresh:
                self.call("reset", (), seed=seed)
                seed, acted = seed + 1, False
                self.known(env.agents, "after its reset, `agents`", "reset")
                none = "" if len(env.agents) else "the env has no agents after its reset"
                self.expect(none, (), "reset")
            agent, where = env.agent_selection, ("step",) if acted else ("reset",)
            living = (
                "" if agent in env.agents else f"agent_selection is {agent!r}, expected one of {env.agents}"
            )
            self.expect(living, (agent,), *where)
            for name in ("terminations", "truncations", "infos"):
                missing = [a for a in env.agents if a not in getattr(env, name)]
                found = f"{name} has no entry of {missing[0]!r}" if missing else ""
                self.expect(found, tuple(missing[:1]), *where)
            dead = env.terminations[agent] or env.truncations[agent]
            if dead:
                action = None
            else:
                seen = self.call("observe", (agent,), agent)
                mask = self.see(agent, seen, env.infos.get(agent, {}), "observe")
                empty = mask is not None and not np.any(mask)
                self.expect(
                    "it must act, and its mask has no legal action" if empty else "", (agent,), "observe"
                )
                action = self.act(agent, mask)
            self.call("step", (agent,), action)
            acted = True
            self.look_at_rewards(env.rewards)
            fresh = not env.agents or all(env.terminations[a] or env.truncations[a] for a in env.agents)


class _ParallelTrial(_AgentsTrial):
    """All agents act at once."""

    def play(self) -> None:
        env, seed, fresh = self.env, 0, True
        observations: Mapping[Any, Any] = {}
        infos: Mapping[Any, Any] = {}
        for _ in range(MOST_STEPS):
            if time.monotonic() > self.end:
                return
            method = "step"
            if fresh:
                method = "reset"
                returned = self.call("reset", (), seed=seed)
                pair = isinstance(returned, tuple) and len(returned) == 2
                pair = pair and all(isinstance(part, Mapping) for part in returned)
                found = (
                    f"{len(returned)} values" if isinstance(returned, tuple) else f"{shown(returned)} alone"
                )
                found = f"reset returned {found}, expected two dicts: observations and infos"
                self.expect("" if pair else found, (), "reset")
                observations, infos = returned
                seed += 1
                self.expect("" if env.agents else "the env has no agents after its reset", (), "reset")
            agents = list(env.agents)
            self.known(agents, "`agents`", method)
            actions = {}
            for agent in agents:
                missing = "" if agent in observations else f"{method} returned no observation of {agent!r}"
                self.expect(missing, (agent,), method)
                mask = self.see(agent, observations[agent], infos.get(agent, {}), method)
                actions[agent] = self.act(agent, mask if mask is not None and np.any(mask) else None)
            returned = self.call("step", tuple(agents), actions)
            self.expect(_fault_of_agents_step(returned), (), "step")
            observations, rewards, terminations, truncations, infos = returned
            self.look_at_rewards(rewards)
            alive = [a for a in env.agents if not (terminations.get(a) or truncations.get(a))]
            fresh = not alive


def _fault_of_agents_step(returned: Any) -> str:
    names = "observations, rewards, terminations, truncations, infos"
    found = _fault_of_five(returned, "older envs", "five dicts: ", names)
    if found:
        return found
    for name, part in zip(names.split(", "), returned, strict=True):
        if not isinstance(part, Mapping):
            return f"step returned {shown(part)} as {name}, expected a dict by agent"
    return ""
