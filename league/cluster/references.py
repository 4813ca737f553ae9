"""References in calls of Ray's actors: as arguments, or inside of them.

What an argument refers to is fetched to the actor's node before the call's turn comes. A small object, of up
to 100 KiB, Ray copies into the call instead, a moment after the call was made. If it learns in that moment
that the actor has died, it gives the reference back twice and ends the process that called: "Check failed:
it->second.submitted_task_ref_count > 0" (seen with Ray 2.60; ray-project/ray#56123 mended the like of it for
calls that are cancelled). Here that process is the driver, and the run ended at one of a few dozen deaths of
runners. So a reference to what may be small travels inside an argument, where Ray leaves it alone, and the
actor opens it.

This module imports Ray only where an actor opens references: callers pass the module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
