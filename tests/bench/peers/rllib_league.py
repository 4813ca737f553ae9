"""Connect Four in RLlib: one main, which learns, against frozen policies. Prints env steps per second.

Runs in a virtual environment of its own, without this project (`tests.bench.peers.rllib` makes it and
starts this): RLlib and the project want different versions of gymnasium.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

import gymnasium
import numpy as np
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv

COLUMNS, ROWS = 7, 6
SEATS = ["seat_0", "seat_1"]
DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


class ConnectFour(MultiAgentEnv):
    """Own stones, then the opponent's, 42 cells each. A full column stands for the next that is not, as
    RLlib's plain networks know no masks."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.possible_agents = self.agents = SEATS
        space = gymnasium.spaces.Box(0.0, 1.0, (2 * COLUMNS * ROWS,), np.float32)
        self.observation_spaces = dict.fromkeys(SEATS, space)
        self.action_spaces = dict.fromkeys(SEATS, gymnasium.spaces.Discrete(COLUMNS))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        self._stones = np.zeros((2, COLUMNS, ROWS), np.float32)
        self._height = [0] * COLUMNS
        self._mover = 0
        return {SEATS[0]: self._seen()}, {}

    def step(self, actions: dict) -> tuple[dict, dict, dict, dict, dict]:
        mover = self._mover
        column = int(actions[SEATS[mover]])
        while self._height[column] == ROWS:
            column = (column + 1) % COLUMNS
        row = self._height[column]
        self._height[column] += 1
        self._stones[mover, column, row] = 1.0
        won = self._wins(self._stones[mover], column, row)
        over = won or sum(self._height) == COLUMNS * ROWS
        self._mover = 1 - mover
        rewards = {SEATS[mover]: float(won), SEATS[1 - mover]: -float(won)}
        seen = {SEATS[self._mover]: self._seen()}
        return seen, rewards, {"__all__": over}, {"__all__": False}, {}

    def _seen(self) -> np.ndarray:
        return self._stones[[self._mover, 1 - self._mover]].reshape(-1)

    @staticmethod
    def _wins(stones: np.ndarray, column: int, row: int) -> bool:
        for right, up in DIRECTIONS:
            line = 1
            for sign in (1, -1):
                c, r = column + sign * right, row + sign * up
                while 0 <= c < COLUMNS and 0 <= r < ROWS and stones[c, r]:
                    line, c, r = line + 1, c + sign * right, r + sign * up
            if line >= 4:
                return True
        return False


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", choices=["appo", "impala"], required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--runners", type=int, required=True)
    parser.add_argument("--snapshots", type=int, required=True)
    parser.add_argument("--envs", type=int, required=True)
    arguments = parser.parse_args()
    frozen = [f"frozen_{i}" for i in range(arguments.snapshots)]

    def sits(agent: str, episode: Any, **_: Any) -> str:
        home = SEATS[hash(episode.id_) % 2]
        return "main" if agent == home else random.Random(episode.id_).choice(frozen)

    config = (
        (APPOConfig if arguments.algorithm == "appo" else IMPALAConfig)()
        .environment(ConnectFour)
        .env_runners(
            num_env_runners=arguments.runners,
            num_envs_per_env_runner=arguments.envs,
            rollout_fragment_length=50,
            num_cpus_per_env_runner=0.5,
        )
        .learners(num_learners=0)
        .multi_agent(policies=["main", *frozen], policy_mapping_fn=sits, policies_to_train=["main"])
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[256, 256], fcnet_activation="relu", vf_share_layers=True
            )
        )
        .training(train_batch_size_per_learner=4096, lr=1e-5)
        .reporting(min_time_s_per_iteration=2)
    )
    algorithm = config.build_algo()
    counted: list[tuple[float, int]] = []
    began = time.perf_counter()
    while time.perf_counter() - began < arguments.seconds:
        result = algorithm.train()
        sampled = result.get("env_runners", {}).get("num_env_steps_sampled_lifetime")
        if sampled is not None:  # the first iterations may have none
            counted.append((time.perf_counter(), int(sampled)))
    warm = counted[len(counted) // 4 :]  # the first quarter is for getting under way
    (first, before), (last, after) = warm[0], warm[-1]
    print("RESULT " + json.dumps((after - before) / (last - first)))
    algorithm.stop()


if __name__ == "__main__":
    main()
