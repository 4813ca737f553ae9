"""Schedules: rounds as pure functions of settings, results of earlier rounds, and `rng`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from league.tournament.schedules.fixed import Completion, Gauntlet, RoundRobin
from league.tournament.schedules.rated import Adaptive, TopK
from league.tournament.schedules.schedule import Pairings, Schedule
from league.tournament.schedules.settings import ScheduleSettings
from league.tournament.schedules.swiss import Swiss
from storage.errors import Mistake
from storage.suggestions import near_or_some


def make_schedule(
    settings: ScheduleSettings,
    competitors: Sequence[str],
    num_teams: int,
    before: Sequence[Pairings] = (),
) -> Schedule:
    """Return the schedule of a tournament of `competitors`, `num_teams` of which meet in a match.

    What was played `before`, by other schedules or in a smaller field, counts: the schedule plays the rest.
    Raise Mistake for too few competitors, a seed that is no competitor, and a k that excludes none of them.
    """
    _check(settings, competitors, num_teams)
    field = len(competitors)
    if settings.kind == "swiss":
        return Swiss(field, num_teams, settings.pairs, settings.rounds, before)
    if settings.kind == "adaptive":
        return Adaptive(field, num_teams, settings, before)
    if settings.kind == "top_k":
        return TopK(field, num_teams, settings, before)
    seeds = [competitors.index(seed) for seed in settings.seeds]
    if before:
        meeting = np.zeros((field, field), dtype=np.int64)
        members = seeds or list(range(field))
        meeting[members, :] = meeting[:, members] = settings.pairs
        np.fill_diagonal(meeting, 0)
        return Completion(meeting, num_teams, before)
    if settings.kind == "gauntlet":
        return Gauntlet(field, num_teams, settings.pairs, seeds)
    return RoundRobin(field, num_teams, settings.pairs)


def _check(settings: ScheduleSettings, competitors: Sequence[str], num_teams: int) -> None:
    if len(competitors) < num_teams:
        found = {0: "none", 1: f"'{competitors[0]}' alone" if competitors else ""}
        raise Mistake(
            f"competitors: found {found.get(len(competitors), f'{len(competitors)} entrants')}, expected at "
            f"least {num_teams}, as that many meet in a match; name more runs, snapshots or bots"
        )
    for seed in settings.seeds:
        if seed not in competitors:
            raise Mistake(
                f"schedule.seeds: '{seed}' takes no part; {near_or_some(seed, competitors)} "
                f"(of {len(competitors)} entrants; a mode is part of the name)"
            )
    if settings.kind == "top_k" and settings.k >= len(competitors):
        raise Mistake(
            f"schedule.k: found {settings.k} of {len(competitors)} entrants, expected at most "
            f"{len(competitors) - 1}, so that at least one is left out"
        )
