"""Many snapshots on one GPU: a decision side by side and one by one; and updates from blocks of experience.

    python -m tests.bench.gpu_beside [--device cuda] [--seconds 1]

Each row says how far the two ways differ. An update is of 4,096 steps of an mlp 2x256 or of an lstm of 512
behind convolutions, two to a block; with the batch on the card already, nothing has to be made or sent.
Frames are stacked by the game or, where they go to the card once, by `frame_stack`. Needs neither Ray nor a
network.
"""

from __future__ import annotations

import numpy as np
import torch

from league.cluster.cards import computing
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.policies import stacked
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.stacked import StackedGroup
from league.models.sending import sent
from league.models.spec import PolicySettings, PolicySpec
from tests.bench import gpu_loads
from tests.bench.gpu import NO_GPU
from tests.bench.shared import parser_of, per_second

BOARD = ObservationSpec((3, 8, 8), "int8")
NETWORKS = {
    "mlp 2x64": {"hidden": (64, 64)},
    "mlp 2x256": {"hidden": (256, 256)},
    "mlp, normalised": {"hidden": (64, 64), "connectors": [{"kind": "normalise"}]},
    "cnn 2x32": {"torso": {"kind": "cnn", "channels": (32, 32)}, "hidden": (64,)},
    "resnet 10x32": {"torso": {"kind": "resnet", "channels": (32,) * 10}, "hidden": (64,)},
    "lstm 64": {"hidden": (64,), "memory": {"kind": "lstm", "size": 64}},
    "transformer 64": {"hidden": (64,), "memory": {"kind": "transformer", "size": 64}},
}


def decide(name: str, count: int, rows: int, device: torch.device, seconds: float) -> str:
    """Return a row of the table for `count` snapshots with so many rows each."""
    policy = PolicySettings.model_validate(NETWORKS[name])
    spec = PolicySpec(policy, BOARD, ActionSpec("discrete", (65,)))
    weights = [sent(initial_weights(spec, seed), device) for seed in range(8)]
    policies = [Policy(spec, weights[i % 8], f"main-0@{i}") for i in range(count)]
    rng, counts, size = np.random.default_rng(0), np.full(count, rows), policies[0].recurrent_size
    seen = torch.from_numpy(rng.integers(0, 2, (count * rows, *BOARD.shape)).astype(np.int8))
    memory = torch.zeros(count * rows, size) if size else None
    found: dict[int, torch.Tensor] = {}
    rates, before = [], stacked.FEWEST
    for fewest in (before, count + 1):  # with fewer policies than the fewest, all go one by one
        stacked.FEWEST = fewest
        group = StackedGroup(policies)

        def once(group: StackedGroup = group, fewest: int = fewest) -> int:
            found[fewest] = group(counts, seen, memory)[0].cpu()
            return 1

        once()
        rates.append(per_second(once, seconds))
    stacked.FEWEST = before
    error = float((found[before] - found[count + 1]).abs().max())
    both = "  ".join(f"{1000 / rate:>9.2f}" for rate in rates)
    return f"{name:<16} {count:>9} {rows:>5}  {both}  {rates[0] / rates[1]:>6.1f}  {error:.1e}"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    given = parser.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        print(NO_GPU)
        return
    torch.set_num_threads(1)
    device = torch.device(given.device)
    print("updates          updates/s  with the batch on the card", flush=True)
    boards, _, frames = gpu_loads.loads(quick=device.type == "cpu")
    for load in (boards, frames, gpu_loads.stacked(frames)):
        ways = gpu_loads.learning(load, given.device, "float32")
        rates = [per_second(way, given.seconds) for way in (*ways, *ways)][2:]  # the first calls are slow
        print(f"{load.name:<16} {rates[0]:>9.1f} {rates[1]:>9.1f}", flush=True)
    print("network          snapshots  rows  beside ms  by one ms   times  difference", flush=True)
    with torch.no_grad(), computing("float32"):
        for name in NETWORKS:
            for count, rows in ((32, 32), (256, 8)):
                print(decide(name, count, rows, device, given.seconds), flush=True)


if __name__ == "__main__":
    main()
