"""An env of gymnasium's kind, and envs that break it in one way each."""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete


class Walk(gymnasium.Env):
    """Walks left or right until it is three places away."""

    observation_space = Box(-3, 3, (1,), np.float32)
    action_space = Discrete(2)

    def see(self):
        return np.array([self.at], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = 0, 0
        return self.see(), {}

    def step(self, action):
        self.at += 2 * action - 1
        self.steps += 1
        over = abs(self.at) == 3
        return self.see(), float(self.at > 0) if over else 0.0, over, False, {}


class Steps(Walk):
    """Walks a step or two at a time, with gymnasium's own mask: no second step back."""

    action_space = MultiDiscrete([2, 2])
    mask = (np.ones(2, np.int8), np.array([0, 1], np.int8))

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"action_mask": self.mask}

    def step(self, action):
        assert action[1] == 1
        return *super().step(action[0])[:-1], {"action_mask": self.mask}


class PaysAnArray(Walk):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward]), *rest


class MaskOfAnotherForm(Steps):
    mask = (np.ones(3, np.int8), np.ones(2, np.int8))


class OldStep(Walk):
    def step(self, action):
        observation, reward, over, _, info = super().step(action)
        return observation, reward, over, info


class StepOfObservation(Walk):
    def step(self, action):
        return super().step(action)[0]


class ResetWithoutInfo(Walk):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class ResetWithNone(Walk):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], None


class ResetWithoutSeed(Walk):
    def reset(self):
        return super().reset()


class StepRaises(Walk):
    def step(self, action):
        return self.table[action]


class StepRaisesAtTheThird(Walk):
    def step(self, action):
        if self.steps == 2:
            raise RuntimeError("the simulator is gone")
        return super().step(action)


class MadeOnce(Walk):
    made = 0

    def __init__(self):
        MadeOnce.made += 1
        if MadeOnce.made > 1:
            raise OSError("the port is in use")


class CloseRaises(Walk):
    def close(self):
        raise RuntimeError("no window")


class StepExits(Walk):
    def step(self, action):
        sys.exit(0)


class PaysNaN(Walk):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class PaysAList(Walk):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, [reward, -reward], *rest


class ShowsTwo(Walk):
    def see(self):
        return np.array([self.at, 0], np.float32)


class ShowsOutside(Walk):
    def see(self):
        return np.array([self.at * 50], np.float32)


class ShowsNaN(Walk):
    def see(self):
        return np.array([np.nan], np.float32)


class ShowsNone(Walk):
    def see(self):
        return None


class ShowsFractions(Walk):
    observation_space = Box(-3, 3, (1,), np.int8)

    def see(self):
        return np.array([self.at / 2], np.float32)


class EndsWithText(Walk):
    def step(self, action):
        observation, reward, over, cut, info = super().step(action)
        return observation, reward, "done" if over else "", cut, info


class NeverEnds(Walk):
    def step(self, action):
        _, _, _, _, info = super().step(action)
        self.at = int(np.clip(self.at, -2, 2))
        return self.see(), 0.0, False, False, info


FAULTS = {
    MaskOfAnotherForm: "its mask is a tuple, expected what sample(mask) of MultiDiscrete([2 2]) takes, or (4",
    OldStep: "seat 0: step returned 4 values, as envs of gym did, expected 5",
    StepOfObservation: "seat 0: step returned array([",
    ResetWithoutInfo: "seat 0: reset returned array([0.], dtype=float32) alone, expected an observation",
    ResetWithNone: "seat 0: reset returned None as info",
    ResetWithoutSeed: "seat 0: TypeError: ResetWithoutSeed.reset() got an unexpected keyword argument 'seed'",
    StepRaises: "seat 0: AttributeError: 'StepRaises' object has no attribute 'table', in its step",
    StepRaisesAtTheThird: "seat 0: RuntimeError: the simulator is gone, in its step",
    MadeOnce: "failed: OSError: the port is in use, in one of several envs",
    CloseRaises: "RuntimeError: no window, in one of several envs",
    StepExits: "seat 0: SystemExit: 0, in its step",
    PaysNaN: "seat 0: its reward is nan, expected a finite number",
    PaysAList: "seat 0: its reward is [0.0, -0.0], expected a number",
    ShowsTwo: "seat 0: the observation of its reset is shaped (2,), expected (1,)",
    ShowsOutside: "outside of its space, which goes from -3 to 3",
    ShowsNaN: "seat 0: the observation of its reset holds nan, expected numbers",
    ShowsNone: "seat 0: the observation of its reset is None, expected numbers shaped (1,)",
    ShowsFractions: "seat 0: the observation of its reset is float32, expected int8",
    EndsWithText: "seat 0: step returned '' as terminated, expected True or False",
    NeverEnds: "no match ends: one goes on after 800 decisions",
}
