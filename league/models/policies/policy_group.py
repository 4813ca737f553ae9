"""PolicyGroup: policies of one spec that decide in one call. Party: a group, or another actor, among many.

Work by rows (connectors, drawing) is done once for all policies. The networks run one after the other,
with their weights in place. Side by side run, if they have few rows each, plain mlps on a CPU (`DenseGroup`),
and all but a user's own networks on a GPU (`StackedGroup`).

Microseconds per row (`python -m tests.bench.policy_groups`) for separate calls, one after the other, side by
side, and side by side in bfloat16: 128 networks 84-64-64 with 2 rows each: 47, 13.9, 7.0, 6.0; 84-256-256
with 8 rows each: 24, 12.7, 12.5, 7.2; with 32 rows each: 7.4, 5.5, 5.5, 2.9. The larger networks spend the
time on reading weights, which copies reduce in bfloat16 alone.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.models.actor import Actor, Chosen, Look
from league.models.policies.dense import DenseGroup, is_dense
from league.models.policies.policy import Policy
from league.models.policies.stacked import StackedGroup, can_stack
from league.models.spec import Precision
from storage.arrays import Bools, Indices


class PolicyGroup:
    """Policies of one spec, on one device. Memory and reward are the same as in `Policy`."""

    def __init__(self, policies: Sequence[Policy], precision: Precision = "float32") -> None:
        """`precision`: in which fully connected layers are computed on the CPU."""
        self.policies = policies
        self.memory_size = policies[0].memory_size
        self.wants_reward = policies[0].wants_reward
        first = policies[0]
        on_cpu, spec = first.device.type == "cpu", first.spec
        # a GPU takes hardly longer for a few rows more
        self._leaves_out, self._num_parameters = on_cpu and not self.memory_size, first.num_parameters
        self._stacked = StackedGroup(policies) if not on_cpu and can_stack(spec) else None
        self._dense = DenseGroup(policies, precision) if on_cpu and is_dense(spec) else None

    def decide(
        self, counts: Indices, look: Look, rng: np.random.Generator, temperature: float = 1.0
    ) -> Chosen:
        """Decide as `Policy.decide` does, for rows in the order of the policies, `counts` [k] of each.

        Of rows that are settled, the networks of policies without a memory are not asked.
        """
        step = functools.partial(self._step, counts)
        if look.settled is not None and self._leaves_out and look.settled.any():
            step = functools.partial(self._step_of, ~look.settled, counts)
        return self.policies[0].decide_by(step, look, rng, temperature)

    def _step_of(
        self, asked: Bools, counts: Indices, seen: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Do `_step` for the rows that are `asked` [n]; the parameters of the others are 0."""
        parameters = torch.zeros((len(seen), self._num_parameters))
        rows = np.flatnonzero(asked)
        if len(rows):
            ends = np.cumsum(counts)
            own = np.diff(np.searchsorted(rows, ends), prepend=0)
            parameters[rows], _ = self._step(own, seen[rows], None)
        return parameters, memory

    def _step(self, counts: Indices, seen: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self._dense is not None:
            return self._dense(counts, seen), memory
        if self._stacked is not None:
            return self._stacked(counts, seen, memory)
        seen, memory = self.policies[0].on_device(seen, memory)
        sizes = counts.tolist()
        memories = [None] * len(sizes) if memory is None else memory.split(sizes)
        stepped = [
            policy.step(rows, its)
            for policy, rows, its in zip(self.policies, seen.split(sizes), memories, strict=True)
            if len(rows)
        ]
        after = None if memory is None else torch.cat([m for _, m in stepped if m is not None])
        return torch.cat([parameters for parameters, _ in stepped]), after


class Party(NamedTuple):
    """Policies of one spec at one temperature, or a single actor of any other kind.

    Its members occupy adjacent places, from `first` up to (not including) `end`.
    """

    actor: Actor | PolicyGroup
    temperature: float
    first: int
    end: int

    def decide(self, counts: Indices, look: Look, rng: np.random.Generator, temperature: float) -> Chosen:
        """Decide for rows in the order of the members, `counts` [k] of each."""
        if isinstance(self.actor, PolicyGroup):
            return self.actor.decide(counts, look, rng, temperature)
        return self.actor.decide(look, rng, temperature)


def parties_of(
    actors: Sequence[Actor], temperatures: Sequence[float], precision: Precision = "float32"
) -> tuple[list[Party], list[int]]:
    """Return the parties, and for each place the index of its actor.

    `precision`: in which policies compute on the CPU.
    """
    kinds: dict[Hashable, list[int]] = {}
    for who, actor in enumerate(actors):
        kind = (actor.spec, actor.device, temperatures[who]) if isinstance(actor, Policy) else who
        kinds.setdefault(kind, []).append(who)
    parties: list[Party] = []
    places: list[int] = []
    for members in kinds.values():
        first = actors[members[0]]
        policies = [actor for actor in (actors[who] for who in members) if isinstance(actor, Policy)]
        decides = PolicyGroup(policies, precision) if policies else first
        parties.append(Party(decides, temperatures[members[0]], len(places), len(places) + len(members)))
        places += members
    return parties, places
