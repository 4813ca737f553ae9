"""What it costs to decide for many policies of one architecture, each with a few rows.

    python -m tests.bench.policy_groups [--rounds 5]

Five ways, turn by turn, the best of each: every policy asked by itself; as a group, whose networks run one
after the other; as a group, whose networks run side by side over copies of their weights; and both kinds of
groups with `precision: auto`, which is bfloat16 where that is faster.
Microseconds of the processor per row; connectors, networks and drawing together.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable

import numpy as np
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies import dense
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.policy_group import PolicyGroup
from league.models.spec import PolicySettings, PolicySpec, Precision
from tests.bench.shared import parser_of

INPUTS, ACTIONS = 84, 7  # of Connect Four


def make_group(
    policies: list[Policy], few_bytes: int, few_bytes_low: int = 0, precision: Precision = "float32"
) -> PolicyGroup:
    """A group that copies weights side by side up to so many bytes of a policy; in bfloat16, up to others."""
    before = dense.FEW_BYTES, dense.FEW_BYTES_LOW
    dense.FEW_BYTES, dense.FEW_BYTES_LOW = few_bytes, few_bytes_low
    try:
        return PolicyGroup(policies, precision)
    finally:
        dense.FEW_BYTES, dense.FEW_BYTES_LOW = before


def measure(policies: list[Policy], mean_rows: int, rounds: int) -> list[float]:
    """Microseconds per row: each alone, as a group one after the other, side by side; both in bfloat16."""
    rng = np.random.default_rng(0)
    counts = np.minimum(rng.poisson(mean_rows, len(policies)), 3 * mean_rows)
    observation = rng.integers(0, 2, (int(counts.sum()), INPUTS)).astype(np.int8)
    mask = np.ones((len(observation), ACTIONS), dtype=np.bool_)
    border = np.cumsum(counts)[:-1]
    groups = [
        make_group(policies, 0),
        make_group(policies, 2**62),
        make_group(policies, 0, 0, "auto"),
        make_group(policies, 0, 2**62, "auto"),
    ]

    def each_alone() -> None:
        shares = zip(policies, np.split(observation, border), np.split(mask, border), strict=True)
        for policy, seen, legal in shares:
            if len(seen):
                policy.decide(Look(seen, legal), rng)

    ways: list[Callable[[], object]] = [
        each_alone,
        *(functools.partial(group.decide, counts, Look(observation, mask), rng) for group in groups),
    ]
    best = [float("inf")] * len(ways)
    for _ in range(rounds + 1):  # the first makes the copies
        for i, way in enumerate(ways):
            began = time.process_time()
            way()
            best[i] = min(best[i], time.process_time() - began)
    return [1e6 * seconds / len(observation) for seconds in best]


def make_policies(count: int, width: int) -> list[Policy]:
    """Policies of two hidden layers, with weights of their own."""
    spec = PolicySpec(
        PolicySettings(hidden=(width, width)),
        ObservationSpec((INPUTS,), "int8"),
        ActionSpec("discrete", (ACTIONS,)),
    )
    return [Policy(spec, initial_weights(spec, seed)) for seed in range(count)]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("                                        one after   side by    the same, in bfloat16")
    print("network  policies  rows each  each alone  the other      side   one after     beside")
    for width, policies in itertools.product((64, 128, 256), (8, 32, 128)):
        some = make_policies(policies, width)
        for rows in (2, 8, 32):
            alone, *grouped = measure(some, rows, arguments.rounds)
            shown = "  ".join(f"{each:>9.2f}" for each in grouped)
            print(f"2 x {width:>3}  {policies:>8}  {rows:>9}  {alone:>10.2f}  {shown}", flush=True)


if __name__ == "__main__":
    main()
