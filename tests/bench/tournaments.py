"""Games per second of a tournament, beside plain loops over PettingZoo and OpenSpiel.

    python -m tests.bench.tournaments [--competitors 32] [--pairs 80] [--seconds 20]

The game is Connect Four; everybody plays a network of two hidden layers, 84-256-256, with weights of
its own, and samples its actions. The tournament is a round robin on a process for each core, recorded,
rated and judged: its rate is that of the whole call, once its processes are there, and of the whole
call. A plain loop plays the same pairings in one process, a decision at a time, the way that the
libraries' tutorials show; its networks are ours. Everything with one torch thread.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from analysis.tournaments.tournament import verdict
from league.cluster.runtime import available_cpus
from league.envs import registry
from league.models.networks.networks import build_network
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.tournament.loop import Standing
from league.tournament.play import play
from league.tournament.settings import load
from storage.archive import Archive
from tests import made_up
from tests.bench.shared import parser_of, per_second

GAME = "connect_four"


def make_run(folder: Path, competitors: int) -> tuple[Path, list[torch.nn.Module]]:
    """A run with that many snapshots, and the network of each."""
    game = registry.make(GAME, 1)
    spec = PolicySpec.for_game(PolicySettings(hidden=(256, 256)), game)
    config = f"env: {{id: {GAME}, options: {{}}}}\nrollout: {{step_limit: null}}\nbots: {{}}\n"
    networks = []
    with Archive.create(folder, config, {"name": "bench", "env": GAME, "seed": 0}) as archive:
        for number in range(competitors):
            tensors = initial_weights(spec, number)
            made_up.add_snapshot(archive, number, tensors, spec.to_json(), updates=number)
            network = build_network(spec)
            network.load_state_dict(tensors)
            networks.append(network.eval())
    return folder, networks


def tournament(run: Path, out: Path, pairs: int) -> tuple[float, float]:
    """Games per second while games are played, and of the whole call with its verdict."""
    settings = load(
        {
            "competitors": [{"run": str(run)}],
            "schedule": {"kind": "round_robin", "pairs": pairs},
            "runners": available_cpus(),
        }
    )
    seen: list[tuple[float, int]] = []

    def observe(standing: Standing) -> None:
        if not seen or seen[-1][1] != standing.games:
            seen.append((time.perf_counter(), standing.games))

    began = time.perf_counter()
    play(settings, out, observe=observe)
    verdict(out)
    ended = time.perf_counter()
    (first, none), (last, games) = seen[min(1, len(seen) - 2)], seen[-1]  # from the first results on
    return (games - none) / (last - first), games / (ended - began)


def choose(network: Any, observation: np.ndarray, legal: np.ndarray) -> int:
    with torch.no_grad():
        logits, _ = network(torch.from_numpy(observation[None]), None)
        logits = logits[0].masked_fill(torch.from_numpy(~legal), -torch.inf)
        return int(torch.distributions.Categorical(logits=logits).sample())


def pettingzoo_games(networks: list[Any]) -> Iterator[int]:
    """One game after the other, every pairing in turn, as the library's tutorials play them."""
    from pettingzoo.classic import connect_four_v3

    env = connect_four_v3.env()
    for number, seated in enumerate(itertools.cycle(itertools.permutations(networks, 2))):
        env.reset(seed=number)
        sitting = dict(zip(env.possible_agents, seated, strict=True))
        for agent in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            seen = observation["observation"].astype(np.float32).ravel()
            env.step(choose(sitting[agent], seen, observation["action_mask"].astype(bool)))
        yield 1


def openspiel_games(networks: list[Any]) -> Iterator[int]:
    """One game after the other, every pairing in turn."""
    import pyspiel

    game = pyspiel.load_game("connect_four")
    for seated in itertools.cycle(itertools.permutations(networks, 2)):
        state = game.new_initial_state()
        while not state.is_terminal():
            player = state.current_player()
            seen = np.array(state.observation_tensor(player), dtype=np.float32)[:84]
            legal = np.array(state.legal_actions_mask(player), dtype=bool)
            state.apply_action(choose(seated[player], seen, legal))
        state.returns()
        yield 1


def rate(games: Iterator[int], seconds: float) -> float:
    next(games)  # imports, and the first calls of everything
    return per_second(lambda: next(games), seconds)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--competitors", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=80, help="of each pairing")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each plain loop")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run, networks = make_run(Path(folder) / "run", args.competitors)
        playing, whole = tournament(run, Path(folder) / "tournament", args.pairs)
    print(f"tournament, {args.competitors} competitors: {playing:,.0f} games/s, whole call {whole:,.0f}")
    loops: dict[str, Callable[[list[Any]], Iterator[int]]] = {
        "PettingZoo": pettingzoo_games,
        "OpenSpiel": openspiel_games,
    }
    for name, loop in loops.items():
        plain = rate(loop(networks), args.seconds)
        print(
            f"plain loop over {name}: {plain:,.1f} games/s; the tournament plays {playing / plain:,.0f} times"
        )


if __name__ == "__main__":
    main()
