"""How fast games of Pgx are played, beside a bare loop of Pgx with the same network.

    python -m tests.bench.pgx_loop [--games othello connect_four] [--slots 1024] [--seconds 5]

Ours is what a runner does: a live player against a frozen snapshot (MLP 2x256, float32), with seeds, episodes
and results. The bare loop steps as many matches in one compiled call that begins ended ones anew
(`pgx.experimental.auto_reset`), and infers every decision once. In turns, in one process of one thread.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from league.envs import registry
from league.models.spec import PolicySettings, PolicySpec
from tests.bench.gpu_loads import Load, play
from tests.bench.shared import parser_of, per_second

HIDDEN = 256
TURNS, ROUNDS = 4, 5  # matches of a request by slots, as runners get them


def bare(name: str, slots: int) -> Callable[[], int]:
    """Return a function that makes a step of `slots` matches and returns the number of steps."""
    registry.make(f"pgx:{name}", 1)  # sets up JAX for one thread of the processor
    import jax
    import pgx
    from pgx.experimental import auto_reset

    env = pgx.make(name)
    begin, step = jax.jit(jax.vmap(env.init)), jax.jit(jax.vmap(auto_reset(env.step, env.init)))
    keys = jax.random.split(jax.random.PRNGKey(0), slots)
    state = begin(keys)
    size = int(np.prod(env.observation_shape))
    network = nn.Sequential(
        nn.Linear(size, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, env.num_actions),
    )

    @torch.no_grad()
    def work() -> int:
        nonlocal state
        observation = torch.from_numpy(np.array(state.observation)).flatten(1).float()
        mask = torch.from_numpy(np.array(state.legal_action_mask))
        p = network(observation).masked_fill_(~mask, -torch.inf).softmax(1)
        action = (p / torch.empty_like(p).exponential_()).argmax(1)
        state = step(state, action.numpy().astype(np.int32), keys)
        return slots

    return work


def ours(name: str, slots: int) -> Callable[[], int]:
    """Return a function that plays `slots` matches as a runner does and returns their env steps."""
    game = registry.make(f"pgx:{name}", 1)
    spec = PolicySpec.for_game(PolicySettings(hidden=(HIDDEN, HIDDEN)), game)
    return play(Load(name, spec, game.id, {}, slots, 0, 0), "cpu", 1, TURNS)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--games", nargs="+", default=["othello", "connect_four"])
    parser.add_argument("--slots", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.games:
        works = ours(name, arguments.slots), bare(name, arguments.slots)
        for work in works:
            work()  # compiles
        rates = [[per_second(work, arguments.seconds) for work in works] for _ in range(ROUNDS)]
        mine, loop = map(statistics.median, zip(*rates, strict=True))
        ratio = statistics.median(a / b for a, b in rates)
        print(f"{name}: {mine:,.0f} env steps/s, bare loop {loop:,.0f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
