"""One line of actions in a batched game."""

import numpy as np
import pytest


@pytest.fixture
def play_line():
    """Play one line of actions in slot 0 and return the rewards of its last step, or None if it goes on."""

    def play(game, actions, seed=0):
        game.reset(np.array([0]), np.array([seed]))
        for number, action in enumerate(actions):
            game.due()
            transition = game.step([np.array([action])])
            if len(transition.ended):
                assert number == len(actions) - 1, f"the match ended after {number + 1} of {actions}"
                return transition.rewards[0].tolist()
        return None

    return play
