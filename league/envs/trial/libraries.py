"""Trial of an env of gymnasium or PettingZoo itself, before an adapter reads it: what its calls return."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Space

from league.envs.adapters.gymnasium.spaces import MASK, SeatView
from league.envs.spaces import ActionSpec
from league.envs.trial.blame import defined_at, own_classes, place_of, sentence_of
from league.envs.trial.promises import Found, fault_of_number, fault_of_observation, shown
from league.import_paths import RAISED
from storage.arrays import Bools

MOST_STEPS = 200


def try_gymnasium(env: Any, seat: int, view: SeatView, seconds: float) -> None:
    """Play random legal steps in the gymnasium env of a seat. Raise Found."""
    _GymnasiumTrial(env, {seat: seat}, [view], seconds).play()


def try_pettingzoo(env: Any, views: Sequence[SeatView], seconds: float) -> None:
    """Play random legal steps in an AEC or Parallel env of PettingZoo. Raise Found."""
    from pettingzoo import AECEnv

    kind = _AecTrial if isinstance(env, AECEnv) else _ParallelTrial
    kind(env, {view.agent: seat for seat, view in enumerate(views)}, views, seconds).play()


class _Trial:
    """Calls of an env, whose agents are seats."""

    def __init__(
        self, env: Any, seat_of: Mapping[Any, int], views: Sequence[SeatView], seconds: float
    ) -> None:
        self.env = env
        self.seat_of = seat_of
        self.views = {view.agent: view for view in views}
        self.specs = {view.agent: ActionSpec.from_space(view.takes) for view in views}
        self.rng = np.random.default_rng(0)
        self.end = time.monotonic() + seconds
        self.author = type(env.unwrapped)
        self.bounded = bool(own_classes([self.author]))

    def call(self, method: str, agents: tuple[Any, ...], *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self.env, method)(*arguments, **options)
        except RAISED as error:
            place = place_of(error, [self.author]) or defined_at([self.author], method)
            raise Found(f"{sentence_of(error)}, in its {method}", self.seats(*agents), place) from error

    def expect(self, found: str, agents: tuple[Any, ...], *methods: str) -> None:
        if found:
            raise Found(found, self.seats(*agents), defined_at([self.author], *methods))

    def seats(self, *agents: Any) -> tuple[int, ...]:
        return tuple(self.seat_of[agent] for agent in agents if agent in self.seat_of)

    def look_at(
        self, agent: Any, space: Space[Any], observation: Any, info: Any, what: str, *methods: str
    ) -> Bools:
        """Look at what an agent sees, and return its legal choices [mask_width].

        `what`: name of the observation in messages. `info`: `None` if the agent need not act.
        """
        view, spec, shown = self.views[agent], self.specs[agent], observation
        if view.mask == "observation" and isinstance(shown, Mapping) and MASK in shown:
            shown = {name: part for name, part in shown.items() if name != MASK}
            space = Dict({name: part for name, part in getattr(space, "spaces", {}).items() if name != MASK})
        found = fault_of_observation(space, shown, bounded=self.bounded)
        self.expect(found and f"{what} {found}", (agent,), *methods)
        legal = np.ones(spec.mask_width, dtype=np.bool_)
        try:
            mask = None if info is None else view.mask_in(observation, info)
            view.allow(mask, legal, spec)
        except (ValueError, TypeError) as error:
            self.expect(str(error), (agent,), *methods)
        return legal

    def act(self, agent: Any, legal: Bools) -> Any:
        """Return a random action of an agent for its env, of the legal ones if there are any."""
        spec = self.specs[agent]
        return self.views[agent].act(spec.random(legal[None], self.rng.random((1, spec.width)))[0])

    def look_at_reward(self, agent: Any, reward: Any) -> None:
        found = fault_of_number(reward)
        self.expect(found and f"its reward is {found}", (agent,), "step")


class _GymnasiumTrial(_Trial):
    """One agent, which is the seat itself."""

    def play(self) -> None:
        agents = tuple(self.seat_of)
        fresh, seed = True, 0
        for _ in range(MOST_STEPS):
            if fresh:
                returned = self.call("reset", agents, seed=seed)
                self.expect(_fault_of_reset(returned), agents, "reset")
                legal = self._see("reset", *returned)
                seed += 1
            returned = self.call("step", agents, self.act(agents[0], legal))
            self.expect(_fault_of_step(returned), agents, "step")
            observation, reward, terminated, truncated, info = returned
            fresh = bool(terminated or truncated)
            legal = self._see("step", observation, None if fresh else info)
            self.look_at_reward(agents[0], reward)
            if time.monotonic() > self.end:
                return

    def _see(self, method: str, observation: Any, info: Any) -> Bools:
        (seat,), space = self.seat_of, self.env.observation_space
        return self.look_at(seat, space, observation, info, f"the observation of its {method}", method)


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

    def see(self, agent: Any, observation: Any, info: Any, *methods: str) -> Bools:
        """Look at what an agent sees; return its legal choices [mask_width]."""
        space = self.env.observation_space(agent)
        return self.look_at(agent, space, observation, info, "its observation", *methods)

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
                legal = self.see(agent, seen, env.infos.get(agent, {}), "observe")
                empty = len(legal) and not legal.any()
                self.expect(
                    "it must act, and its mask has no legal action" if empty else "", (agent,), "observe"
                )
                action = self.act(agent, legal)
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
                legal = self.see(agent, observations[agent], infos.get(agent, {}), method)
                actions[agent] = self.act(agent, legal)
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
