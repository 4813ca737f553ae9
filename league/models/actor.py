"""Actor: whatever can sit in a seat, be it a policy or a scripted bot. Needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame


@dataclass(frozen=True, slots=True)
class Look:
    """Everything that an actor sees at n decisions, one row for each."""

    observation: npt.NDArray  # [n, *shape], as the game shows it
    mask: npt.NDArray[np.bool_]  # [n, mask_width], the legal actions
    memory: npt.NDArray[np.float32] | None = None  # [n, memory_size], written in place; None: all zeros
    reward: npt.NDArray[np.float32] | None = None  # [n], since the seat's last decision; None: all zeros

    def __len__(self) -> int:
        return len(self.observation)


class Chosen(NamedTuple):
    """What was chosen for n decisions, for the game and for the learner's record."""

    action: npt.NDArray  # [n, *action.shape], as the game takes it
    log_prob: npt.NDArray[np.float32]  # [n], of `raw`
    seen: npt.NDArray  # [n, *spec.seen.shape], the observations as the network was shown them
    raw: npt.NDArray  # [n, *action.shape], as it was drawn; `action` itself unless actions are continuous
    certain: npt.NDArray[np.bool_] | None = None  # [n], it could have been no other; None: nobody can tell


def is_certain(log_prob: npt.NDArray[np.float32], temperature: float) -> npt.NDArray[np.bool_]:
    """[n]: which choices, made at `temperature` and of these log-probabilities [n], could have been no other.

    Choices of real numbers have densities, of which 1 is no certainty.
    """
    return (log_prob == 0.0) | (temperature == 0.0)


class Actor(ABC):
    """Chooses actions for many seats at once.

    What it must remember of a seat between two decisions is a row of `memory`, kept by whoever
    plays: zeros when a match begins, handed over at each decision, written in place. Without
    `memory` all rows are of matches that begin.
    """

    memory_size: int = 0  # floats that it keeps per seat; 0: none
    wants_reward: bool = False  # whether `reward` makes a difference to it
    wants_game: bool = False  # whether it searches in the match itself, so that `decide_at` must be asked

    @abstractmethod
    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Choose an action for each row, by a draw at `temperature`.

        1: as the actor would have it; T: of its probabilities to the power of 1 / T, of its standard
        deviations times T; 0: no draw, but the likeliest action (of several the first), or the mean.
        An actor without probabilities acts the same at every temperature.

        Observations [n, *shape], masks [n, mask_width], memory [n, memory_size], and [n] the
        reward of each seat since its last decision (none: zero).
        """

    def decide_at(
        self,
        game: BatchedGame,
        slot: npt.NDArray[np.int64],
        seat: npt.NDArray[np.int64],
        look: Look,
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> Chosen:
        """`decide` for these seats [n] of the matches in these slots [n] of `game`, which stays as it is."""
        return self.decide(look, rng, temperature)

    def act(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
        temperature: float = 1.0,
    ) -> tuple[npt.NDArray, npt.NDArray[np.float32]]:
        """`decide`, for those who only play: the actions for the game, and their log-probabilities.

        `greedy`: the likeliest instead of a draw, whatever the temperature.
        """
        look = Look(observation, mask, memory, reward)
        chosen = self.decide(look, rng, 0.0 if greedy else temperature)
        return chosen.action, chosen.log_prob

    def see(
        self,
        observation: npt.NDArray,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray:
        """What `decide` would show its network, without deciding. Leaves `memory` as it is."""
        return observation
