"""Positions as an actor meets them: played out in the game, and the actor's probabilities there.

All matches are walked at once, and begin on such a step that all reach their positions together. Actors with
memory get every earlier decision of the side to move, as in a match that begins with an opening.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs import registry
from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor, Look
from league.models.bots.bot import MixedPolicy, ScriptedPolicy
from league.models.policies.policy import Policy
from league.yardsticks.positions import Positions
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.errors import Mistake

DRAWS = 16  # actions drawn in each position from an actor that gives no probabilities


@dataclass(frozen=True, slots=True)
class Reached:
    """n positions in a game that is open at all of them: position i in slot i."""

    positions: Positions
    make_game: Callable[[], BatchedGame]  # with n slots that are free
    game: BatchedGame
    seat: Indices  # [n], the seat to move
    observation: npt.NDArray  # [n, *shape]
    mask: Bools  # [n, A]


def reach(positions: Positions, env_id: str, options: Mapping[str, Any]) -> Reached:
    """Return the positions as the game shows them.

    Raise Mistake for a game in which they mean nothing (of chance, of simultaneous moves, of other actions
    than one choice), for actions that are not legal, and for scores of other actions than the legal ones.
    """
    make_game = functools.partial(registry.make, env_id, len(positions), **options)
    game = make_game()
    kind = game.action_specs[0].kind
    if kind != "discrete" or not game.shared_spaces:
        found = "seats that differ" if kind == "discrete" else f"actions of kind {kind}"
        raise Mistake(
            f"positions: '{env_id}' has {found}, expected a game in which each action is one choice"
        )
    first, second = _arrived(make_game(), positions, 0), _arrived(game, positions, 1)
    # Two walks with different seeds differ only if the game draws something after the start.
    starts = game.starts()
    same = (starts is None or len(starts) == 1) and all(
        np.array_equal(a, b) for a, b in zip(first, second, strict=True)
    )
    if not same:
        raise Mistake(f"positions: '{env_id}' draws cards or the like, expected a game without chance")
    seat, observation, mask = second
    wrong = (
        np.flatnonzero((mask != positions.legal).any(axis=1)) if mask.shape == positions.score.shape else [0]
    )
    if len(wrong):
        row = int(wrong[0])
        legal, given = np.flatnonzero(mask[row]).tolist(), np.flatnonzero(positions.legal[row]).tolist()
        raise Mistake(
            f"{_place(positions, row)}: found {positions.score.shape[1]} scores, with numbers for actions "
            f"{given}, expected {mask.shape[1]} scores, with numbers for the legal actions {legal}; other "
            "actions get a point"
        )
    return Reached(positions, make_game, game, seat, observation, mask)


def probabilities(actor: Actor, reached: Reached, rng: np.random.Generator) -> Floats:
    """Return the probability of each action in each position [n, A], of an actor that plays in mode sample.

    They are exact for policies and for bots that know their own. Otherwise they are the shares of DRAWS
    draws from `rng`, of one draw for a bot that searches.
    """
    look = _look(actor, reached, rng)
    if isinstance(actor, Policy):
        return actor.evaluate(look.observation, look.mask, look.memory, look.reward)[0].astype(np.float64)
    if isinstance(actor, ScriptedPolicy):
        preferred = actor.preferred(look.observation, look.mask)
        return preferred / preferred.sum(axis=1, keepdims=True)
    if isinstance(actor, MixedPolicy):
        return actor.probabilities(look.observation, look.mask).astype(np.float64)
    draws = 1 if actor.wants_game else DRAWS
    slot = np.arange(len(look))
    shares = np.zeros(look.mask.shape)
    for _ in range(draws):
        memory = None if look.memory is None else look.memory.copy()
        fresh = Look(look.observation, look.mask, memory, look.reward)
        shares[slot, actor.decide_at(reached.game, slot, reached.seat, fresh, rng).action] += 1.0 / draws
    return shares


def has_likeliest(actor: Actor) -> bool:
    """Return whether mode greedy differs from mode sample: whether the actor prefers one action to others."""
    return isinstance(actor, Policy | MixedPolicy)


def _look(actor: Actor, reached: Reached, rng: np.random.Generator) -> Look:
    """Return what `actor` sees in the positions, after it has met what came before if it remembers."""
    if not (actor.memory_size or actor.wants_reward):
        return Look(reached.observation, reached.mask)
    n = len(reached.positions)
    memory = np.zeros((n, actor.memory_size), dtype=np.float32)
    reward = np.zeros(n, dtype=np.float32)

    def decided(block: Decisions) -> None:
        own = np.flatnonzero(block.seat == reached.seat[block.slot])
        slot = block.slot[own]
        mine = memory[slot]
        actor.decide(Look(block.observation[own], block.mask[own], mine, reward[slot]), rng)
        memory[slot], reward[slot] = mine, 0.0

    def rewarded(rewards: Floats32) -> None:
        reward[:] += rewards[np.arange(n), reached.seat]

    _walk(reached.make_game(), reached.positions, 0, decided, rewarded)
    return Look(reached.observation, reached.mask, memory, reward)


def _arrived(game: BatchedGame, positions: Positions, seed: int) -> tuple[Indices, npt.NDArray, Bools]:
    """Return the seat to move [n], what it sees [n, *shape] and may do [n, A], copied from the game."""
    blocks = _walk(game, positions, seed)
    due = np.concatenate([block.slot for block in blocks])
    for row in np.flatnonzero(np.bincount(due, minlength=len(positions)) != 1)[:1]:
        raise Mistake(f"{_place(positions, int(row))}: it is not one seat's turn, expected a game of turns")
    (block,) = blocks  # of one kind: all seats have the same spaces
    return block.seat.copy(), block.observation.copy(), block.mask.copy()


def _walk(
    game: BatchedGame,
    positions: Positions,
    seed: int,
    decided: Callable[[Decisions], None] = lambda block: None,
    rewarded: Callable[[Floats32], None] = lambda rewards: None,
) -> list[Decisions]:
    """Play all positions in `game`, whose slots are free; return the decisions that are due in them.

    Raise Mistake for actions that are not legal and for a match that is over too early.
    """
    plies = positions.plies
    longest = int(plies.max())
    line = np.full((len(positions), longest + 1), -1, dtype=np.int64)
    for row, moves in enumerate(positions.actions):
        line[row, : len(moves)] = moves
    for step in range(longest + 1):
        begin = np.flatnonzero(plies == longest - step)
        if len(begin):
            game.reset(begin, np.full(len(begin), seed, dtype=np.int64))
        blocks = game.due()
        if step == longest:
            break
        actions = []
        for block in blocks:
            action = line[block.slot, game.env_steps[block.slot]]
            _require_legal(positions, block, action)
            decided(block)
            actions.append(action)
        transition = game.step(actions)
        rewarded(transition.rewards)
        for slot in transition.ended[:1].tolist():
            raise Mistake(f"{_place(positions, slot)}: the match is over by then; leave it out")
    return blocks


def _require_legal(positions: Positions, block: Decisions, action: Indices) -> None:
    """Raise Mistake for the first action [n] that is not legal, or if two seats act at once."""
    for slot in block.slot[1:][block.slot[1:] == block.slot[:-1]][:1].tolist():
        raise Mistake(f"{_place(positions, slot)}: two seats act at once, expected a game of turns")
    inside = (action >= 0) & (action < block.mask.shape[1])
    legal = inside & block.mask[np.arange(len(block)), np.where(inside, action, 0)]
    for row in np.flatnonzero(~legal)[:1].tolist():
        raise Mistake(
            f"{_place(positions, int(block.slot[row]))}: found action {action[row]} where legal ones are "
            f"{np.flatnonzero(block.mask[row]).tolist()}; is it of this game?"
        )


def _place(positions: Positions, row: int) -> str:
    moves = " ".join(map(str, positions.actions[row]))
    return f"positions {positions.name}: position {row + 1} ({moves or 'the start'})"
