"""Bots for games with many equal rounds: rock_paper_scissors, and recall, which needs memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from league.models.actor import Actor, Chosen, Look
from league.models.bots.base import ScriptedPolicy, uniform


class Always(ScriptedPolicy):
    """Bot that always takes the same action."""

    def __init__(self, action: int) -> None:
        self._action = action

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return np.tile(np.arange(mask.shape[1]) == self._action, (len(mask), 1))


class BeatLast(ScriptedPolicy):
    """Bot for rock_paper_scissors that beats the opponent's previous action; random in the first round."""

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        theirs = observation[:, :3] > 0
        beats = np.roll(theirs, 1, axis=1)  # each action is beaten by the next
        return np.where(theirs.any(axis=1, keepdims=True), beats, mask)


class PerfectRecall(Actor):
    """Bot for recall that remembers the cue, and names it at every step."""

    memory_size = 1  # the cue that was shown, counted from 1; 0: none yet

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        memory = np.zeros((len(look), 1), dtype=np.float32) if look.memory is None else look.memory
        cues = look.observation[:, :-1]
        shown = cues.any(axis=1)
        memory[shown, 0] = cues[shown].argmax(axis=1) + 1
        known = memory == np.arange(1, look.mask.shape[1] + 1)
        action, log_prob = uniform(np.where(known.any(axis=1, keepdims=True), known, look.mask), rng)
        return Chosen(action, log_prob, look.observation, action, log_prob == 0.0)
