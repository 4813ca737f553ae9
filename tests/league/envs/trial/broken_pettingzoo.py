"""Envs of PettingZoo's kinds, AEC and Parallel, and envs that break them in one way each."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from pettingzoo import AECEnv, ParallelEnv

AGENTS = ["left", "right"]
GOAL = 6


class Turns(AECEnv):
    """Two agents count in turns; who reaches the goal wins."""

    metadata = {"name": "turns"}  # noqa: RUF012 - as PettingZoo's envs have it
    possible_agents = AGENTS

    def __init__(self):
        super().__init__()
        self.observation_spaces = {
            agent: Dict(
                {"observation": Box(0, GOAL, (1,), np.float32), "action_mask": Box(0, 1, (2,), np.int8)}
            )
            for agent in AGENTS
        }
        self.action_spaces = {agent: Discrete(2) for agent in AGENTS}

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def mask(self, agent):
        return np.ones(2, np.int8)

    def observe(self, agent):
        return {"observation": np.array([self.count], np.float32), "action_mask": self.mask(agent)}

    def reset(self, seed=None, options=None):
        self.count = 0
        self.agents = AGENTS[:]
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}
        self.agent_selection = AGENTS[0]

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self.count = min(self.count + int(action) + 1, GOAL)
        other = AGENTS[1 - AGENTS.index(agent)]
        self._clear_rewards()
        if self.count == GOAL:
            self.rewards = {agent: 1.0, other: -1.0}
            self.terminations = dict.fromkeys(AGENTS, True)
        self.agent_selection = other


class AecMaskTooWide(Turns):
    def mask(self, agent):
        return np.ones(3, np.int8)


class AecMaskIsEmpty(Turns):
    def mask(self, agent):
        return np.full(2, self.count < 3, np.int8)


class AecShowsTwo(Turns):
    def observe(self, agent):
        return {"observation": np.zeros(2, np.float32), "action_mask": self.mask(agent)}


class AecShowsNone(Turns):
    def observe(self, agent):
        return None


class AecObserveRaises(Turns):
    def observe(self, agent):
        return self.boards[agent]


class AecPaysNaN(Turns):
    def step(self, action):
        super().step(action)
        self.rewards["right"] = float("nan")


class AecPaysAStranger(Turns):
    def step(self, action):
        super().step(action)
        self.rewards = {"up": 1.0}


class AecWrongTurn(Turns):
    def step(self, action):
        super().step(action)
        self.agent_selection = "middle"


class AecResetWithoutSeed(Turns):
    def reset(self):
        super().reset()


class AecStepRaisesAtTheThird(Turns):
    def step(self, action):
        if self.count >= 2:
            raise ValueError("not this one")
        super().step(action)


class AecNobody(Turns):
    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.agents = []


class Together(ParallelEnv):
    """Two agents choose at once; the higher number wins, after three rounds."""

    metadata = {"name": "together"}  # noqa: RUF012
    possible_agents = AGENTS

    def observation_space(self, agent):
        return Box(0, 3, (1,), np.float32)

    def action_space(self, agent):
        return Discrete(3)

    def see(self):
        return {agent: np.array([self.round], np.float32) for agent in AGENTS}

    def reset(self, seed=None, options=None):
        self.round, self.agents = 0, AGENTS[:]
        return self.see(), {agent: {} for agent in AGENTS}

    def step(self, actions):
        self.round += 1
        lead = float(np.sign(actions["left"] - actions["right"]))
        over = self.round == 3
        done = dict.fromkeys(AGENTS, over)
        seen = self.see()
        if over:
            self.agents = []
        return (
            seen,
            {"left": lead, "right": -lead},
            done,
            dict.fromkeys(AGENTS, False),
            {a: {} for a in AGENTS},
        )


class AecPaysArrays(Turns):
    def step(self, action):
        super().step(action)
        self.rewards = {agent: np.array([reward]) for agent, reward in self.rewards.items()}


class PaysArrays(Together):
    def step(self, actions):
        seen, rewards, *rest = super().step(actions)
        return seen, {agent: np.array([reward]) for agent, reward in rewards.items()}, *rest


class OldStep(Together):
    def step(self, actions):
        seen, rewards, done, _, infos = super().step(actions)
        return seen, rewards, done, infos


class ResetWithoutInfos(Together):
    def reset(self, seed=None, options=None):
        return super().reset(seed)[0]


class ResetRaises(Together):
    def reset(self, seed=None, options=None):
        raise OSError("no display")


class StepRaisesAtTheThird(Together):
    def step(self, actions):
        if self.round == 2:
            raise AssertionError("a rule was broken")
        return super().step(actions)


class PaysAList(Together):
    def step(self, actions):
        seen, rewards, *rest = super().step(actions)
        return seen, list(rewards.values()), *rest


class PaysNone(Together):
    def step(self, actions):
        seen, rewards, *rest = super().step(actions)
        return seen, dict.fromkeys(rewards), *rest


class ShowsOneAgent(Together):
    def see(self):
        return {"left": np.zeros(1, np.float32)}


class ShowsText(Together):
    def see(self):
        return dict.fromkeys(AGENTS, "rock")


class TogetherTwice(Together):
    """Each names two numbers; the second one counts, and gymnasium's own mask forbids the first 0."""

    def action_space(self, agent):
        return SPACE

    def reset(self, seed=None, options=None):
        return super().reset(seed)[0], {agent: {"action_mask": MASK} for agent in AGENTS}

    def step(self, actions):
        assert all(action[0] == 1 for action in actions.values())
        told = super().step({agent: int(action[1]) for agent, action in actions.items()})
        return *told[:-1], {agent: {"action_mask": MASK} for agent in AGENTS}


SPACE, MASK = MultiDiscrete([2, 3]), (np.array([0, 1], np.int8), np.ones(3, np.int8))

FAULTS = {
    AecMaskTooWide: "seat 0: its mask is shaped (3,), expected (2,)",
    AecMaskIsEmpty: "it must act, and its mask has no legal action",
    AecShowsTwo: "seat 0: its observation 'observation' is shaped (2,), expected (1,)",
    AecShowsNone: "seat 0: its observation is None, expected a dict of ['action_mask', 'observation']",
    AecObserveRaises: "seat 0: AttributeError: 'AecObserveRaises' object has no attribute 'boards'",
    AecPaysNaN: "seat 1: its reward is nan, expected a finite number",
    AecPaysAStranger: "the dict of rewards has agent 'up', expected some of left, right",
    AecWrongTurn: "agent_selection is 'middle', expected one of ['left', 'right']",
    AecResetWithoutSeed: "TypeError: AecResetWithoutSeed.reset() got an unexpected keyword argument 'seed'",
    AecStepRaisesAtTheThird: "ValueError: not this one, in its step",
    AecNobody: "the env has no agents after its reset",
    OldStep: "step returned 4 values, as older envs did, expected 5",
    ResetWithoutInfos: "expected two dicts: observations and infos",
    ResetRaises: "OSError: no display, in its reset",
    StepRaisesAtTheThird: "seats 0, 1: AssertionError: a rule was broken, in its step",
    PaysAList: "as rewards, expected a dict by agent",
    PaysNone: "seat 0: its reward is None, expected a number",
    ShowsOneAgent: "seat 1: reset returned no observation of 'right'",
    ShowsText: "seat 0: its observation is 'rock', expected numbers shaped (1,)",
}
