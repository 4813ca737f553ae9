"""Sizes of play for a game that is heavy: fewer matches at a time, or fragments of them.

The usual sizes are those of board games, whose matches take milliseconds. Of any other game a moment of
play before training shows what a match costs (`league.envs.trial`), and a forward pass what its policy
does. A request then takes about REQUEST_SECONDS and at most `rollout.request_bytes`: with whole matches if
FEWEST or more of them fit, else with fragments, rather long ones of few matches, since what is learned from
are sequences that are full. In a run of few env steps whole matches are fewer at a time, by a count that is
the same each time. A run keeps the sizes that it began with.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from league.config.loading import load
from league.config.settings import Settings
from league.envs import registry
from league.envs.trial.matches import Cost, env_steps_of
from league.models.actor import Look
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySpec
from league.rollout.settings import USUAL_SIZE
from league.rollout.traces.recorder import COPIES
from league.training.resume import newest_settings
from league.training.state.pace import FIRST, rounded

REQUEST_SECONDS = 1.0
FEWEST = 16  # whole matches at a time, with fewer of which fragments are faster
SLOTS = 8, 64  # of fragments: more than the first where steps are so quick that these are long
STEPS = 16, 128  # of a fragment, fewest and most: the sequences that are learned from
ROWS = 32  # of the forward pass that is timed
FEWEST_REQUESTS = 32  # of a run without runners
COUNTED, LONGEST = 16, 1000  # matches whose length is counted for that, and the steps of one at most
AUTO = "slots", "matches_per_request", "fragment_steps"


class Sizes(NamedTuple):
    """Matches at a time, which are as many as a request brings, and steps of a fragment."""

    slots: int
    fragment_steps: int | None  # `None`: whole matches


def sizes_for(
    cost: Cost, decision_bytes: float, most_bytes: float, usual: int, given: int | None = None
) -> Sizes | None:
    """Return the sizes for a game of this `cost`; `None` if `usual` matches at a time are light enough.

    `given`: matches at a time that the settings ask for.
    """
    step_bytes = cost.decisions * decision_bytes
    if cost.match_steps is not None:
        seconds, size = cost.match_steps * cost.step_seconds, cost.match_steps * step_bytes
        slots = int(min(REQUEST_SECONDS / seconds, most_bytes / size))
        if slots >= usual or (given is not None and slots >= 1 and given * size <= most_bytes):
            return None
        if slots >= FEWEST and given is None:
            return Sizes(rounded(slots), None)
    fewest, most = STEPS
    few, many = SLOTS
    by_time, by_bytes = REQUEST_SECONDS / cost.step_seconds, most_bytes / step_bytes  # slots times steps
    steps = min(by_time, by_bytes)
    slots = given or rounded(max(1.0, min(many, max(few, steps / most), steps / fewest)))
    return Sizes(slots, max(1, int(min(most, steps / slots))))


def with_policies(cost: Cost | None, settings: Settings) -> Cost | None:
    """Return the `cost` of a game with that of its players' decisions, where they compute on the CPU."""
    if cost is None or settings.rollout.device != "cpu":
        return cost
    of_policy = max(map(_seconds_of, set(settings.policy_specs().values())))
    return cost._replace(step_seconds=cost.step_seconds + cost.decisions * of_policy)


def with_sizes(settings: Settings, cost: Cost | None) -> tuple[Settings, str]:
    """Return `settings` with sizes for a game of this `cost` where they are auto, and a sentence on them.

    Without a cost, and for a light game, they are as they were, and the sentence is empty.
    """
    rollout = settings.rollout
    auto = [name for name in AUTO if getattr(rollout, name) == "auto"]
    if not auto:
        return settings, ""
    decision = max(spec.bytes_of_decision for spec in settings.policy_specs().values())
    usual = USUAL_SIZE if settings.most_runners == 0 else FIRST
    given = None if rollout.slots == "auto" else rollout.slots
    found = None if cost is None else sizes_for(cost, decision * COPIES, rollout.request_bytes, usual, given)
    tried = cost is not None or settings.env.id in registry.ids()  # else a match may take hours
    whole = found is None or found.fragment_steps is None
    short, line = _of_short(settings, found.slots if found else usual) if tried and whole else (settings, "")
    if cost is None or found is None or line:
        return short, line
    bring_envs = any(rules.env is not None for rules in settings.league.resolve().values())
    steps = None if rollout.max_lag is not None or bring_envs else found.fragment_steps
    chosen = {"slots": found.slots, "matches_per_request": found.slots, "fragment_steps": steps or "null"}
    sized = load(settings, [f"rollout.{name}={chosen[name]}" for name in auto])
    length = "that did not end" if cost.match_steps is None else f"of {cost.match_steps:,.0f} steps"
    how = f"in fragments of {sized.rollout.fragment} steps" if sized.rollout.fragment else "whole"
    return sized, (
        f"{sized.rollout_of_runners.slots:,} matches at a time are played {how} (rollout.slots, "
        f"rollout.fragment_steps): the trial played matches {length}, with "
        f"{1e3 * cost.step_seconds:.3g} ms and {cost.decisions * decision / 1024:,.1f} KiB a step"
    )


def _of_short(settings: Settings, usual: int) -> tuple[Settings, str]:
    """Return `settings` with fewer matches at a time than `usual` where a run has few env steps, and why.

    Without runners a request is learned from before the next: 40,000 steps of Connect Four were two.
    """
    env, sizes, steps = settings.env, AUTO[:2], settings.stop.env_steps
    if settings.most_runners or steps is None or any(getattr(settings.rollout, s) != "auto" for s in sizes):
        return settings, ""
    if steps >= FEWEST_REQUESTS * USUAL_SIZE * LONGEST:
        return settings, ""
    options = {**env.options, "step_limit": settings.rollout.step_limit}
    length = env_steps_of(registry.make(env.id, COUNTED, **options), LONGEST)
    matches = rounded(steps / FEWEST_REQUESTS / length)
    if matches >= usual:
        return settings, ""
    return load(settings, [f"rollout.{name}={matches}" for name in sizes]), (
        f"{matches:,} matches at a time are played (rollout.slots, rollout.matches_per_request), so that "
        f"{steps:,} env steps are {FEWEST_REQUESTS} requests: the trial played matches of {length:,.0f} each"
    )


def with_recorded_sizes(settings: Settings, run: Path) -> tuple[Settings, str]:
    """Return `settings` with the sizes that the run was trained with last where they are auto, and ""."""
    recorded = newest_settings(run).rollout
    auto = [name for name in AUTO if getattr(settings.rollout, name) == "auto"]
    kept: Sequence[str] = [
        f"rollout.{name}={'null' if value is None else value}"
        for name in auto
        if (value := getattr(recorded, name)) != "auto"
    ]
    return load(settings, kept) if kept else settings, ""


def _seconds_of(spec: PolicySpec) -> float:
    """Return the seconds that a policy takes for a decision, in a batch."""
    policy, action = Policy(spec, initial_weights(spec, 0)), spec.action
    look = Look(
        np.zeros((ROWS, *spec.observation.shape), spec.observation.dtype),
        np.ones((ROWS, action.mask_width), np.bool_),
        np.zeros((ROWS, policy.memory_size), np.float32),
        np.zeros(ROWS, np.float32),
    )
    rng, spent = np.random.default_rng(0), []
    for _ in range(2):  # the first call also prepares
        began = time.perf_counter()
        policy.decide(look, rng)
        spent.append(time.perf_counter() - began)
    return min(spent) / ROWS
