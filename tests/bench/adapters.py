"""What an adapter costs: steps of a library's games through the batched interface, beside bare ones.

    python -m tests.bench.adapters [--seconds 2] [--matches 1024] [NAME ...]

Both play the same number of matches side by side with random legal actions, drawn the same way
outside of the clock. On the clock, bare, in the plainest loop: the library's step, whatever chance
has to say, and the observation and mask of whoever acts next, as the library gives them; with
the adapter: `due`, `step` and `reset`, which give arrays. The two take turns, round by round; the
ratio is the median over the rounds. The clock is the processor time of this process.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from league.envs import registry

ROUNDS = 9


class Bare(Protocol):
    """Matches of a library's own game, stepped one after the other in the plainest way."""

    def masks(self) -> Sequence[Any]:
        """Of the decisions that are open now."""

    def step(self, actions: list[int]) -> None:
        """Take them; begin again what ended; look at what is seen and allowed next."""


class BareOpenSpiel:
    """`pyspiel.State`s. `buffered`: seen through OpenSpiel's observer, which makes no list."""

    def __init__(self, name: str, num_matches: int, buffered: bool = False) -> None:
        import pyspiel
        from open_spiel.python.observation import make_observation

        self.game = pyspiel.load_game(name)
        kind = self.game.get_type()
        self.recalls = (
            kind.information.name == "IMPERFECT_INFORMATION" and kind.provides_information_state_tensor
        )
        observation_type = pyspiel.IIGObservationType(perfect_recall=True) if self.recalls else None
        self.observer = make_observation(self.game, observation_type) if buffered else None
        self.states = [self.fresh() for _ in range(num_matches)]
        self.seen: list[Any] = [None] * num_matches
        self.legal: list[Any] = [state.legal_actions_mask() for state in self.states]

    def fresh(self) -> Any:
        state = self.game.new_initial_state()
        while state.is_chance_node():
            self.draw(state)
        return state

    def draw(self, state: Any) -> None:
        number, outcomes = random.random(), state.chance_outcomes()
        for outcome, probability in outcomes:  # noqa: B007  # taken after the loop
            number -= probability
            if number < 0:
                break
        state.apply_action(outcome)

    def masks(self) -> Sequence[Any]:
        return self.legal

    def step(self, actions: list[int]) -> None:
        states, seen, legal, observer = self.states, self.seen, self.legal, self.observer
        for i, action in enumerate(actions):
            state = states[i]
            state.apply_action(action)
            while state.is_chance_node():
                self.draw(state)
            if state.is_terminal():
                state.returns()
                state = states[i] = self.fresh()
            player = state.current_player()
            if observer is not None:
                observer.set_from(state, player)
                seen[i] = observer.tensor.copy()
            elif self.recalls:
                seen[i] = state.information_state_tensor(player)
            else:
                seen[i] = state.observation_tensor(player)
            legal[i] = state.legal_actions_mask()


class BareAec:
    """PettingZoo's AEC envs. `raw`: without the wrappers that check every call."""

    def __init__(self, name: str, num_matches: int, raw: bool = False) -> None:
        import pettingzoo

        made = [pettingzoo.make("aec", name) for _ in range(num_matches)]
        self.envs = [env.unwrapped if raw else env for env in made]
        self.seeds = itertools.count()
        for env in self.envs:
            env.reset(seed=next(self.seeds))
        self.seen: list[Any] = [env.last()[0] for env in self.envs]

    def masks(self) -> Sequence[Any]:
        return [seen["action_mask"] for seen in self.seen]

    def step(self, actions: list[int]) -> None:
        envs, seen = self.envs, self.seen
        for i, action in enumerate(actions):
            env = envs[i]
            env.step(action)
            observation, _, terminated, truncated, _ = env.last()
            while terminated or truncated:
                env.step(None)
                if not env.agents:
                    env.reset(seed=next(self.seeds))
                observation, _, terminated, truncated, _ = env.last()
            seen[i] = observation


class BareParallel:
    """PettingZoo's Parallel envs, in which all agents always act, and all actions are legal."""

    def __init__(self, module: str, num_matches: int) -> None:
        make = importlib.import_module(module).parallel_env
        self.envs = [make() for _ in range(num_matches)]
        self.seeds = itertools.count()
        self.seen = [env.reset(seed=next(self.seeds))[0] for env in self.envs]
        agents = self.envs[0].possible_agents
        self.legal = np.ones((num_matches * len(agents), self.envs[0].action_space(agents[0]).n), np.bool_)

    def masks(self) -> Sequence[Any]:
        return self.legal  # type: ignore[return-value]

    def step(self, actions: list[int]) -> None:
        drawn = iter(actions)
        for i, env in enumerate(self.envs):
            self.seen[i], *_ = env.step(dict(zip(env.agents, drawn, strict=False)))
            if not env.agents:
                self.seen[i], _ = env.reset(seed=next(self.seeds))


