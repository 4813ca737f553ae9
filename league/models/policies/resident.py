"""Resident policies: the weights of many snapshots side by side on one device.

Snapshots of one architecture have tensors of equal shapes, so each tensor is a row of one stacked tensor
[rows, *shape], and a policy uses its row in place. The row of an evicted snapshot is overwritten by the
next one. Leased snapshots are never evicted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from storage.cache.policy_map import PolicyMap, TierInfo
from storage.errors import Mistake

Key = TypeVar("Key", bound=Hashable)


def check_device(device: str, where: str = "here") -> None:
    """Raise Mistake if policies cannot play on `device` (cpu, cuda) of this machine."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise Mistake(
            f"rollout.device: found {device}, but torch sees no GPU {where}, expected cpu; set it to cpu, or "
            "play where there is a GPU"
        )


class ResidentStack:
    """Room for the tensors of `capacity` snapshots of one architecture on a device."""

    def __init__(self, like: Mapping[str, Tensor], capacity: int, device: torch.device) -> None:
        """Allocate the stack; `like` holds the tensors of one such snapshot."""
        self.stacked = {
            name: torch.empty((capacity, *tensor.shape), dtype=tensor.dtype, device=device)
            for name, tensor in like.items()
        }
        self._free = list(range(capacity))

    def put(self, tensors: Mapping[str, Tensor]) -> int | None:
        """Copy `tensors` into a free row and return its number, or `None` if no row is free."""
        if not self._free:
            return None
        row = self._free.pop()
        for name, stack in self.stacked.items():
            stack[row].copy_(tensors[name])
        return row

    def row(self, row: int) -> dict[str, Tensor]:
        """Return views of the tensors of this row."""
        return {name: stack[row] for name, stack in self.stacked.items()}

    def free(self, row: int) -> None:
        """Allow the row to be overwritten."""
        self._free.append(row)


@dataclass(frozen=True, slots=True)
class _Resident:
    policy: Policy
    bytes: int
    row: int | None  # `None`: outside of the stack, which was full of leased policies


class ResidentPolicies(Generic[Key]):
    """Policies on a device: the `capacity` last used, and all leased ones. For one thread."""

    def __init__(
        self,
        capacity: int,
        device: torch.device,
        lend: Callable[[Key], contextlib.AbstractContextManager[Policy]],
    ) -> None:
        """Make an empty cache. `lend` provides the policy of a key on the CPU while it is copied."""
        self._rows = capacity + 1  # a new policy is placed before the oldest is evicted
        self._device = device
        self._lend = lend
        self._stacks: dict[PolicySpec, ResidentStack] = {}
        self._policies: PolicyMap[Key, _Resident] = PolicyMap(
            capacity, self._place, size=lambda resident: resident.bytes, release=self._leave
        )

    @contextlib.contextmanager
    def lease(self, key: Key) -> Iterator[Policy]:
        """Lend the policy of `key`. Its weights are valid until the end of the block."""
        with self._policies.lease(key) as resident:
            yield resident.policy

    def info(self) -> TierInfo:
        """Return counters of the cache tier `device`."""
        return self._policies.info("device")

    def _place(self, key: Key) -> _Resident:
        with self._lend(key) as policy:
            spec, tensors = policy.spec, policy.tensors
            if spec not in self._stacks:
                self._stacks[spec] = ResidentStack(tensors, self._rows, self._device)
            stack = self._stacks[spec]
            row = stack.put(tensors)
            if row is None:
                own = {name: tensor.to(self._device, copy=True) for name, tensor in tensors.items()}
            else:
                own = stack.row(row)
            size = sum(tensor.nbytes for tensor in own.values())
            return _Resident(Policy(spec, own, policy.name), size, row)

    def _leave(self, resident: _Resident) -> None:
        if resident.row is not None:
            self._stacks[resident.policy.spec].free(resident.row)
