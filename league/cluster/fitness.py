"""Nodes that are unfit: what runs there fails, and the same runs on other nodes.

A cache folder that cannot be used, a full disk, no memory, another version, a missing module: whatever the
error is, it is the node's if it shows on one and others are fit, and the user's if it shows on all of them.
An unfit node gets nothing to do. It is tried after AGAIN_SECONDS, and after twice as long at each time that
was in vain.

What is known of the nodes is shared by all groups of this process's Ray session (`fitness`).
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from league.cluster.nodes import NODE_LABEL, Seen, look
from storage.errors import DiskFailed, Failure, Mistake, UnfitNode
from storage.incidents import Incident

AGAIN_SECONDS, MOST_SECONDS = 60.0, 960.0  # until an unfit node is tried again
STARTS = 2  # of runners on a node in a row that die before they have begun, after which it is unfit
LONGEST = 300  # characters of a cause
OF_NODES = (OSError, MemoryError, ImportError, DiskFailed, UnfitNode)
_REMEDIES = (
    (ImportError, "install it on every node, or send it along with resources.runtime_env"),
    (MemoryError, "give the node more memory, or lower runners"),
)


class Trial(NamedTuple):
    """A runner that begins on an unfit node, to try it."""

    actor: Any
    begun: Any  # reference


@dataclass(slots=True)
class Unfit:
    """An unfit node."""

    cause: str
    since: float  # when it was tried last
    pause: float = field(default_factory=lambda: AGAIN_SECONDS)
    trial: Trial | None = None


def sentence_of(error: BaseException) -> str:
    """Return the cause of an error of a node on one line, with a remedy if one is known."""
    error = getattr(error, "cause", None) or error
    text = " ".join(str(error).split())[:LONGEST]
    if isinstance(error, Mistake | Failure):
        return text
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT):
        remedies = ["make room there, or set storage.cache_folder to another folder"]
    else:
        remedies = [remedy for kind, remedy in _REMEDIES if isinstance(error, kind)]
    return "; ".join([f"{type(error).__name__}: {text}" if text else type(error).__name__, *remedies])


def own_error(error: Exception, node: str, *, begun: bool) -> Exception:
    """Return what is to be raised for an error that is not one node's alone.

    Errors that are of machines become a sentence: a mistake, or a failure once the run has `begun`.
    """
    cause = getattr(error, "cause", error)
    if not isinstance(cause, OF_NODES):
        return error
    text = f"node {node}: {sentence_of(error)}" if node else sentence_of(error)
    if begun:
        return Failure(f"{text}. No other node is fit. What was recorded is kept: go on with --resume")
    return Mistake(text)


class Fitness:
    """Which nodes are unfit, and why."""

    def __init__(self, looks: Callable[[], Seen] = look) -> None:
        """Take all nodes to be fit. `looks` returns the nodes as they are now."""
        self._looks = looks
        self._unfit: dict[str, Unfit] = {}
        self._dead: Counter[str] = Counter()  # runners in a row that died there before they had begun
        self._untold: list[Incident] = []

    def begin(self, unfit: Mapping[str, str]) -> None:
        """Forget all nodes; note those that are unfit from the beginning, with the cause of each."""
        self._unfit.clear()
        self._dead.clear()
        self._untold = []
        seen = self._looks() if unfit else Seen()
        for node_id, cause in unfit.items():
            self._untold.append(self._note(node_id, cause, seen))

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._unfit

    def selector(self) -> dict[str, str] | None:
        """Return what Ray's `label_selector` must be to avoid all unfit nodes; `None` if there are none."""
        return {NODE_LABEL: f"!in({','.join(self._unfit)})"} if self._unfit else None

    def fit(self, seen: Seen) -> dict[str, Any]:
        """Return the nodes that are fit and stay."""
        return {node_id: node for node_id, node in seen.staying().items() if node_id not in self._unfit}

    def blame(self, node_id: str, cause: str) -> Incident | None:
        """Note that a node is unfit; `None` if there is no other node that is fit: it is not to blame."""
        seen: Seen | None = None
        with contextlib.suppress(Exception):  # no answer, or no cluster
            seen = self._looks()
        if seen is None or not node_id:
            return None
        others = [node for other, node in self.fit(seen).items() if other != node_id]
        if not any(node.resources.get("CPU") for node in others):
            return None
        return self._note(node_id, cause, seen)

    def died(self, node_id: str, *, out_of_memory: bool) -> bool:
        """Count a death on a node, of a runner that had not begun or lacked memory.

        Return whether it was the last of too many.
        """
        self._dead[node_id] += 1
        return self._dead[node_id] >= STARTS + out_of_memory

    def lives(self, node_id: str) -> None:
        """Note that a runner on the node has begun."""
        self._dead.pop(node_id, None)

    def untold(self) -> list[Incident]:
        """Return the incidents of nodes that were unfit from the beginning, once."""
        untold, self._untold = self._untold, []
        return untold

    def try_again(self, seen: Seen, ray: Any, begin: Callable[[str], Trial]) -> list[str]:
        """Try unfit nodes that are due; return a sentence for each that is fit again.

        `begin` begins a runner on a node. What is known of nodes that are gone is forgotten.
        """
        lines = []
        for node_id, known in list(self._unfit.items()):
            if node_id not in seen.nodes:
                del self._unfit[node_id]
            elif known.trial is not None:
                if ray.wait([known.trial.begun], timeout=0)[0] and self._passed(ray, node_id, known):
                    lines.append(f"node {seen.full_name(node_id)} is fit again, and gets work")
            elif time.monotonic() - known.since >= known.pause:
                known.trial = begin(node_id)
        return lines

    def _passed(self, ray: Any, node_id: str, known: Unfit) -> bool:
        assert known.trial is not None
        actor, begun = known.trial
        known.trial, known.since, known.pause = None, time.monotonic(), min(2 * known.pause, MOST_SECONDS)
        try:
            ray.get(begun)
        except ray.exceptions.RayError as error:
            known.cause = sentence_of(error)
            return False
        finally:
            with contextlib.suppress(Exception):  # it may have died
                ray.kill(actor)
        del self._unfit[node_id]
        return True

    def _note(self, node_id: str, cause: str, seen: Seen) -> Incident:
        self._unfit[node_id] = Unfit(cause, time.monotonic())
        self._dead.pop(node_id, None)
        return Incident(
            kind="node",
            who=f"node {seen.full_name(node_id)}",
            cause=cause,
            remedy=f"it gets nothing to do, and is tried again after {AGAIN_SECONDS:.0f} s",
        )


fitness = Fitness()
"""Of the nodes of this process's Ray session, of which there is one at most."""