class BareGymnasium:
    """gymnasium's envs in a plain loop, or in its `SyncVectorEnv`, which begins anew by itself."""

    def __init__(self, name: str, num_matches: int, vectorised: bool = False) -> None:
        import gymnasium

        makers = [lambda: gymnasium.make(name, disable_env_checker=True)] * num_matches
        self.together = gymnasium.vector.SyncVectorEnv(makers) if vectorised else None
        self.envs = [] if vectorised else [make() for make in makers]
        self.seeds = itertools.count()
        if self.together is not None:
            self.seen, _ = self.together.reset(seed=0)
        else:
            self.seen = [env.reset(seed=next(self.seeds))[0] for env in self.envs]
        self.legal = np.ones((num_matches, int(gymnasium.make(name).action_space.n)), np.bool_)

    def masks(self) -> Sequence[Any]:
        return self.legal  # type: ignore[return-value]

    def step(self, actions: list[int]) -> None:
        if self.together is not None:
            self.seen, *_ = self.together.step(np.array(actions))
            return
        envs, seen = self.envs, self.seen
        for i, action in enumerate(actions):
            seen[i], _, terminated, truncated, _ = envs[i].step(action)
            if terminated or truncated:
                seen[i], _ = envs[i].reset(seed=next(self.seeds))


TABLE: dict[str, tuple[str, dict[str, Callable[[int], Bare]]]] = {
    f"openspiel {name}": (
        f"openspiel:{name}",
        {
            "lists": lambda n, name=name: BareOpenSpiel(name, n),
            "arrays": lambda n, name=name: BareOpenSpiel(name, n, buffered=True),
        },
    )
    for name in ("tic_tac_toe", "connect_four", "leduc_poker", "hex", "backgammon")
}
TABLE |= {
    f"pettingzoo {name}": (
        f"pettingzoo:classic/{name}",
        {
            "as made": lambda n, name=name: BareAec(f"classic/{name}", n),
            "raw": lambda n, name=name: BareAec(f"classic/{name}", n, raw=True),
        },
    )
    for name in ("tictactoe_v3", "connect_four_v3", "leduc_holdem_v4")
}
TABLE["mpe2 simple_spread_v3"] = (
    "pettingzoo:mpe2/simple_spread_v3",
    {"as made": lambda n: BareParallel("mpe2.simple_spread_v3", n)},
)
TABLE["gymnasium CartPole-v1"] = (
    "gymnasium:CartPole-v1",
    {
        "loop": lambda n: BareGymnasium("CartPole-v1", n),
        "sync": lambda n: BareGymnasium("CartPole-v1", n, vectorised=True),
    },
)


def drawn(masks: Any, rng: np.random.Generator) -> np.ndarray:
    """A random legal action by each mask [n, A]."""
    masks = np.asarray(masks)
    return (rng.random(masks.shape) * masks).argmax(axis=1)


def bare_rate(bare: Bare, seconds: float, rng: np.random.Generator) -> float:
    """Steps per second."""
    steps, spent = 0, 0.0
    while spent < seconds:
        actions = drawn(bare.masks(), rng).tolist()
        began = time.process_time()
        bare.step(actions)
        spent += time.process_time() - began
        steps += len(actions)
    return steps / spent


def adapter_rate(game: Any, seconds: float, rng: np.random.Generator) -> float:
    """Steps per second, each decision of a seat counted as one."""
    steps, spent = 0, 0.0
    while spent < seconds:
        began = time.process_time()
        free = np.flatnonzero(~game.active)
        if len(free):
            game.reset(free, rng.integers(2**62, size=len(free)))
        blocks = game.due()
        spent += time.process_time() - began
        actions = [drawn(block.mask, rng) for block in blocks]
        began = time.process_time()
        game.step(actions)
        spent += time.process_time() - began
        steps += sum(map(len, blocks))
    return steps / spent


def measure(name: str, num_matches: int, seconds: float) -> None:
    """Print a line for each way of stepping the game bare."""
    rng = np.random.default_rng(0)
    env_id, ways = TABLE[name]
    game = registry.make(env_id, num_matches)
    for way, make in ways.items():
        bare = make(num_matches)
        rates = [
            (bare_rate(bare, seconds / ROUNDS / 2, rng), adapter_rate(game, seconds / ROUNDS / 2, rng))
            for _ in range(ROUNDS + 1)
        ][1:]
        ratio = statistics.median(ours / theirs for theirs, ours in rates)
        theirs, ours = (statistics.median(column) for column in zip(*rates, strict=True))
        print(f"{name:<28}  {way:<8}  {theirs:>12,.0f}  {ours:>12,.0f}  {ratio:>6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TABLE)}; none: all")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each line")
    parser.add_argument("--matches", type=int, default=1024, help="side by side")
    arguments = parser.parse_args()
    print(f"{'game':<28}  {'bare':<8}  {'bare steps/s':>12}  {'adapter':>12}  {'ratio':>6}")
    for name in arguments.names or TABLE:
        measure(name, arguments.matches, arguments.seconds)


if __name__ == "__main__":
    main()
