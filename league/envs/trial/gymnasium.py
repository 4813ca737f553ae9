"""Trial of a gymnasium env itself, before an adapter reads it: what `reset` and `step` return."""

from __future__ import annotations

import time
from typing import Any

from league.envs.trial.blame import defined_at, own_classes, place_of, sentence_of
from league.envs.trial.fault import Found, fault_of_number, fault_of_observation, shown

MOST_STEPS = 200
_STEP = "observation, reward, terminated, truncated, info"


def try_env(env: Any, seat: int, seconds: float) -> None:
    """Play random steps in the env of a seat. Raise Found."""
    seats, author = (seat,), type(env.unwrapped)
    bounded, end = bool(own_classes([author])), time.monotonic() + seconds

    def call(method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(env, method)(*arguments, **options)
        except Exception as error:  # a user's env may raise anything
            place = place_of(error, [author]) or defined_at([author], method)
            raise Found(f"{sentence_of(error)}, in its {method}", seats, place) from error

    def expect(method: str, found: str) -> None:
        if found:
            raise Found(found, seats, defined_at([author], method))

    def see(method: str, observation: Any) -> None:
        found = fault_of_observation(env.observation_space, observation, bounded=bounded)
        expect(method, found and f"the observation of its {method} {found}")

    env.action_space.seed(0)
    fresh, seed = True, 0
    for _ in range(MOST_STEPS):
        if fresh:
            returned = call("reset", seed=seed)
            expect("reset", _fault_of_reset(returned))
            see("reset", returned[0])
            seed += 1
        returned = call("step", env.action_space.sample())
        expect("step", _fault_of_step(returned))
        observation, reward, terminated, truncated, _ = returned
        see("step", observation)
        found = fault_of_number(reward)
        expect("step", found and f"its reward is {found}")
        fresh = bool(terminated or truncated)
        if time.monotonic() > end:
            return


def _fault_of_reset(returned: Any) -> str:
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], dict):
        return ""
    found = f"{len(returned)} values" if isinstance(returned, tuple) else f"{shown(returned)} alone"
    if isinstance(returned, tuple) and len(returned) == 2:
        found = f"{shown(returned[1])} as info"
    return f"reset returned {found}, expected an observation and a dict of info"


def _fault_of_step(returned: Any) -> str:
    if not isinstance(returned, tuple):
        return f"step returned {shown(returned)}, expected {_STEP}"
    if len(returned) == 4:
        return f"step returned 4 values, as envs of gym did, expected 5: {_STEP}"
    if len(returned) != 5:
        return f"step returned {len(returned)} values, expected 5: {_STEP}"
    for name, value in (("terminated", returned[2]), ("truncated", returned[3])):
        if not isinstance(value, bool | int) and type(value).__name__ not in ("bool", "bool_"):
            return f"step returned {shown(value)} as {name}, expected True or False"
    return ""
