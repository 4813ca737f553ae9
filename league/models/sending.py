"""Sending: many tensors that go to a GPU, or come back from it, side by side in one copy.

Each copy costs the host about as much as a kernel, and one from memory that is not pinned waits for the GPU.
So what is sent is packed in pinned memory, which torch's allocator keeps until the copy is done. What is
large and pinned already goes by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

PINNED_BYTES = 2**20  # of which a copy within the host takes longer than one more copy to a GPU
ALIGNED = 256  # bytes at which each tensor begins, as kernels like it


def sent(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the tensors on `device`, those of the CPU by copies that the host does not wait for."""
    away = {name: tensor for name, tensor in tensors.items() if tensor.device.type == "cpu"}
    if device.type == "cpu" or not away:
        return {name: tensor.to(device) for name, tensor in tensors.items()}
    pinned = [name for name, tensor in away.items() if tensor.nbytes >= PINNED_BYTES and tensor.is_pinned()]
    own = {name: away.pop(name).to(device, non_blocking=True) for name in pinned}
    sizes = [-(-tensor.nbytes // ALIGNED) * ALIGNED for tensor in away.values()]
    packed = torch.empty(sum(sizes), dtype=torch.uint8, pin_memory=device.type == "cuda")
    for part, tensor in zip(packed.split(sizes), away.values(), strict=True):
        _as(part, tensor).copy_(tensor)
    arrived = packed.to(device, non_blocking=True).split(sizes)
    # .data: a tensor that is changed in place is not the others' change
    found = own | {name: _as(part, away[name]).data for name, part in zip(away, arrived, strict=True)}
    return {name: found[name] if name in found else tensor.to(device) for name, tensor in tensors.items()}


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the tensors where they are, those on a GPU by one kernel."""
    there = _side_by_side(tensors)
    return {
        name: there[name] if name in there else tensor.detach().clone() for name, tensor in tensors.items()
    }


def fetched(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the tensors on the CPU. A GPU is waited for once."""
    there = _side_by_side(tensors, torch.device("cpu")) if len(tensors) > 1 else {}
    return {
        # a tensor of its own: pickled, a view would bring all the others along
        name: there[name].clone() if name in there else tensor.detach().to("cpu", copy=True)
        for name, tensor in tensors.items()
    }


def _side_by_side(tensors: Mapping[str, Tensor], device: torch.device | None = None) -> dict[str, Tensor]:
    """Return those on a GPU as parts of one copy, on `device`, by default where they are."""
    away = {name: tensor.detach() for name, tensor in tensors.items() if tensor.device.type != "cpu"}
    if not away:
        return {}
    names = sorted(away, key=lambda name: -away[name].itemsize)  # so all begin where their type may
    packed = torch.cat([away[name].reshape(-1).view(torch.uint8) for name in names])
    parts = packed.to(device or packed.device).split([away[name].nbytes for name in names])
    return {name: _as(part, away[name]) for name, part in zip(names, parts, strict=True)}


def _as(part: Tensor, like: Tensor) -> Tensor:
    """Return the first of these bytes as a tensor like another one."""
    return part[: like.nbytes].view(like.dtype).view(like.shape)
