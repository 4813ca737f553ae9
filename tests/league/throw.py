"""A game of gymnasium's kind for tests: choices and real numbers at once, with gymnasium's own masks."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

ID = "gymnasium:tests.league.throw:Throw-v0"


class Throw(gymnasium.Env):
    """Take the club that is shown and aim at its place, -1, 0 or 1; the club before it is forbidden."""

    def __init__(self, mask="info"):
        self.action_space = Dict(
            {
                "aim": Box(-np.inf, np.inf, (1,), np.float32),
                "how": Tuple((Discrete(3), MultiDiscrete([2, 2]))),
                "power": Box(0.0, 1.0, (1,), np.float64),
                "spin": Box(-1, 1, (1,), np.int64),
            }
        )
        self.mask = mask
        seen = Box(0.0, 1.0, (3,), np.float32)
        legal = Box(0, 1, (10,), np.int8)
        self.observation_space = Dict({"club": seen, "action_mask": legal}) if mask == "observation" else seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.club, self.turn = int(self.np_random.integers(3)), 0
        return self._shown()

    def step(self, action):
        assert self.action_space.contains(action)
        club, twice = action["how"]
        assert club != (self.club - 1) % 3, "a forbidden club"
        assert twice[0] == 1, "a forbidden choice"
        gain = (club == self.club) - min(1.0, abs(float(action["aim"][0]) - (self.club - 1)))
        self.club, self.turn = int(self.np_random.integers(3)), self.turn + 1
        return *self._shown()[:1], float(gain), self.turn == 2, False, self._shown()[1]

    def _shown(self):
        seen = np.eye(3, dtype=np.float32)[self.club]
        clubs = np.ones(3, np.int8)
        clubs[(self.club - 1) % 3] = 0
        if self.mask == "observation":
            row = np.concatenate([clubs, [0, 1, 1, 1, 1, 1, 1]]).astype(np.int8)
            return {"club": seen, "action_mask": row}, {}
        parts = {"aim": None, "how": (clubs, (np.array([0, 1], np.int8), np.ones(2, np.int8))), "power": None}
        return seen, {"action_mask": parts}


gymnasium.register("Throw-v0", entry_point=Throw)


def dull(observation, mask, rng):
    """Bot: the first legal choices, and numbers in the middle."""
    rows = np.zeros((len(mask), 6), np.float32)
    rows[:, 0], rows[:, 1] = mask[:, :3].argmax(axis=1), 1.0
    return rows
