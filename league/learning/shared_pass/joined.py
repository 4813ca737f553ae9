"""Join: the minibatches of several players as one, for a single pass over all of them.

Networks see each player's rows under that player's weights. Everything else is computed step by step,
for the steps of all players, one player behind the other, without padding. Only sums are separated
again by player.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from league.learning.data.batching import Batch

NOWHERE = 2**62  # beyond every row: padding


@dataclass(frozen=True, slots=True)
class Joined:
    """The minibatches of P players: N steps in all, and K bootstraps."""

    batch: Batch  # the steps of all, then rows for the bootstraps; without observations
    owner: Tensor  # [N] int64: the player of each step, 0 to P - 1
    steps: list[int]  # [P] of each
    bootstraps: list[int]  # [P] of each

    def flat(self, found: Sequence[Tensor]) -> Tensor:
        """Join values of each player's rows, [steps + bootstraps or more, ...] -> [N + K, ...]."""
        steps = [rows[:n] for rows, n in zip(found, self.steps, strict=True)]
        bootstraps = [
            rows[n : n + k] for rows, n, k in zip(found, self.steps, self.bootstraps, strict=True) if k
        ]
        return torch.cat([*steps, *bootstraps])

    def means(self, columns: Tensor) -> Tensor:
        """Return means over each player's steps, [C, N] -> [P, C]."""
        return torch.stack([part.mean(1) for part in columns.split(self.steps, 1)])


def join(batches: Sequence[Batch]) -> Joined:
    """Join `batches`: of one kind, on one device, each with a step or more, none shared among peers."""
    device = batches[0].reward.device
    steps = [batch.num_steps for batch in batches]
    bootstraps = [len(batch.observation) - n for batch, n in zip(batches, steps, strict=True)]
    sequences = [batch.rows.shape[1] for batch in batches]
    num_steps, num_bootstraps = sum(steps), sum(bootstraps)
    counts = torch.tensor([steps, bootstraps, sequences], device=device)
    number = torch.arange(len(batches), device=device)
    owner = number.repeat_interleave(counts[0], output_size=num_steps)
    of_sequence = number.repeat_interleave(counts[2], output_size=sum(sequences))
    first, first_bootstrap, _ = counts.cumsum(1) - counts  # of each player, among those of all
    n, k, _ = counts[:, of_sequence]
    # [T, B] of all: rows of steps and bootstraps are renumbered, padding is behind the last
    rows, after = _side_by_side([b.rows for b in batches]), _side_by_side([b.after for b in batches])
    of_steps = first[of_sequence]
    of_bootstraps = num_steps + first_bootstrap[of_sequence] - n
    following = torch.where(after < n, after + of_steps, after + of_bootstraps)
    found: dict[str, Any] = {
        "observation": batches[0].observation[:0],
        "rows": torch.where(rows < n, rows + of_steps, num_steps),
        "after": torch.where(after < n + k, following, num_steps + num_bootstraps),
    }
    kind = type(batches[0])
    for field in fields(kind):
        # columns of learner connectors are for losses that see more than log-probabilities
        if field.name not in found and field.name not in ("total_steps", "own"):
            found[field.name] = torch.cat([getattr(batch, field.name) for batch in batches])
    return Joined(kind(**found, total_steps=num_steps), owner, steps, bootstraps)


def _side_by_side(layouts: Sequence[Tensor]) -> Tensor:
    """Put layouts side by side, [T_p, B_p] of each player -> [T, B], padded at the end of time."""
    length = max(len(layout) for layout in layouts)
    return torch.cat([F.pad(x, (0, 0, 0, length - len(x)), value=NOWHERE) for x in layouts], 1)
