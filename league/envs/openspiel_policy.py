"""A policy of ours behind OpenSpiel's policy interface, for its exact algorithms. Needs open_spiel.

policy = as_openspiel_policy("leduc_poker", league.load_policy(run, "main-0"))
nash_conv(policy.game, policy)        of open_spiel.python.algorithms.exploitability
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from open_spiel.python.policy import Policy

from league.envs.adapters.openspiel import Observation, OpenSpielGame, game_of
from storage.arrays import Bools, Floats32

Question = tuple[bytes, tuple[int, ...]]  # what a seat sees, as bytes, and its legal actions


class Evaluates(Protocol):
    """What an actor must offer here: `league.models.policies.policy.Policy` does."""

    memory_size: int
    wants_reward: bool

    def evaluate(self, observation: npt.NDArray, mask: Bools) -> tuple[Floats32, Floats32]:
        """Return probabilities [n, A] and values [n] for observations [n, *shape] and masks [n, A]."""


def as_openspiel_policy(
    game: str, actor: Evaluates, observation: Observation = "auto", whole_tree: bool = True
) -> ActorPolicy:
    """Return an OpenSpiel policy that plays the turn-based `game` as `actor` does; see its `.game`.

    `game` is a game string, with or without the prefix `openspiel:`; `observation` is the option of that
    env. With `whole_tree` the actor evaluates all states of the game in one call; without it, each state
    when it first comes up, for games with a tree too large to walk.

    Raise LookupError if there is no such game. Raise ValueError if it is not turn-based, or if the actor
    uses memory or rewards.
    """
    adapter = game_of(game.removeprefix("openspiel:"))(1, observation=observation)
    if adapter.game.get_type().dynamics.name != "SEQUENTIAL":
        raise ValueError(
            f"{adapter.id}: its seats act at once, expected a turn-based game; wrap it as "
            "turn_based_simultaneous_game(game=...)"
        )
    if actor.memory_size or actor.wants_reward:
        raise ValueError(
            f"{adapter.id}: the policy uses memory or rewards, expected one that acts on its present "
            "observation alone"
        )
    policy = ActorPolicy(adapter, actor)
    if whole_tree:
        policy.learn(_decisions(adapter.game.new_initial_state()))
    return policy


def _decisions(state: Any) -> Iterator[Any]:
    """Yield every state from here on in which a player must act."""
    if state.is_terminal():
        return
    if not state.is_chance_node():
        yield state
    for action in state.legal_actions():
        yield from _decisions(state.child(action))


class ActorPolicy(Policy):
    """Answers of an actor, each kept after its first use: states that look alike are one question."""

    def __init__(self, adapter: OpenSpielGame, actor: Evaluates) -> None:
        super().__init__(adapter.game, list(range(adapter.num_seats)))
        self._adapter = adapter
        self._actor = actor
        self._known: dict[Question, dict[int, float]] = {}

    def action_probabilities(self, state: Any, player_id: int | None = None) -> dict[int, float]:
        """Return the probability of each legal action in `state`. `player_id` must be the player to act."""
        question = self._question(state)
        if question not in self._known:
            self._ask([question])
        return self._known[question]

    def learn(self, states: Iterable[Any]) -> None:
        """Evaluate all of these states in one call."""
        self._ask(list(dict.fromkeys(map(self._question, states))))

    def _question(self, state: Any) -> Question:
        seen = self._adapter.seen_in(state, state.current_player())
        return seen.tobytes(), tuple(state.legal_actions())

    def _ask(self, questions: list[Question]) -> None:
        shape, width = self._adapter.observation_specs[0].shape, self._adapter.action_specs[0].mask_width
        seen = np.frombuffer(bytearray().join(tensor for tensor, _ in questions), dtype=np.float32)
        mask = np.zeros((len(questions), width), dtype=np.bool_)
        for row, (_, legal) in enumerate(questions):
            mask[row, legal] = True
        probabilities, _ = self._actor.evaluate(seen.reshape(-1, *shape), mask)
        for (tensor, legal), row in zip(questions, probabilities.tolist(), strict=True):
            total = sum(row[action] for action in legal)  # 1, up to rounding of float32
            self._known[tensor, legal] = {action: row[action] / total for action in legal}
