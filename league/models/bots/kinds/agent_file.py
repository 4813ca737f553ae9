"""An agent that `league export --to onnx` has written, as a bot: memory, draw and all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec
from league.models.actor import Actor, Chosen, Look
from league.models.bots.base import BadChoice, UnknownBot, choices, on_one_line
from league.models.portable.interface import CARD, noise_of

OWN_INPUTS = {"observation", "noise"}  # that every such file has
_LARGEST_STATE = 2**24

Run = Callable[[Mapping[str, npt.NDArray]], dict[str, npt.NDArray]]


class AgentFileBot(Actor):
    """Bot that gives a file its noise and its state, and takes the actions that it draws.

    Raise BadChoice for an error of the file, and for outputs that are no actions.
    """

    def __init__(
        self, where: str, run: Run, action: ActionSpec, greedy: bool, size: int, temperatures: list[float]
    ) -> None:
        """`where`: its name in messages. `size` of a row of state; `temperatures` of its members."""
        self._where, self._run, self._action, self._greedy = where, run, action, greedy
        self._temperatures = np.array(temperatures, dtype=np.float32)
        self.memory_size = size
        self.wants_reward = True

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        n = len(look)
        temperature = 0.0 if self._greedy else temperature
        zeros = np.zeros((n, self.memory_size), dtype=np.float32)
        memory = zeros if look.memory is None else look.memory
        noise = noise_of(self._action, n, rng) * np.float32(temperature)
        given = {
            "observation": look.observation,
            "mask": look.mask,
            "noise": noise,
            "state": memory.copy(),
            "reward": np.zeros(n, dtype=np.float32) if look.reward is None else look.reward,
            "draw": rng.random(n, dtype=np.float32),
        }
        try:
            found = self._run(given)
            action = self._checked(found["action"], n)
        except BadChoice:
            raise
        except Exception as error:  # onnxruntime has many classes of errors, all below Exception
            raise BadChoice(
                f"{self._where}: of observations {list(look.observation.shape)} it raised "
                f"{on_one_line(error)}"
            ) from error
        begins = memory[:, 0] == 0.0 if self._mixed else np.zeros(n, dtype=np.bool_)
        if self.memory_size:
            memory[:] = found["next_state"]
        who = memory[:, 0].astype(np.int64) - 1 if self._mixed else np.zeros(n, dtype=np.int64)
        at = self._temperatures[np.clip(who, 0, len(self._temperatures) - 1)] * np.float32(temperature)
        log_prob = self._log_prob(found, action, at)
        certain = ((at == 0.0) | (log_prob == 0.0) & (self._action.kind != "continuous")) & ~begins
        return Chosen(action, log_prob, look.observation, action, certain)

    @property
    def _mixed(self) -> bool:
        return len(self._temperatures) > 1

    def _checked(self, action: npt.NDArray, n: int) -> npt.NDArray:
        expected, dtype = (n, *self._action.shape), np.dtype(self._action.dtype)
        if action.shape != expected or action.dtype != dtype or np.isnan(action).any():
            raise BadChoice(
                f"{self._where}: its actions are {list(action.shape)} of {action.dtype}, expected "
                f"{list(expected)} of {dtype}, without NaN; is it of another game?"
            )
        return action

    def _log_prob(
        self, found: Mapping[str, npt.NDArray], action: npt.NDArray, at: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return log-probabilities [n] at temperatures `at` [n]; at 0 those at 1. Zeros for real numbers."""
        log_prob = np.zeros(len(action), dtype=np.float32)
        if self._action.kind == "continuous":
            return log_prob
        logits = found["logits"] / np.where(at == 0.0, np.float32(1.0), at)[:, None]
        taken = action.reshape(len(action), -1)
        for choice, (start, end) in enumerate(choices(self._action)):
            part = logits[:, start:end]
            part = part - part.max(axis=1, keepdims=True)
            own = part[np.arange(len(part)), taken[:, choice]]
            log_prob += own - np.log(np.exp(part).sum(axis=1))
        return log_prob


def agent_file_bot(where: str, session: Any, run: Run, action: ActionSpec, greedy: bool) -> AgentFileBot:
    """Return the bot of an open file. Raise UnknownBot for a state of no fixed size."""
    shapes = {given.name: given.shape for given in session.get_inputs()}
    size = shapes["state"][1] if len(shapes.get("state", ())) == 2 else 0
    if "state" in shapes and not (isinstance(size, int) and 0 < size <= _LARGEST_STATE):
        raise UnknownBot(f"{where}: its state is {shapes['state']}, expected [n, S] with a fixed S")
    card = session.get_modelmeta().custom_metadata_map.get(CARD, "")
    return AgentFileBot(where, run, action, greedy, size, _temperatures(where, card))


def _temperatures(where: str, card: str) -> list[float]:
    """Return the temperatures of the members of a file, by its card. Raise UnknownBot."""
    try:
        found = [float(one) for one in json.loads(card)["temperatures"]]
        if found and np.isfinite(found).all() and min(found) >= 0.0:
            return found
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    raise UnknownBot(f"{where}: it has no card '{CARD}' that can be read; write it by: league export")
