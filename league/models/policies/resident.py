"""Resident policies: the weights of many snapshots on one device.

A device holds what is resident and no more. Torch's allocator gives the memory of an evicted snapshot to the
next one of its architecture, whose tensors have equal sizes. Leased snapshots are never evicted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

import torch

from league.cluster.cards import require_precision
from league.models.policies.policy import Policy
from storage.cache.policy_map import PolicyMap, TierInfo
from storage.errors import Mistake

Key = TypeVar("Key", bound=Hashable)


def check_device(device: str, precision: str, where: str = "here") -> None:
    """Raise Mistake if policies cannot play on `device` (cpu, cuda) of this machine in this precision."""
    if device == "cpu":
        return
    if torch.cuda.is_available():
        require_precision("rollout.precision", precision, device)
    else:
        raise Mistake(
            f"rollout.device: found {device}, but torch sees no GPU {where}, expected cpu; set it to cpu, or "
            "play where there is a GPU"
        )


class ResidentPolicies(Generic[Key]):
    """Policies on a device: the `capacity` last used, within `max_bytes`, and all leased ones."""

    def __init__(
        self,
        capacity: int,
        device: torch.device,
        lend: Callable[[Key], contextlib.AbstractContextManager[Policy]],
        max_bytes: int | None = None,
    ) -> None:
        """Make an empty cache. `lend` provides the policy of a key on the CPU while it is copied."""
        self._device = device
        self._lend = lend
        self._max_bytes = max_bytes
        self._policies: PolicyMap[Key, Policy] = PolicyMap(capacity, self._place, max_bytes, size=_size)

    @contextlib.contextmanager
    def lease(self, key: Key) -> Iterator[Policy]:
        """Lend the policy of `key`, which stays resident until the end of the block.

        Raise Mistake if it alone has more bytes than all may have.
        """
        with self._policies.lease(key) as policy:
            yield policy

    def info(self) -> TierInfo:
        """Return counters of the cache tier `device`."""
        return self._policies.info("device")

    def _place(self, key: Key) -> Policy:
        with self._lend(key) as policy:
            size = _size(policy)
            if self._max_bytes is not None and size > self._max_bytes:
                raise Mistake(
                    f"rollout.policy_map_bytes: found {self._max_bytes:,}, but {policy.name} alone has "
                    f"{size:,} bytes on the {self._device.type} device; set it to that or more, or to null"
                )
            own = {name: tensor.to(self._device, copy=True) for name, tensor in policy.tensors.items()}
            return Policy(policy.spec, own, policy.name)


def _size(policy: Policy) -> int:
    return sum(tensor.nbytes for tensor in policy.tensors.values())
