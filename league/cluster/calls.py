"""Calls of Ray's actors: deaths that are read from their errors, and references that they carry.

A call of an actor fails in three ways. The process that was called has died, or can do no more as its GPU is
broken. Or it lives, but something that the call needs or returned was lost with another process or node. Or
its code raised an error, which is no death. Ray's errors of the first two look alike: an error that a lost
argument causes is a `RayTaskError` *and* an instance of its cause. So a learner whose argument came from a
dead aggregator seems dead itself.

What an argument refers to is fetched to the actor's node before the call's turn comes. A small object, of up
to 100 KiB, Ray copies into the call instead, a moment after the call was made. If it learns in that moment
that the actor has died, it gives the reference back twice and ends the process that called: "Check failed:
it->second.submitted_task_ref_count > 0" (seen with Ray 2.60; ray-project/ray#56123 mended the like of it for
calls that are cancelled). Here that process is the driver, and the run ended at one of a few dozen deaths of
runners. So a reference to what may be small travels inside an argument, where Ray leaves it alone, and the
actor opens it.

This module imports Ray only where an actor opens references: callers pass the module, or `ray.exceptions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from league.cluster.cards import CardBroken

_PROCESS = (
    "RayActorError",
    "WorkerCrashedError",
    "NodeDiedError",
    "LocalRayletDiedError",
    "OutOfMemoryError",
)
_OBJECT = ("ObjectLostError",)
OUT_OF_MEMORY = "out of memory"  # cause of a death
# parts of Ray's messages, the first that is found counts, and what they mean
_MEANINGS = (
    ("unexpectedly exits", "killed, or crashed"),
    ("intended system exit", "it ended itself"),
    ("low on memory", OUT_OF_MEMORY),
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
        if isinstance(cause, CardBroken):  # its process cannot compute any more
            return Death("process", str(cause))
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


def has_process(ray: Any, actor: Any) -> bool:
    """Return whether an actor has a process: it does not wait for room. `ray`: the module."""
    return bool(_known_of(ray, actor).get("Pid"))


def node_of(ray: Any, actor: Any) -> str:
    """Return the id of the node of an actor, also of a dead one; "" if it is not known."""
    return str(_known_of(ray, actor).get("Address", {}).get("NodeID", ""))


def _known_of(ray: Any, actor: Any) -> Mapping[str, Any]:
    """Return what Ray knows of an actor; {} where its function, which is not public, has changed."""
    try:
        return dict(ray._private.state.actors(actor._actor_id.hex()))
    except Exception:
        return {}


COPIED_BYTES = 2**17  # more than an object can have that Ray copies into calls


class Inside(NamedTuple):
    """A reference inside an argument."""

    reference: Any


def carried(ray: Any, argument: Any, least_bytes: int = 0) -> Any:
    """Return the argument for a call; a reference to what may be small goes inside.

    `ray`: the module; `least_bytes`: what it refers to is at least as large.
    """
    if isinstance(argument, Inside):
        argument = argument.reference
    if isinstance(argument, ray.ObjectRef) and least_bytes < COPIED_BYTES:
        return Inside(argument)
    return argument


def opened(arguments: Iterable[Any]) -> list[Any]:
    """Return the arguments of a call with what is inside in place of each reference.

    Called by actors. Waits for what is not there yet; raise what `ray.get` raises for what is lost.
    """
    given = list(arguments)
    inside = [argument.reference for argument in given if isinstance(argument, Inside)]
    if not inside:
        return given
    import ray

    found = iter(ray.get(inside))
    return [next(found) if isinstance(argument, Inside) else argument for argument in given]
