"""PettingZoo's envs as games: `pettingzoo:classic/chess_v6`, and a user's own AEC or Parallel class.

Seats are the env's possible agents, in order, each with its own spaces. Legal actions are read from the
mask in the observation or in `info`. The mask is not part of what a seat sees, and illegal moves never
reach the env. A match ends when no agent is left; it is truncated if the env truncated any agent.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_args

from league.envs.adapters.gymnasium.spaces import MaskSource, SeatView, view_seat
from league.envs.adapters.pettingzoo.envs import Api, Maker, find_makers, open_env, takes_option
from league.envs.adapters.pettingzoo.matches import EnvMatch, match_of, shows
from league.envs.slots import SlotGame

# the most that a seat can lose, with default options of the env, where it is more than 1
LOWEST_RETURN = {
    "leduc_holdem_v4": -7.0,
    "rps_v2": -15.0,
    "texas_holdem_v4": -25.0,
    "texas_holdem_no_limit_v6": -100.0,
}
CHIPS = {"leduc_holdem_v4", "texas_holdem_v4", "texas_holdem_no_limit_v6"}  # where one pays the other


@functools.cache
def game_of(name: str) -> type[PettingZooGame]:
    """Return the game class of the env `name`. Raise LookupError as `find_makers` does."""
    return type(
        "PettingZooGame", (PettingZooGame,), {"id": f"pettingzoo:{name}", "makers": find_makers(name)}
    )


@functools.cache
def game_from(maker: Maker, env_id: str) -> type[PettingZooGame]:
    """Return the game class of a user's own env: `maker` is its class, or a function that returns one."""
    return type("PettingZooGame", (PettingZooGame,), {"id": env_id, "makers": {"auto": maker}})


def is_pettingzoo(found: object) -> bool:
    """Return whether `found` is an env class of PettingZoo's, or a function without required arguments.

    The result is `False` in a process that has not imported PettingZoo.
    """
    pettingzoo = sys.modules.get("pettingzoo")
    if pettingzoo is None:
        return False
    if isinstance(found, type):
        return issubclass(found, pettingzoo.AECEnv | pettingzoo.ParallelEnv)
    if not callable(found):
        return False
    parameters = inspect.signature(found).parameters.values()
    return all(p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


class PettingZooGame(SlotGame):
    """A PettingZoo env in each slot, made with `kwargs`.

    api          parallel: all agents act at once; aec: one after the other; auto: parallel if the env
                 offers it
    mask         place of the mask of legal actions: observation, info, none (all actions are legal), or
                 auto: where it is found
    loss_reward  the lowest return of a seat; `None`: known for PettingZoo's classic games, else -1
    fresh        make a new env for each match, for envs with an incomplete `reset`
    """

    id: ClassVar[str] = "pettingzoo"
    makers: ClassVar[Mapping[str, Maker]]  # by API; "auto": either API

    def __init__(
        self,
        num_slots: int,
        *,
        api: Api = "auto",
        kwargs: Mapping[str, Any] | None = None,
        mask: MaskSource = "auto",
        loss_reward: float | None = None,
        fresh: bool = False,
        step_limit: int | None = None,
        threads: int = 0,
    ) -> None:
        for option, value, choices in (("api", api, get_args(Api)), ("mask", mask, get_args(MaskSource))):
            if value not in choices:
                raise ValueError(f"{self.id}: {option} is {value!r}, expected one of {', '.join(choices)}")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise ValueError(f"{self.id}: kwargs is {kwargs!r}, expected the env's own options by name")
        self._api, self._kwargs, self._mask_source = api, dict(kwargs or {}), mask
        self._fresh = fresh
        first = self.fresh_env()
        self._authors = (type(first.unwrapped),)
        self.views = self._view(first)
        self.num_seats = len(self.views)
        self.observation_spaces = tuple(view.shows for view in self.views)
        self.action_spaces = tuple(view.takes for view in self.views)
        known = LOWEST_RETURN.get(_name(first), -1.0)
        self.loss_reward = known if loss_reward is None else float(loss_reward)
        if _name(first) in CHIPS:
            self.score_bounds = (self.loss_reward, -self.loss_reward)
        super().__init__(num_slots, step_limit=step_limit, threads=threads)
        if _text_mode(first) is None and takes_option(self.makers, api, "render_mode"):
            self._kwargs["render_mode"] = "ansi"
            first = self.fresh_env()
        self.renders = _text_mode(first) == "ansi"
        self._spare = [first]

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the env's own text. PettingZoo has none for single seats: every seat is shown everything."""
        return str(self.native(slot).render())

    def native(self, slot: int) -> Any:
        """Return the PettingZoo env."""
        return super().native(slot).env

    def _make(self) -> EnvMatch:
        try:
            env = self._spare.pop()
        except IndexError:
            env = self.fresh_env()
        return match_of(self, self.views, env)

    def _begin(self, match: EnvMatch, slot: int, seed: int) -> None:
        if self._fresh:
            match.env.close()
            match.env = self.fresh_env()
        match.begin(slot, seed)

    def _advance(self, match: EnvMatch, slot: int, seats: Sequence[int], actions: Sequence[Any]) -> None:
        match.advance(slot, seats, actions)

    def _refresh(self, match: EnvMatch, slot: int) -> None:
        match.refresh(slot)

    def fresh_env(self) -> Any:
        """Return a new env. Raise ValueError if it cannot be made."""
        try:  # without masks, the env itself must handle illegal moves
            return open_env(self.makers, self._api, self._kwargs, guarded=self._mask_source == "none")
        except ValueError as error:
            raise ValueError(f"{self.id}: {error}") from error

    def _discard(self, match: EnvMatch) -> None:
        match.env.close()

    def _view(self, env: Any) -> tuple[SeatView, ...]:
        agents = getattr(env, "possible_agents", ())
        if not agents:
            raise ValueError(f"{self.id}: the env names no possible_agents, which would be the seats")
        try:
            return tuple(
                view_seat(
                    agent, env.observation_space(agent), env.action_space(agent), self._mask_source, shows
                )
                for agent in agents
            )
        except ValueError as error:
            raise ValueError(f"{self.id}: {error}") from error


def _name(env: Any) -> str:
    return str(getattr(env, "metadata", {}).get("name"))


def _text_mode(env: Any) -> str | None:
    """Return "ansi" if the env renders text, `None` if it could with another mode, else another string."""
    if "ansi" not in getattr(env, "metadata", {}).get("render_modes", ()):
        return "never"
    return getattr(env, "render_mode", "ansi")
