"""How fast several players' updates come in one pass, beside separate updates.

    python -m tests.bench.stacked [--seconds 4] [--device cpu]

Networks 84-64-64 and 84-256-256, 7 actions, loss appo, float32, one thread. Whole updates with
clipping and Adam's step are timed, turn by turn in every way; of each the shortest time counts.
`joined`: the networks run one after the other; `stacked`: as one, by torch.func.vmap.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.learning.data.batching import Batch, minibatches
from league.learning.learner import Learner, LearnerSettings
from league.learning.shared_pass.stacked import OnePass
from league.models.spec import PolicySettings, PolicySpec
from tests.bench.learners import ACTIONS, BATCH_STEPS, INPUTS, LENGTH, experience

WAYS = ("separate", "joined", "stacked")


def batch_of(player: str, seed: int, steps: int) -> Batch:
    whole = experience(player, seed)
    return next(minibatches(whole.take(torch.arange(steps // LENGTH).numpy()), steps, LENGTH))


def measure(players: int, width: int, steps: int, seconds: float, device: torch.device) -> dict[str, float]:
    """Updates per second of all players together, in each way."""
    spec = PolicySpec(
        PolicySettings(hidden=(width, width)),
        ObservationSpec((INPUTS,), "float32"),
        ActionSpec("discrete", (ACTIONS,)),
    )
    settings = LearnerSettings(batch_steps=steps, lr=1e-5)
    learners = [Learner(f"main-{i}", spec, settings, i, str(device)) for i in range(players)]
    batches = [batch_of(learner.player, i, steps).to(device) for i, learner in enumerate(learners)]
    one_pass = OnePass(spec, settings)

    def turn(way: str) -> None:
        means: tuple[torch.Tensor | None, ...] = (None,) * players
        if way != "separate":
            trainees = [learner.trainee for learner in learners]
            means = one_pass.leave_gradients(trainees, batches, stacked=way == "stacked").unbind()
        for learner, batch, mean in zip(learners, batches, means, strict=True):
            learner.try_update(batch, mean)

    shortest = dict.fromkeys(WAYS, float("inf"))
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for way in WAYS:
            shortest[way] = min(shortest[way], _seconds(lambda way=way: turn(way), device))
    return {way: players / shortest[way] for way in WAYS}


def _seconds(work: Callable[[], None], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="of each line")
    parser.add_argument("--device", help="default: cpu, then a GPU if there is one")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    devices = [arguments.device] if arguments.device else ["cpu", *["cuda"] * torch.cuda.is_available()]
    print("device  batch   network  players  separate updates/s  joined ratio  stacked ratio")
    for device, steps, width, players in itertools.product(devices, (512, BATCH_STEPS), (64, 256), (2, 4, 8)):
        rate = measure(players, width, steps, arguments.seconds, torch.device(device))
        joined, stacked = (rate[way] / rate["separate"] for way in WAYS[1:])
        print(
            f"{device:<6}  {steps:>5}  2 x {width:>4}  {players:>7}  {rate['separate']:>18.1f}  "
            f"{joined:>12.2f}  {stacked:>13.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
