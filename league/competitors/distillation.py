"""Distilling: one network that plays as a mixture does.

The mixture plays itself. In each match every seat is one member's, drawn for it, and the network learns to
give the likelihood of what was done. In its best fit it plays each action as often as the mixture does in
the same situation, so it is the average policy of fictitious self-play (Heinrich, Lanctot, Silver: Fictitious
self-play in extensive-form games, ICML 2015). Its values are those of the mixture's own games.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.competitors.mixtures import NamedMixture
from league.competitors.modes import SAMPLE
from league.competitors.names import Names, load_actor, source_of
from league.envs import registry
from league.envs.base import BatchedGame
from league.models.actor import Actor
from league.models.networks.distributions import distribution
from league.models.networks.networks import build_network
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from league.rollout.seats import Seats
from league.rollout.snapshots import load_tensors
from storage.arrays import Bools, Floats32
from storage.disk import Progress
from storage.errors import Mistake
from storage.reader import ArchiveReader
from storage.upkeep.exports import MAX_TEXT, UNSPECIFIED, check_place, export_made

LR = 2e-3  # falls to 0 along a cosine
SLOTS = 512  # matches at a time
BATCH = 1_024  # decisions of one step
VALUE_SHARE = 0.25  # weight of the squared error of values, in units of the returns' variance
_LARGEST_GRADIENT = 1.0


@dataclass(frozen=True, slots=True)
class MixtureDecisions:
    """n decisions of a mixture, of whole matches."""

    observation: npt.NDArray  # [n, *shape], as the game shows it
    mask: Bools  # [n, mask_width]
    raw: npt.NDArray  # [n, *action.shape], what it drew
    returns: Floats32  # [n], rewards of the seat from this decision to the end


@dataclass(frozen=True, slots=True)
class Distilled:
    """Weights of a network, and how well it plays as the mixture does."""

    tensors: dict[str, Tensor]
    decisions: int  # that it learned from
    first_loss: float  # mean negative log-likelihood of the first twentieth of the steps, in nats
    last_loss: float  # of the last twentieth


def distil_to(
    reader: ArchiveReader,
    name: str,
    folder: Path,
    license: str = UNSPECIFIED,
    *,
    decisions: int,
    seed: int = 0,
    progress: Progress = lambda what, done, total: None,
) -> Distilled:
    """Distil the mixture `name` of `reader`'s run into one network, and export it to `folder`.

    It is a network like its newest member's, and begins with that one's weights. Raise Mistake for anything
    but a mixture, for a network that remembers and for a folder that exists, UnknownCompetitor for an unknown
    name.
    """
    env = reader.env()
    mixture = Names(reader).mixture(name)
    if not isinstance(mixture, NamedMixture):
        raise Mistake(f"distil: '{name}' is no mixture, expected one, such as main-0:average, :nash or A+B")
    check_place(folder, license)
    newest = mixture.newest
    source = source_of(reader, newest, SAMPLE, reader.remote())
    step_limit = reader.config().get("rollout", {}).get("step_limit")
    game = registry.make(env["id"], SLOTS, step_limit=step_limit, **env["options"])
    found = distil(
        load_actor(reader.run, name),
        game,
        source.spec,
        dict(load_tensors(source)),
        decisions=decisions,
        seed=seed,
        progress=lambda done: progress("distilling", min(done, decisions), decisions),
    )
    manifest = reader.manifest(newest.snapshot_id) | {
        "snapshot_id": f"{newest.player}-distilled@{newest.env_steps}",
        "parent_id": None,
        "reason": f"distilled from {name[:MAX_TEXT]}",
        "evidence": {"decisions": found.decisions, "loss": found.last_loss},
        "env": env,
    }
    export_made(manifest, found.tensors, folder, license)
    return found


def distil(
    mixture: Actor,
    game: BatchedGame,
    spec: PolicySpec,
    tensors: dict[str, Tensor],
    *,
    decisions: int,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> Distilled:
    """Return a network of `spec`, trained from `tensors` on `decisions` of the mixture's own matches.

    `progress` is called with the number of decisions learned from so far. Raise Mistake for a network or for
    connectors that remember: what they remember depends on who plays.
    """
    if Policy(spec, tensors).memory_size:
        raise Mistake(
            "distil: the newest member's policy remembers earlier decisions (policy.memory, connectors), "
            "expected one that does not; export the mixture as it is: league snapshots RUN export NAME DIR"
        )
    rng = np.random.default_rng(seed)
    network = build_network(spec)
    network.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()})
    mirrored = network.mirrored
    optimizer = torch.optim.Adam(network.parameters(), lr=LR)
    actions = distribution(spec.action, spec.squash)
    steps = max(decisions // BATCH, 1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    policy, losses, done = Policy(spec, tensors), [], 0
    while done < steps:
        shown = play(mixture, game, rng)
        order = rng.permutation(len(shown.returns))
        spread = float(shown.returns.var()) or 1.0
        for start in range(0, max(len(order) - BATCH, 0) + 1, BATCH):
            rows = order[start : start + BATCH]
            seen, raw, returns = (
                torch.from_numpy(each)
                for each in (policy.see(shown.observation[rows]), shown.raw[rows], shown.returns[rows])
            )
            parameters, value = network(seen)
            log_prob, _ = actions.evaluate(parameters, torch.from_numpy(shown.mask[rows]), raw)
            loss = -log_prob.mean()
            whole = loss
            if not spec.others:  # else the value would have to see what is not shown here
                whole = loss + VALUE_SHARE * (value - returns).square().mean() / spread
            optimizer.zero_grad(set_to_none=True)
            whole.backward()
            if mirrored is not None:
                mirrored.average_gradients()
            torch.nn.utils.clip_grad_norm_(network.parameters(), _LARGEST_GRADIENT)
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
            done += 1
            if done == steps:
                break
        progress(done * BATCH)
    few = max(len(losses) // 20, 1)
    return Distilled(
        {name: tensor.detach().clone() for name, tensor in network.state_dict().items()},
        done * BATCH,
        float(np.mean(losses[:few])),
        float(np.mean(losses[-few:])),
    )


def play(mixture: Actor, game: BatchedGame, rng: np.random.Generator) -> MixtureDecisions:
    """Play a match in each slot of `game`, the mixture in all seats, and return its decisions."""
    n = game.num_slots
    slots = np.arange(n)
    seats = Seats(game, [mixture], [1.0], learners=(0,))
    seats.begin(slots, np.zeros((n, game.num_seats), dtype=np.int32))
    game.reset(slots, rng.integers(2**62, size=n))
    score = np.zeros((n, game.num_seats), dtype=np.float32)
    parts: list[tuple[npt.NDArray, ...]] = []
    while game.active.any():
        taken_actions = []
        for block in game.due():
            action, taken, *_ = seats.decide(block, rng)
            taken_actions.append(action)
            for _, own in taken:
                observation = game.look(own.slot, own.seat)
                before = score[own.slot, own.seat]
                parts.append((observation, own.mask, own.chosen.raw, own.slot, own.seat, before))
        transition = game.step(taken_actions)
        score += transition.rewards
        seats.rewarded(transition.rewards)
    columns = list(zip(*parts, strict=True))
    observation, mask, raw, slot, seat, before = (np.concatenate(column) for column in columns)
    return MixtureDecisions(observation, mask, raw, score[slot, seat] - before)
