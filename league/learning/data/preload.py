"""Preload: the next minibatch travels to the GPU while the network learns from this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from league.learning.data.batching import Batch


def preload(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """The same batches on `device`, one made and copied ahead. On the CPU they pass as they are."""
    if device.type != "cuda":
        yield from batches
        return
    stream = torch.cuda.Stream(device)
    present: Batch | None = None
    for batch in batches:
        pinned = {name: tensor.pin_memory() for name, tensor in batch.tensors().items()}
        with torch.cuda.stream(stream):
            following = batch.with_tensors(
                {name: tensor.to(device, non_blocking=True) for name, tensor in pinned.items()}
            )
        if present is not None:
            yield present
        _hand_over(following, stream, device)
        present = following
    if present is not None:
        yield present


def _hand_over(batch: Batch, stream: torch.cuda.Stream, device: torch.device) -> None:
    """From `stream`, which copied it, to the one that learns from it."""
    learning = torch.cuda.current_stream(device)
    learning.wait_stream(stream)
    for tensor in batch.tensors().values():
        tensor.record_stream(learning)  # its memory is not handed out again while that one still reads
