"""Common parts of scripted bots, and the bot that plays every game: random."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec
from league.models.actor import Actor, Chosen, Look, is_certain
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.errors import Mistake
from storage.incidents import SILENT

SMALLEST_NOISE = 1e-30  # an exponential draw may be exactly 0
# seconds that code and processes that are not ours have for a decision without a limit, and for those that a
# function makes at once: alone each has as long
PATIENCE = 120.0


class UnknownBot(Mistake, ValueError):
    """There is no bot with this name or import path, or it cannot play the game."""


class ScriptedPolicy(Actor):
    """Bot that chooses uniformly among preferred actions. For games in which an action is one choice."""

    @abstractmethod
    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        """Return the preferred legal actions, at least one in each row: [n, num_actions]."""

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Draw an action for each row. `temperature` has no effect: all preferred actions are equal."""
        action, log_prob = uniform(self.preferred(look.observation, look.mask), rng)
        return Chosen(action, log_prob, look.observation, action, log_prob == 0.0)


class MixedPolicy(Actor):
    """Bot that draws from known probabilities. For games in which an action is one choice."""

    @abstractmethod
    def probabilities(self, observation: npt.NDArray, mask: Bools) -> Floats32:
        """Return the probabilities of all actions: [n, num_actions], each row sums to 1."""

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        action, log_prob = drawn(self.probabilities(look.observation, look.mask), rng, temperature)
        return Chosen(action, log_prob, look.observation, action, is_certain(log_prob, temperature))


class RandomBot(ScriptedPolicy):
    """Bot that draws any legal action uniformly. `action`: its kind; `None`: one choice."""

    action: ActionSpec | None = None

    def __init__(self, action: ActionSpec | None = None) -> None:
        self.action = action

    def preferred(self, observation: npt.NDArray, mask: Bools) -> Bools:
        return mask

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        spec = self.action
        if spec is None or spec.kind == "discrete":
            return super().decide(look, rng)
        n = len(look)
        log_prob, chosen = np.zeros(n, dtype=np.float32), np.zeros((n, len(spec.sizes)), dtype=np.int64)
        for factor, (start, end) in enumerate(spec.columns):
            chosen[:, factor], of_factor = uniform(look.mask[:, start:end], rng)
            log_prob += of_factor
        numbers, log_density = spec.numbers_at(rng.random((n, len(spec.low))))
        action, log_prob = spec.joined(chosen, numbers), log_prob + log_density.astype(np.float32)
        return Chosen(action, log_prob, look.observation, action, (log_prob == 0.0) & (not spec.low))


def uniform(allowed: Bools, rng: np.random.Generator) -> tuple[Indices, Floats32]:
    """Draw one column of each row of `allowed` [n, A]; return it [n] with its log-probability [n]."""
    noise = rng.random(allowed.shape, dtype=np.float32)
    action = np.where(allowed, noise, np.float32(-1)).argmax(axis=1)
    return action, -np.log(allowed.sum(axis=1)).astype(np.float32)


def drawn(probability: Floats32, rng: np.random.Generator, temperature: float) -> tuple[Indices, Floats32]:
    """Draw an action of each row of `probability` [n, A], at `temperature` as in `Actor.decide`.

    Return actions [n] and log-probabilities [n] at this temperature; at temperature 0, those at 1.
    The largest of p / Exponential(1) is a draw from p (the Gumbel-max trick, exponentiated).
    """
    lot = probability
    if temperature not in (0.0, 1.0):
        # divided by the largest first: otherwise all powers could become 0 at a low temperature
        odds = (probability / probability.max(axis=1, keepdims=True)) ** np.float32(1.0 / temperature)
        lot = probability = odds / odds.sum(axis=1, keepdims=True)
    if temperature != 0.0:
        lot = probability / (rng.standard_exponential(probability.shape, dtype=np.float32) + SMALLEST_NOISE)
    action = lot.argmax(axis=1)
    return action, np.log(np.take_along_axis(probability, action[:, None], axis=1)[:, 0])


def on_one_line(error: BaseException) -> str:
    """Return the error of a library as text on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def waited_for(look: Look) -> Floats:
    """Return the seconds [n] after which each decision has failed: those that are left, or PATIENCE."""
    left = np.full(len(look), np.inf) if look.seconds is None else look.seconds
    return np.where(left < np.inf, left, PATIENCE)


def silent(look: Look) -> str:
    """Return what a bot did that did not answer in these seconds."""
    if look.seconds is not None and bool((look.seconds < np.inf).all()):
        return f"{SILENT} in time"
    return f"{SILENT} for {PATIENCE:g} s, and `limits: {{move_seconds: ...}}` gives it more or less"
