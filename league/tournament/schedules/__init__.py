"""Schedules: rounds as pure functions of settings, results of earlier rounds, and `rng`."""

from __future__ import annotations

from collections.abc import Sequence

from league.tournament.schedules.adaptive import Adaptive
from league.tournament.schedules.base import Schedule
from league.tournament.schedules.gauntlet import Gauntlet
from league.tournament.schedules.round_robin import RoundRobin
from league.tournament.schedules.settings import ScheduleSettings
from league.tournament.schedules.swiss import Swiss
from league.tournament.schedules.top_k import TopK
from storage.errors import Mistake
from storage.suggestions import nearest


def make_schedule(settings: ScheduleSettings, competitors: Sequence[str], num_teams: int) -> Schedule:
    """Return the schedule of a tournament of `competitors`, `num_teams` of which meet in a match.

    Raise Mistake for too few competitors, a seed that is no competitor, and a k that excludes none of them.
    """
    _check(settings, competitors, num_teams)
    field = len(competitors)
    if settings.kind == "round_robin":
        return RoundRobin(field, num_teams, settings.pairs)
    if settings.kind == "gauntlet":
        seeds = [competitors.index(seed) for seed in settings.seeds]
        return Gauntlet(field, num_teams, settings.pairs, seeds)
    if settings.kind == "swiss":
        return Swiss(field, num_teams, settings.pairs, settings.rounds)
    if settings.kind == "adaptive":
        return Adaptive(field, num_teams, settings)
    return TopK(field, num_teams, settings)


def _check(settings: ScheduleSettings, competitors: Sequence[str], num_teams: int) -> None:
    if len(competitors) < num_teams:
        found = {0: "none", 1: f"'{competitors[0]}' alone" if competitors else ""}
        raise Mistake(
            f"competitors: found {found.get(len(competitors), f'{len(competitors)} entrants')}, expected at "
            f"least {num_teams}, as that many meet in a match; name more runs, snapshots or bots"
        )
    for seed in settings.seeds:
        if seed not in competitors:
            near = nearest(seed, competitors, n=3, cutoff=0.3)
            raise Mistake(
                f"schedule.seeds: '{seed}' takes no part; nearest: {', '.join(near) or 'none'} "
                f"(of {len(competitors)} entrants; a mode is part of the name)"
            )
    if settings.kind == "top_k" and settings.k >= len(competitors):
        raise Mistake(
            f"schedule.k: found {settings.k} of {len(competitors)} entrants, expected at most "
            f"{len(competitors) - 1}, so that at least one is left out"
        )
