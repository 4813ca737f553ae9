"""Decisions of a competitor in fresh matches, and how far a copy of it differs in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec
from league.models.actor import Look
from league.models.bots.bot import RandomBot
from league.models.policies.mixture import MixtureActor
from league.models.policies.policy import Policy
from league.models.portable.interface import NEVER, largest_difference
from storage.arrays import Floats32

Arrays = Mapping[str, npt.NDArray]


@dataclass(frozen=True, slots=True)
class Decided:
    """n decisions: what was shown, and what the competitor makes of it at temperature 0."""

    given: dict[str, npt.NDArray]  # by the names of `league.models.portable.interface`; noise is zero
    found: dict[str, npt.NDArray]

    def __len__(self) -> int:
        return len(self.given["observation"])


def record(
    actor: Policy | MixtureActor,
    game: BatchedGame,
    seats: list[int],
    decisions: int,
    rng: np.random.Generator,
) -> Decided:
    """Play `game` with `actor` in `seats` and random moves elsewhere, and return `decisions` of the actor."""
    places = (game.num_slots, game.num_seats)
    memory = np.zeros((*places, actor.memory_size), dtype=np.float32)
    reward = np.zeros(places, dtype=np.float32)
    others = [RandomBot(action) for action in game.action_specs]
    game.reset(np.arange(game.num_slots), rng.integers(2**62, size=game.num_slots))
    looks: list[Look] = []
    while sum(map(len, looks)) < decisions:
        actions = []
        for block in game.due():
            own = np.isin(block.seat, seats)
            action = others[int(block.seat[0])].decide(Look(block.observation, block.mask), rng).action
            if own.any():
                place = block.slot[own], block.seat[own]
                kept = memory[place]
                look = Look(block.observation[own], block.mask[own], kept, reward[place])
                looks.append(Look(look.observation, look.mask, kept.copy(), reward[place]))
                action[own] = actor.decide(look, rng).action
                memory[place], reward[place] = kept, 0.0
            actions.append(action)
        transition = game.step(actions)
        reward += transition.rewards
        ended = transition.ended.copy()
        if len(ended):
            memory[ended], reward[ended] = 0.0, 0.0
            game.reset(ended, rng.integers(2**62, size=len(ended)))
    rows = ((look.observation, look.mask, look.memory, look.reward) for look in looks)
    shown = [np.concatenate(parts)[:decisions] for parts in zip(*rows, strict=True)]
    given = dict(zip(("observation", "mask", "state", "reward"), shown, strict=True))
    given["noise"] = np.zeros((decisions, game.action_specs[seats[0]].width), dtype=np.float32)
    given["draw"] = rng.random(decisions).astype(np.float32)
    look = Look(given["observation"], given["mask"], given["state"], given["reward"])
    return Decided(given, expected(actor, look, given["draw"]))


def expected(actor: Policy | MixtureActor, look: Look, draw: Floats32) -> dict[str, npt.NDArray]:
    """Return what a file of `actor` must give for n rows, without noise; `draw` [n] chooses members."""
    if isinstance(actor, Policy):
        return _of_policy(actor, look)
    assert look.memory is not None
    assert look.reward is not None
    after = look.memory.copy()
    begins = after[:, 0] == 0.0
    until = np.cumsum(actor.weights)[:-1].astype(np.float32)
    after[begins, 0] = 1 + np.searchsorted(until, draw[begins], side="right")
    found: dict[str, npt.NDArray] = {}
    for number, member in enumerate(actor.members, 1):
        rows = np.flatnonzero(after[:, 0] == number)
        assert isinstance(member.actor, Policy)
        if not len(rows):
            continue
        own = slice(1, 1 + member.actor.memory_size)
        part = Look(look.observation[rows], look.mask[rows], after[rows, own], look.reward[rows])
        for name, values in _of_policy(member.actor, part).items():
            if name == "next_state":
                after[rows, own] = values
                continue
            shape = (len(look), *values.shape[1:])
            found.setdefault(name, np.zeros(shape, dtype=values.dtype))[rows] = values
    return found | {"next_state": after}


def _of_policy(policy: Policy, look: Look) -> dict[str, npt.NDArray]:
    assert look.memory is not None
    after = look.memory.copy()
    kept = Look(look.observation, look.mask, after, look.reward)
    action = policy.decide(kept, np.random.default_rng(0), 0.0).action
    probabilities, value = policy.evaluate(look.observation, look.mask, look.memory, look.reward)
    found = {"value": value, "action": action, "next_state": after}
    width = policy.spec.action.mask_width
    if policy.spec.action.low:
        found["mean"], found["log_std"] = np.split(probabilities[:, width:], 2, axis=1)
    if not width:
        return found
    seen = torch.from_numpy(policy.see(look.observation, look.memory, look.reward))
    size = policy.recurrent_size
    recurrent = torch.from_numpy(look.memory[:, -size:].copy()) if size else None
    with torch.no_grad():
        logits = policy.step(seen, recurrent)[0][:, :width].numpy()
    return found | {"logits": np.where(look.mask, logits, np.float32(NEVER))}


def difference(action: ActionSpec, expected: Arrays, found: Arrays) -> float:
    """Return the largest difference of two sets of outputs, relative to numbers above 1.

    Choices may differ where logits are level: what counts is how much the logit of a choice is below the
    largest. The state after a choice that differs is not compared.
    """
    worst, n, k = 0.0, len(expected["value"]), len(action.sizes)
    ours, theirs = (side["action"].reshape(n, -1) for side in (expected, found))
    alike = (ours[:, :k] == theirs[:, :k]).all(axis=1)
    for choice, (start, end) in enumerate(action.columns):
        logits = expected["logits"][:, start:end]
        best, taken = logits.max(axis=1), logits[np.arange(n), theirs[:, choice].astype(np.int64)]
        worst = max(worst, float(((best - taken) / np.maximum(1.0, np.abs(best))).max()))
    expected, found = ({**side, "action": a[:, k:]} for side, a in ((expected, ours), (found, theirs)))
    for name, values in expected.items():
        if name not in found:
            continue
        rows = alike if name == "next_state" else slice(None)
        scale = np.maximum(1.0, np.abs(np.nan_to_num(values[rows])))
        worst = max(worst, largest_difference(values[rows] / scale, found[name][rows] / scale))
    return worst
