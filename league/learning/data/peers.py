"""Peers: the processes that share each update of a player.

Every one of them gets the same episodes and draws the same minibatches; each takes its share of
a minibatch's sequences, and gradients are summed. So k processes reach the same weights as one.
"""

from __future__ import annotations

import contextlib
import datetime
import heapq
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from league.cluster.cards import LONGEST, failure_of
from storage.arrays import Indices
from storage.errors import Failure

MEETING_SECONDS = 600.0  # until all have begun, for which one may wait for a node
SUM_SECONDS = 60.0  # of a sum: shares of an update take about as long, so one of them hangs


class Peers:
    """Processes that share a learner's updates; of this class itself: this process alone."""

    rank = 0  # number of this process
    size = 1  # number of processes

    def sum(self, tensor: Tensor) -> None:
        """Add up `tensor` over all peers, in place. All must take part, with equal shapes."""


ALONE = Peers()


class PeersLost(Failure):
    """Peers without which this process can make no sum: one of them died, or hangs."""


class DistributedPeers(Peers):
    """Peers in other processes, by torch.distributed: gloo, or nccl between GPUs.

    nccl itself ends a process whose sum takes longer than SUM_SECONDS.
    """

    def __init__(self, distributed: Any, rank: int, size: int) -> None:
        self._distributed, self.rank, self.size = distributed, rank, size

    @staticmethod
    def join(address: str, rank: int, size: int, device: str = "cpu") -> DistributedPeers:
        """Return this process's peers, after all met at `address`, "host:port" on the machine of rank 0.

        One group per process: its learners share it, in the same order everywhere.
        """
        import torch.distributed

        host, _, port = address.rpartition(":")
        meeting, limit = (datetime.timedelta(seconds=s) for s in (MEETING_SECONDS, SUM_SECONDS))
        torch.distributed.init_process_group(
            "nccl" if device.startswith("cuda") else "gloo",
            store=torch.distributed.TCPStore(host, int(port), size, is_master=rank == 0, timeout=meeting),
            rank=rank,
            world_size=size,
            timeout=limit,
        )
        return DistributedPeers(torch.distributed, rank, size)

    def sum(self, tensor: Tensor) -> None:
        """Add up `tensor` over all peers, in place. Raise PeersLost without an answer in SUM_SECONDS."""
        try:
            self._distributed.all_reduce(tensor)
        except RuntimeError as error:
            if failure_of(error) is not None:  # of this process's own GPU
                raise
            raise PeersLost(
                f"process {self.rank} of {self.size} that share an update waits for another, which died or "
                f"did not answer for {SUM_SECONDS:g} s: {' '.join(str(error).split())[:LONGEST]}"
            ) from error


def free_address(host: str = "127.0.0.1") -> str:
    """Return an address "host:port" of this machine where peers can meet."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def shard_episodes(lengths: Sequence[int] | Indices, k: int) -> list[Indices]:
    """Return indices of whole sequences for each of `k` shares, in order, none left out and none twice.

    The longest go first, each to the share with the fewest steps: the greatest and the smallest
    share then differ by at most the longest sequence.
    """
    if k == 1:
        return [np.arange(len(lengths))]
    shares: list[list[int]] = [[] for _ in range(k)]
    least = [(0, share) for share in range(k)]
    sizes = np.asarray(lengths, dtype=np.int64)
    for index in np.argsort(-sizes, kind="stable").tolist():
        steps, share = heapq.heappop(least)
        shares[share].append(index)
        heapq.heappush(least, (steps + int(sizes[index]), share))
    return [np.array(sorted(share), dtype=np.int64) for share in shares]
