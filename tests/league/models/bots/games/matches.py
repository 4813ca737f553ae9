"""Matches of bots against one another, without the machinery of a league."""

import numpy as np

from league.envs import registry


def play(env_id, bots, num_matches, seed=0):
    """Returns [num_matches, S] of matches between the bots, seat by seat."""
    game, rng = registry.make(env_id, num_matches), np.random.default_rng(seed)
    game.reset(np.arange(num_matches), np.arange(num_matches))
    returns = np.zeros((num_matches, game.num_seats))
    while game.active.any():
        (block,) = game.due()
        actions = np.zeros(len(block), np.int64)
        for seat, bot in enumerate(bots):
            rows = block.seat == seat
            if rows.any():
                actions[rows], _ = bot.act(block.observation[rows], block.mask[rows], rng)
        transition = game.step([actions])
        assert not transition.forfeited.any()
        returns += transition.rewards
    return returns
