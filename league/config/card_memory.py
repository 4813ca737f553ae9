"""Memory that the processes of a run need on their GPUs, and to play on the CPU, estimated before they start.

    CUDA          what it takes for itself in each process
    weights       of learners: with gradients and moments, the networks beside them, and a copy of all that
                  while an update may still be refused
    a batch       observations, also of the batches made ahead, and what its passes and its loss keep for
                  gradients
    snapshots     of a runner: as many as `policy_map_capacity` and `policy_map_bytes` let it keep
    side by side  the copies of snapshots that decide in one call
    play          observations and activations of all matches that decide at a time

Libraries for convolutions take workspaces beside it, and memory is freed in pieces: keep a fifth free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.config.placement import Placement
from league.config.settings import Settings
from league.learning.learner.companions import wanted
from league.learning.learner.optimizers import num_moments
from league.learning.settings import LearnerSettings
from league.models.networks.distributions import distribution
from league.models.networks.networks import build_network
from league.models.policies import dense, stacked
from league.models.spec import PolicySpec

CUDA_BYTES = 2**29
ROWS = 8  # that a network is tried with

Parts = Mapping[str, int]  # bytes by what needs them


class Sizes(NamedTuple):
    """Bytes of a network."""

    weights: int
    kept: int  # of each row, for its gradients; with those of the loss, if that is known
    widest: int  # of each row, in its largest activation


def sizes_of(spec: PolicySpec, learner: LearnerSettings | None = None) -> Sizes:
    """Return the bytes of a network, by a pass of a few rows; with `learner`, those of its loss beside it."""
    network = build_network(spec)
    own = {tensor.untyped_storage()._cdata for tensor in network.state_dict().values()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    seen = torch.zeros(ROWS, *spec.learned.shape).to(getattr(torch, spec.learned.dtype))
    memory = torch.zeros(ROWS, network.memory_size) if network.memory_size else None
    bfloat16 = learner is not None and learner.precision == "bfloat16"
    held: list[Any] = []  # as long as these are there, no address is used twice
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            held += network(seen, memory)
        if learner is not None:  # tensors of all actions may be larger than those of the network
            own_actions, parameters = distribution(spec.action, spec.squash), held[0].float()
            mask = torch.ones(ROWS, spec.action.mask_width, dtype=torch.bool)
            taken = np.zeros((ROWS, *spec.action.shape), spec.action.dtype)
            held += own_actions.evaluate(parameters, mask, torch.from_numpy(taken))
            if learner.magnet is not None or learner.needs_reference:
                held.append(own_actions.kl(parameters, parameters.detach(), mask))
    weights = sum(tensor.nbytes for tensor in network.state_dict().values())
    held.clear()
    return Sizes(weights, sum(kept.values()) // ROWS, max(kept.values(), default=0) // ROWS)


def of_learner(spec: PolicySpec, settings: LearnerSettings, processes: int = 1) -> tuple[int, int]:
    """Return the bytes of a learner's weights, and of a batch or of the part of it computed at a time."""
    sizes = sizes_of(spec, settings)
    live = 1 + num_moments(settings) + len(wanted(settings))
    copies = 2 * live + 1 + (2 if processes > 1 else 0)
    steps = min(settings.batch_steps // processes, settings.micro_steps or settings.batch_steps)
    travelling = spec.bytes_of_decision * (settings.loader_depth + 2)
    return copies * sizes.weights, steps * (sizes.kept + 2 * sizes.widest + travelling)


def of_runner(settings: Settings) -> Parts:
    """Return the bytes of a process that plays, on the device where policies compute.

    On the CPU, weights of snapshots are those of mapped files, which all processes of a node share.
    """
    specs, rollout = set(settings.policy_specs().values()), settings.rollout
    sizes = {spec: sizes_of(spec) for spec in specs}
    each = max(its.weights for its in sizes.values())
    snapshots = min(rollout.policy_map_capacity * each, rollout.policy_map_bytes or 2**63)
    if rollout.device == "cpu":
        most, fewest = dense.STACKED_BYTES, dense.MANY_POLICIES
        beside = [dense.may_stack(spec, sizes[spec].weights, settings.precision_of_play) for spec in specs]
    else:
        most, fewest = stacked.STACKED_BYTES, stacked.FEWEST
        beside = [stacked.can_stack(spec) for spec in specs]
    copies = min(snapshots, most) * sum(beside) if rollout.policy_map_capacity >= fewest else 0
    slots = settings.rollout_of_runners.slots
    play = slots * max(spec.bytes_of_decision + 2 * its.widest for spec, its in sizes.items())
    return {"snapshots": snapshots, "side by side": min(copies, snapshots), "play": play}


def on_cards(settings: Settings, placement: Placement) -> dict[str, Parts]:
    """Return the bytes that each process needs on its GPU, by the names of processes that need the same."""
    specs, alike = settings.policy_specs(), dict[tuple[int, int], list[int]]()
    roles = settings.players()
    plays = settings.rollout.device != "cpu"
    for number, shard in enumerate(placement.shards):
        if shard.num_gpus:
            each = [
                of_learner(specs[player], settings.learner_of(player, roles[player]), shard.processes)
                for player in shard.players
            ]
            needs = sum(weights for weights, _ in each), max(batch for _, batch in each)
            alike.setdefault(needs, []).append(number)
    found: dict[str, Parts] = {}
    for (weights, batch), numbers in alike.items():
        who = f"a process of shard{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        found[who] = {"CUDA": CUDA_BYTES, "weights": weights, "a batch": batch}
    if plays and placement.num_runners:
        found["a runner"] = {"CUDA": CUDA_BYTES, **of_runner(settings)}
    elif plays:  # the process that learns, on the first of its GPUs
        found = {"play": of_runner(settings)} | (found or {"the process": {"CUDA": CUDA_BYTES}})
    return found
