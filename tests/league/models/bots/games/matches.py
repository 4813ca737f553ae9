"""Matches of bots against one another, without the machinery of a league."""

import numpy as np

from league.envs import registry
from league.models.actor import Look


def play(env_id, bots, num_matches, seed=0):
    """Returns [num_matches, S] of matches between the bots, seat by seat."""
    return played(env_id, bots, num_matches, seed)[0]


def played(env_id, bots, num_matches, seed=0):
    """The same, and all actions in order."""
    game, rng = registry.make(env_id, num_matches), np.random.default_rng(seed)
    game.reset(np.arange(num_matches), np.arange(num_matches))
    returns, taken = np.zeros((num_matches, game.num_seats)), []
    while game.active.any():
        (block,) = game.due()
        actions = np.zeros(len(block), np.int64)
        for seat, bot in enumerate(bots):
            rows = block.seat == seat
            if rows.any():
                look = Look(block.observation[rows], block.mask[rows])
                actions[rows] = bot.decide_at(game, block.slot[rows], block.seat[rows], look, rng).action
        taken += actions.tolist()
        transition = game.step([actions])
        assert not transition.forfeited.any()
        returns += transition.rewards
    return returns, taken
