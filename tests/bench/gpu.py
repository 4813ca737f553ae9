"""How fast one device plays and learns: env steps per second, updates per second, bfloat16, utilisation.

    python -m tests.bench.gpu [--device cuda] [--seconds 5] [--quick]

Play: one runner in this process, Connect Four, networks 84-256-256, one live player against so many
snapshots whose weights stay on the device. Learning: players of that network in one process, batches of
4,096 steps, one after the other, in float32 and in bfloat16. Utilisation is what the
driver of the card reports right after each measurement, where its library (nvidia-ml-py) is installed.
`--device cpu --quick` runs every line of it in a moment, for a test; such figures say nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import LiveSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import SnapshotSource
from storage.layout import blob_path
from storage.settings import CacheSettings
from storage.snapshots.blobs import publish
from tests import made_up
from tests.bench.learners import BATCH_STEPS, LENGTH, experience
from tests.bench.learners import SPEC as LEARNED
from tests.bench.shared import parser_of, per_second

PLAYED = PolicySpec(
    PolicySettings(hidden=(256, 256)), ObservationSpec((84,), "int8"), ActionSpec("discrete", (7,))
)
NO_GPU = "no GPU here: torch sees none, so nothing was measured; --device cpu --quick only tries the code"


def request_of(pool: Sequence[SnapshotSource], matches: int, rng: np.random.Generator) -> PlayRequest:
    """So many matches of a live player against all of the pool in turn."""
    seat = np.zeros((matches, 2), dtype=np.int32)
    seat[:, 1] = 1 + np.arange(matches) % len(pool)
    names = ("main-0", *(source.snapshot_id for source in pool))
    seeds = rng.integers(2**62, size=matches)
    batch = made_up.matches(names, seat, env="connect_four", learning=seat == 0, seed=seeds)
    return PlayRequest(batch, (LiveSource("main-0", 0, PLAYED), *pool), ("main-0",), seed=0)


def play(device: str, snapshots: Sequence[int], matches: int, seconds: float) -> Iterator[tuple[int, float]]:
    """Yield the number of snapshots seated, and env steps per second."""
    rng = np.random.default_rng(0)
    live = {"main-0": {name: tensor.numpy() for name, tensor in initial_weights(PLAYED, 0).items()}}
    with tempfile.TemporaryDirectory() as folder:
        pool = []
        for i in range(max(snapshots)):
            blob_hash, _ = publish(Path(folder) / "objects", initial_weights(PLAYED, 1 + i))
            path = blob_path(Path(folder) / "objects", blob_hash)
            pool.append(SnapshotSource(f"main-0@{i}", blob_hash, str(path), PLAYED))
        settings = RolloutSettings(slots=matches, device=device, policy_map_capacity=max(snapshots) + 1)
        setup = PlaySetup("connect_four", {}, settings, cache=CacheSettings(f"{folder}/cache"))
        runner = EnvRunner(setup)
        for count in snapshots:
            request = request_of(pool[:count], matches, rng)
            runner.play(request, live)  # the weights reach the device
            yield count, per_second(lambda asked=request: runner.play(asked, live)[1].env_steps, seconds)


def learn(device: str, players: int, precision: str, seconds: float) -> float:
    """Return updates per second of all players together."""
    settings = LearnerSettings.model_validate(
        {"batch_steps": BATCH_STEPS, "lr": 1e-5, "precision": precision}
    )
    learners = [Learner(f"main-{i}", LEARNED, settings, i, device) for i in range(players)]
    batches = [
        next(minibatches(experience(own.player, i), BATCH_STEPS, LENGTH)).to(torch.device(device))
        for i, own in enumerate(learners)
    ]

    def turn() -> int:
        for own, batch in zip(learners, batches, strict=True):
            own.update_from_batch(batch)
        if device != "cpu":
            torch.cuda.synchronize()
        return players

    turn()
    return per_second(turn, seconds)


def utilisation(device: str) -> str:
    """Return the share of the last moments in which the card computed, or why it is not known."""
    if device == "cpu":
        return "no card"
    try:
        return f"{torch.cuda.utilization()} %"
    except (ModuleNotFoundError, RuntimeError) as error:
        return f"unknown ({type(error).__name__})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each line")
    parser.add_argument("--quick", action="store_true", help="the least of everything, to try the code")
    given = parser.parse_args(arguments)
    if given.device == "cuda" and not torch.cuda.is_available():
        print(NO_GPU)
        return
    device, quick = given.device, given.quick
    seconds = 0.0 if quick else given.seconds
    print(torch.cuda.get_device_name() if device == "cuda" else "the CPU: these figures are of no card")
    torch.set_num_threads(1)
    print("\nsnapshots   env steps/s   utilisation")
    for count, rate in play(device, (1, 2) if quick else (1, 32, 256), 16 if quick else 8192, seconds):
        print(f"{count:>9}   {rate:>11,.0f}   {utilisation(device):>11}", flush=True)
    print("\nplayers   precision   updates/s   to float32   utilisation")
    for players in (1, 2) if quick else range(1, 7):
        plain = 0.0
        for precision in ("float32", "bfloat16"):
            rate = learn(device, players, precision, seconds)
            plain = plain or rate
            print(
                f"{players:>7}   {precision:<9}   {rate:>9.1f}   {rate / plain:>10.2f}   "
                f"{utilisation(device):>11}",
                flush=True,
            )


if __name__ == "__main__":
    main()
