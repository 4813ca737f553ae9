"""Random play of a batched game beside a slow reference, which says what should have happened.

A reference is one match in plain Python: `mover()`, `observation(seat)`, `mask()`, and `play(action)`,
which gives (rewards of all seats, whether the match is over).
"""

import numpy as np
import pytest


def play_beside(game, reference, num_matches, seed=0):
    """Play `num_matches` at random; every observation, mask, reward and end must be the reference's."""
    rng = np.random.default_rng(seed)
    slots = np.arange(game.num_slots)
    game.reset(slots, slots)
    matches = {int(s): reference(game, int(s), int(s)) for s in slots}
    started, ended = game.num_slots, 0
    while ended < num_matches:
        (block,) = game.due()
        assert block.slot.tolist() == sorted(matches)
        actions = (rng.random(block.mask.shape) * block.mask).argmax(axis=1)
        expected = {}
        for row, slot in enumerate(block.slot.tolist()):
            match = matches[slot]
            assert block.seat[row] == match.mover()
            assert block.mask[row].tolist() == match.mask()
            for seat in range(game.num_seats):
                seen = game.observe(np.array([slot]), np.array([seat]))
                assert seen[0].tolist() == match.observation(seat)
            assert block.observation[row].tolist() == match.observation(match.mover())
            expected[slot] = match.play(int(actions[row]))
        transition = game.step([actions])
        assert transition.ended.tolist() == [slot for slot, (_, over) in expected.items() if over]
        for slot, (rewards, _) in expected.items():
            assert transition.rewards[slot].tolist() == rewards
        for slot in transition.ended.tolist():
            game.reset(np.array([slot]), np.array([started]))
            matches[slot] = reference(game, slot, started)
            started += 1
            ended += 1


@pytest.fixture
def beside():
    return play_beside


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
