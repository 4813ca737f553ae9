"""How fast learners learn: updates per second through the groups, beside a bare torch loop.

    python -m tests.bench.learners [--seconds 3] [--rounds 3]

Network 84-256-256, 7 actions, batches of 4,096 steps, float32, one thread per process. The bare
loop has its tensors ready and makes nothing but forward, loss, backward and Adam's step, in as
many processes as the group has shards. Goal: a ratio of 0.9.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import nn

from league.cluster.runtime import ResourceSettings, ray_session
from league.envs.spaces import ActionSpec, ObservationSpec
from league.episode import Episodes
from league.learning.groups.learners import Learners
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shard_learners import Recruit, Recruits
from league.learning.groups.shards import Shard
from league.learning.learner.learner import LearnerSettings
from league.models.spec import PolicySettings, PolicySpec
from tests.bench.shared import parser_of, per_second

INPUTS, HIDDEN, ACTIONS, BATCH_STEPS, LENGTH = 84, 256, 7, 4096, 16
SPEC = PolicySpec(
    PolicySettings(hidden=(HIDDEN, HIDDEN)),
    ObservationSpec((INPUTS,), "float32"),
    ActionSpec("discrete", (ACTIONS,)),
)
SETTINGS = LearnerSettings(batch_steps=BATCH_STEPS, lr=1e-5)


def experience(player: str, seed: int) -> Episodes:
    """One batch of random experience."""
    rng = np.random.default_rng(seed)
    count = BATCH_STEPS // LENGTH
    return Episodes(
        player=player,
        offset=np.arange(0, BATCH_STEPS + 1, LENGTH),
        match_id=np.arange(count),
        seat=np.zeros(count, np.int8),
        version=np.zeros(count, np.int64),
        terminated=np.ones(count, bool),
        observation=rng.integers(0, 2, (BATCH_STEPS, INPUTS)).astype(np.float32),
        mask=np.ones((BATCH_STEPS, ACTIONS), bool),
        action=rng.integers(0, ACTIONS, BATCH_STEPS),
        log_prob=np.full(BATCH_STEPS, -np.log(ACTIONS), np.float32),
        reward=rng.normal(size=BATCH_STEPS).astype(np.float32),
        bootstrap=np.zeros((0, INPUTS), np.float32),
    )


def bare(seconds: float) -> float:
    """Updates per second of a bare loop in one process with one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = experience("main-0", 0)
    observation, action = torch.from_numpy(data.observation), torch.from_numpy(data.action)
    mask, acted = torch.from_numpy(data.mask), torch.from_numpy(data.log_prob)
    target = torch.from_numpy(data.reward)
    torso = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    policy, value = nn.Linear(HIDDEN, ACTIONS), nn.Linear(HIDDEN, 1)
    parameters = [*torso.parameters(), *policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-5)
    updates = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        features = torso(observation)
        log_p = policy(features).masked_fill(~mask, -torch.inf).log_softmax(1)
        ratio = (log_p.gather(1, action.unsqueeze(1)).squeeze(1) - acted).exp()
        error = target - value(features).squeeze(1)
        advantage = error.detach()
        surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        entropy = -(log_p.exp() * log_p.clamp(min=-1e9)).sum(1).mean()
        loss = 0.25 * error.square().mean() - surrogate - 0.01 * entropy
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        updates += 1
    return updates / (time.perf_counter() - began)


def measure_bare(seconds: float, processes: int) -> float:
    """Updates per second of `processes` bare loops side by side."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        loops = [pool.submit(bare, seconds) for _ in range(processes)]
        return sum(loop.result() for loop in loops)


def measure_group(group: Learners, seconds: float, blocks: dict[str, Any]) -> float:
    """Updates per second of all players together, each kept as busy as its queue allows."""

    def turn() -> int:
        for player, block in blocks.items():
            while not group.full(player):
                group.submit(player, block, 0.0, BATCH_STEPS)
        return len(group.ready(0.1))

    per_second(turn, seconds / 4)  # warm
    rate = per_second(turn, seconds)
    while any(queue.depth for queue in group.queues().values()):  # the next measurement is undisturbed
        group.ready(0.1)
    return rate


def shards_of(players: list[str], count: int) -> list[Shard]:
    """`count` shards of one CPU process each, such as that many GPUs would make."""
    return [Shard(tuple(players[i::count]), 0) for i in range(count)]


def measure(count: int, processes: int, seconds: float, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Medians of the rates (bare, local, Ray) and of their ratios to the bare one, taken in turns."""
    import ray

    players = [f"main-{i}" for i in range(count)]
    recruits = Recruits(tuple(Recruit(player, SPEC, SETTINGS, 0) for player in players))
    local = LocalLearners(shards_of(players, 1), recruits)
    remote = RayLearners(shards_of(players, processes), recruits)
    here = {player: experience(player, i) for i, player in enumerate(players)}
    there = {player: ray.put(episodes) for player, episodes in here.items()}
    for player in players:
        remote.state(player)  # all actors run
    rates = np.array(
        [
            (
                measure_bare(seconds, processes),
                measure_group(local, seconds, here),
                measure_group(remote, seconds, there),
            )
            for _ in range(rounds)
        ]
    )
    remote.close()
    return np.median(rates, axis=0), np.median(rates / rates[:, :1], axis=0)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="medians of so many are shown")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("players  processes  bare updates/s     local  ratio       Ray  ratio")
    with ray_session(ResourceSettings(), num_actors=4):
        for count, processes in ((1, 1), (3, 1), (6, 1), (3, 2), (6, 2)):
            (bare_rate, local, remote), (_, of_local, of_remote) = measure(
                count, processes, arguments.seconds, arguments.rounds
            )
            here = f"{local:>8.1f}  {of_local:>5.2f}" if processes == 1 else " " * 15  # one process at most
            line = (
                f"{count:>7}  {processes:>9}  {bare_rate:>14.1f}  {here}  {remote:>8.1f}  {of_remote:>5.2f}"
            )
            print(line, flush=True)


if __name__ == "__main__":
    main()
