"""Actor: the interface of everything that plays a seat, policies and scripted bots. Needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.errors import Mistake
from storage.records import EndReason


@dataclass(frozen=True, slots=True)
class Places:
    """Where n decisions are taken: the match of each and its seat."""

    game: BatchedGame
    slot: Indices  # [n]
    seat: Indices  # [n]

    def __getitem__(self, rows: slice | Indices) -> Places:
        return Places(self.game, self.slot[rows], self.seat[rows])


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that an actor sees at n decisions, one row for each."""

    observation: npt.NDArray  # [n, *shape], as the game shows it
    mask: Bools  # [n, mask_width], the legal actions
    memory: Floats32 | None = None  # [n, memory_size], written in place; None: all zeros
    reward: Floats32 | None = None  # [n], since the seat's last decision; None: all zeros
    seconds: Floats | None = None  # [n], that are left for the decision; None: no limit
    places: Places | None = None  # [n]; None: the matches are unknown
    settled: Bools | None = None  # [n], whose actions others choose; None: of none

    def __len__(self) -> int:
        return len(self.observation)

    def row(self, number: int) -> Look:
        """Return one row alone; its memory is this one's."""
        own = slice(number, number + 1)
        more = (self.memory, self.reward, self.seconds, self.places, self.settled)
        parts = (None if part is None else part[own] for part in more)
        return Look(self.observation[own], self.mask[own], *parts)  # type: ignore[arg-type]  # in order


class Failed(NamedTuple):
    """Why a decision was not made: its seat forfeits."""

    reason: EndReason  # one of FORFEITS
    cause: str  # one sentence


class BadChoice(Mistake, ValueError):
    """A bot raised an error, or gave something other than actions, or nothing.

    `reason` is one of FORFEITS. `costly`: to ask once more is, as its process has ended.
    """

    def __init__(self, cause: str, reason: EndReason = EndReason.ERROR, costly: bool = False) -> None:
        super().__init__(cause)
        self.failed, self.costly = Failed(reason, cause), costly


class Chosen(NamedTuple):
    """Actions chosen for n decisions, for the game and for the learner."""

    action: npt.NDArray  # [n, *action.shape], as the game takes it
    log_prob: Floats32  # [n], log-probability of `raw`
    seen: npt.NDArray  # [n, *spec.seen.shape], the observations after the connectors
    raw: npt.NDArray  # [n, *action.shape], the raw draw; equal to `action` unless actions are continuous
    certain: Bools | None = None  # [n], probability 1; `None`: unknown
    failed: Mapping[int, Failed] = MappingProxyType({})  # by row; the actions of these rows are not legal
    seconds: Floats | None = None  # [n], that each decision took; `None`: not measured


def is_certain(log_prob: Floats32, temperature: float) -> Bools:
    """Return which choices [n], made at `temperature` with `log_prob` [n], were certain.

    Does not apply to continuous actions, where a density of 1 does not mean certainty.
    """
    return (log_prob == 0.0) | (temperature == 0.0)


class Actor(ABC):
    """Choose actions for many seats at once.

    An actor has no state of its own. Its memory of a seat is a row of `Look.memory`, which the caller
    keeps: zeros when a match begins, passed with each decision, and written in place.
    """

    memory_size: int = 0  # floats of memory per seat
    wants_reward: bool = False  # whether `Look.reward` is used
    wants_game: bool = False  # whether it searches in the match itself: `Look.places`
    wants_end: bool = False  # whether `over` is to be called
    most_matches: int | None = None  # that it can play side by side; None: any number

    @abstractmethod
    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Draw an action for each of the n rows of `look`, at `temperature`.

        Temperature 1: the actor's own probabilities. T: probabilities to the power of 1 / T, standard
        deviations times T. 0: no draw, but the likeliest action (the first of several), or the mean. An
        actor without probabilities acts the same at every temperature. One that needs `look.places` raises
        Mistake without them.
        """

    def decide_at(
        self,
        game: BatchedGame,
        slot: Indices,
        seat: Indices,
        look: Look,
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> Chosen:
        """Decide for n seats of the matches in n slots of `game`, which is not changed."""
        return self.decide(replace(look, places=Places(game, slot, seat)), rng, temperature)

    def over(  # noqa: B027  # most need not know
        self, memory: Floats32, seat: Indices, score: Floats, reason: npt.NDArray[np.int8]
    ) -> None:
        """Note the ends of n matches in which it sat in these seats [n], with `memory` [n, memory_size].

        `score` [n, num_seats], `reason` [n]: values of EndReason.
        """

    def act(
        self,
        observation: npt.NDArray,
        mask: Bools,
        rng: np.random.Generator,
        greedy: bool = False,
        memory: Floats32 | None = None,
        reward: Floats32 | None = None,
        temperature: float = 1.0,
    ) -> tuple[npt.NDArray, Floats32]:
        """Return actions [n, *action.shape] for the game, and their log-probabilities [n].

        `observation` [n, *shape], `mask` [n, mask_width]; `memory` and `reward` as in `Look`. `greedy`: the
        likeliest actions, whatever the temperature. Raise BadChoice for a bot that fails.
        """
        look = Look(observation, mask, memory, reward)
        chosen = self.decide(look, rng, 0.0 if greedy else temperature)
        for failed in chosen.failed.values():
            raise BadChoice(failed.cause, failed.reason)
        return chosen.action, chosen.log_prob

    def see(
        self, observation: npt.NDArray, memory: Floats32 | None = None, reward: Floats32 | None = None
    ) -> npt.NDArray:
        """Return what `decide` would show its network [n, *spec.seen.shape]. Do not change `memory`."""
        return observation
