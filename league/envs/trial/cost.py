"""Cost of play: seconds, decisions and steps of a game's matches, measured before anything trains."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from league.envs.base import BatchedGame
from league.envs.slots import SlotGame
from league.envs.trial.matches import random_legal

SECONDS, MOST_SECONDS = 0.25, 1.0  # of play: the most if too few matches have ended before
SLOTS, BATCHED_SLOTS = 4, 256  # of a game that steps matches one by one, and of one that steps all at once


class Cost(NamedTuple):
    """What random play costs. In a step of a match each seat whose turn it is decides once."""

    step_seconds: float  # of a step of one match
    decisions: float  # in such a step
    match_steps: float | None  # of a whole match; `None`: no match ended


def steps_of(game: BatchedGame, longest: int) -> float:
    """Return the steps of a match: the mean of one in each slot, cut at `longest`; the same each time."""
    rng, slots = np.random.default_rng(0), np.arange(game.num_slots)
    game.reset(slots, slots)
    length = np.zeros(game.num_slots, np.int64)
    for _ in range(longest):
        blocks = game.due()
        if not blocks:
            break
        length[np.unique(np.concatenate([block.slot for block in blocks]))] += 1
        game.step([random_legal(game, block, rng) for block in blocks])
    return float(length.mean())


def cost_of(make: Callable[[int], BatchedGame]) -> Cost:
    """Return what matches of the game cost that `make(num_slots)` returns; it must be sound."""
    game = make(1)
    game = make(SLOTS if isinstance(game, SlotGame) else BATCHED_SLOTS)
    rng, slots = np.random.default_rng(0), np.arange(game.num_slots)
    game.reset(slots, slots)
    steps = decisions = ended = 0
    seed, spent, began = game.num_slots, 0.0, time.perf_counter()
    while spent < SECONDS or (ended < game.num_slots and spent < MOST_SECONDS):
        blocks = game.due()
        steps += np.unique(np.concatenate([np.zeros(0, np.int64), *(b.slot for b in blocks)])).size
        decisions += sum(map(len, blocks))
        over = game.step([random_legal(game, block, rng) for block in blocks]).ended.copy()
        ended += len(over)
        if len(over):
            game.reset(over, seed + np.arange(len(over)))
            seed += len(over)
        spent = time.perf_counter() - began
    return Cost(spent / max(1, steps), decisions / max(1, steps), steps / ended if ended else None)
