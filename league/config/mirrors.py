"""Mirrors: check that a game has the symmetry that a policy assumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs import registry

MATCHES = 8  # played at random, each beside its mirror image
MOST_STEPS = 200  # of these matches


def is_mirrored(
    env_id: str,
    options: Mapping[str, Any],
    observation_order: npt.NDArray[np.int64],
    action_order: npt.NDArray[np.int64],
) -> bool:
    """Return whether mirrored moves lead to mirrored positions with equal rewards, in a few random matches.

    `observation_order` [size]: order of an observation's numbers in its mirror image; `action_order` [A]:
    mirror image of each action. Both matches have one seed, so games of chance have no mirror unless their
    chance is mirrored too.
    """
    game = registry.make(env_id, 2 * MATCHES, **options)
    rng = np.random.default_rng(0)
    game.reset(np.arange(2 * MATCHES), np.tile(np.arange(MATCHES), 2))  # the second half are the images
    for _ in range(MOST_STEPS):
        if not game.active.any():
            break
        actions = []
        for block in game.due():
            order = np.lexsort((block.seat, block.slot))
            rows, images = order[block.slot[order] < MATCHES], order[block.slot[order] >= MATCHES]
            seen = block.observation.reshape(len(block), -1)
            if not (
                np.array_equal(block.slot[rows] + MATCHES, block.slot[images])
                and np.array_equal(block.seat[rows], block.seat[images])
                and np.array_equal(seen[rows][:, observation_order], seen[images])
                and np.array_equal(block.mask[rows][:, action_order], block.mask[images])
            ):
                return False
            action = np.zeros(len(block), dtype=np.int64)
            action[rows] = np.where(block.mask[rows], rng.random(block.mask[rows].shape), -1.0).argmax(axis=1)
            action[images] = action_order[action[rows]]
            actions.append(action)
        rewards = game.step(actions).rewards
        if not (
            np.array_equal(rewards[:MATCHES], rewards[MATCHES:])
            and np.array_equal(game.active[:MATCHES], game.active[MATCHES:])
        ):
            return False
    return True
