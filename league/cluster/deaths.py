"""Deaths in a cluster, read from the errors of calls: what died, and why in a few words.

A call of an actor fails in three ways. The process that was called has died. Or it lives, but something that
the call needs or returned was lost with another process or node. Or its code raised an error, which is no
death. Ray's errors of the first two look alike: an error that a lost argument causes is a `RayTaskError`
*and* an instance of its cause. So a learner whose argument came from a dead aggregator seems dead itself.

This module does not import Ray: callers pass `ray.exceptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

_PROCESS = (
    "RayActorError",
    "WorkerCrashedError",
    "NodeDiedError",
    "LocalRayletDiedError",
    "OutOfMemoryError",
)
_OBJECT = ("ObjectLostError",)
# parts of Ray's messages, the first that is found counts, and what they mean
_MEANINGS = (
    ("unexpectedly exits", "killed, or crashed"),
    ("intended system exit", "it ended itself"),
    ("low on memory", "out of memory"),
    ("node has died", "its node was lost"),
    ("node was terminated", "its node was lost"),
    ("ray.kill", "ended by this run"),
    ("creation task", ""),
    ("unavailable", "it cannot be reached"),
    ("owner", "lost with the process that made it"),
    ("lost", "lost with its node"),
)
LONGEST = 160  # characters of a cause


@dataclass(frozen=True, slots=True)
class Death:
    """Death behind the error of a call: of the process that was called, or of an object that it needed."""

    of: Literal["process", "object"]
    cause: str  # one line
    actor: str = ""  # id of the process that died, in hexadecimal; "": not known


def death_of(error: BaseException, errors: Any) -> Death | None:
    """Return the death behind `error`; `None` if it was raised by the code that was called.

    `errors`: the module `ray.exceptions`.
    """
    process, lost = _classes(errors, _PROCESS), _classes(errors, _OBJECT)
    if isinstance(error, errors.RayTaskError):  # the process that raised it lives
        cause: Any = getattr(error, "cause", None)
        while isinstance(cause, errors.RayTaskError):
            cause = getattr(cause, "cause", None)
        if isinstance(cause, process + lost):
            return Death("object", in_words(cause), _actor(cause))
        return None
    if isinstance(error, process):
        return Death("process", in_words(error), _actor(error))
    if isinstance(error, lost):
        return Death("object", in_words(error))
    return None


def _classes(errors: Any, names: tuple[str, ...]) -> tuple[type[BaseException], ...]:
    return tuple(getattr(errors, name) for name in names if hasattr(errors, name))


def _actor(error: Any) -> str:
    return str(getattr(error, "actor_id", None) or "")


def in_words(error: BaseException) -> str:
    """Return the cause of a death in a few words, or the last line of the message if none fit."""
    text = str(error)
    for part, meaning in _MEANINGS:
        if part in text.lower() and meaning:
            return meaning
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LONGEST] if lines else type(error).__name__
