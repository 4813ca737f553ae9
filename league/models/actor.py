"""Actor: whatever can sit in a seat, be it a policy or a scripted bot. Needs no torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame


class Chosen(NamedTuple):
    """What was chosen for n decisions, for the game and for the learner's record."""

    action: npt.NDArray  # [n, *action.shape], as the game takes it
    log_prob: npt.NDArray[np.float32]  # [n], of `raw`
    seen: npt.NDArray  # [n, *spec.seen.shape], the observations as the network was shown them
    raw: npt.NDArray  # [n, *action.shape], as it was drawn; `action` itself unless actions are continuous


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
    def decide(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> Chosen:
        """Choose an action for each row; `greedy`: the likeliest instead of a draw.

        Observations [n, *shape], masks [n, mask_width], memory [n, memory_size], and [n] the
        reward of each seat since its last decision (none: zero).
        """

    def decide_at(
        self,
        game: BatchedGame,
        slot: npt.NDArray[np.int64],
        seat: npt.NDArray[np.int64],
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
    ) -> Chosen:
        """`decide` for these seats [n] of the matches in these slots [n] of `game`, which stays as it is."""
        return self.decide(observation, mask, rng, greedy)

    def act(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> tuple[npt.NDArray, npt.NDArray[np.float32]]:
        """`decide`, for those who only play: the actions for the game, and their log-probabilities."""
        chosen = self.decide(observation, mask, rng, greedy, memory, reward)
        return chosen.action, chosen.log_prob

    def see(
        self,
        observation: npt.NDArray,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> npt.NDArray:
        """What `decide` would show its network, without deciding. Leaves `memory` as it is."""
        return observation
