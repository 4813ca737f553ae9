"""A tournament from its settings: the field, the run folder, the runners, and the loop between them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from analysis.gates.field import find
from analysis.gates.gates import parse_gate
from league.envs import registry
from league.interrupts import interrupts
from league.models.networks.networks import trust_network
from league.models.policies.resident import check_device
from league.rollout.openings import Openings
from league.rollout.runner_group import LocalRunnerGroup, RayRunnerGroup, RunnerGroup
from league.runtime import available_cpus, check_resources, ray_session
from league.tournament.entry.entrants import Entries, gather, sources_of
from league.tournament.folder import going_on, settings_of
from league.tournament.loop import Observer, Table, Tournament
from league.tournament.pairs import Pairs
from league.tournament.schedules import make_schedule
from league.tournament.schedules.base import Schedule
from league.tournament.settings import MANY_GAMES, GameSettings, TournamentSettings
from storage.archive import Archive, open_reader
from storage.cache.node_cache import CacheSettings
from storage.disk import Progress
from storage.errors import Mistake
from storage.layout import require_new
from storage.records import Entrant

MOST_PAIRS_EACH = 10**6  # of any two: years of play, and more would not go into memory
MOST_PAIRS = 10**15  # of all together: numbers of matches stay far from the end of 64 bits


def play(
    settings: TournamentSettings | None,
    out: Path,
    *,
    resume: bool = False,
    observe: Observer = lambda standing: None,
    tell: Callable[[str], None] = lambda sentence: None,
    progress: Progress | None = None,
) -> Path:
    """Play a tournament into the run folder `out`, which is returned.

    `resume` goes on with what the folder holds, with its own settings where none are given; its field is
    the one it began with. Without it the folder must not exist yet. `tell` is told who was left
    out, and what the schedule has found out.

    Raises Mistake for a field, a schedule, a gate or an opening that cannot be, before anything is played
    or written; Interrupted at Ctrl-C, with everything saved that was acknowledged.
    """
    entries: Entries | None = None  # None: those who are remembered
    if resume:
        begun = settings_of(out)
        entrants = tuple(open_reader(out).entrants())
        settings = begun if settings is None else going_on(_named(settings, entrants), begun, out)
    else:
        if settings is None:
            raise ValueError("settings: found none, expected some for a new tournament")
        require_new(out)
        _trust(settings)
        entries = _gather(settings, progress)
        for name, why in entries.left_out:
            tell(f"left out: {name}: {why}")
        entrants = entries.entrants
        settings = _rated(_named(_resolved(settings, entries), entrants))
    pairs, schedule = check(settings, entrants)
    runners = _number_of_runners(settings, schedule.total_pairs() * pairs.games)
    check_resources(settings.resources, runners)
    with contextlib.ExitStack() as stack:

        @functools.cache
        def table() -> Table:
            _trust(settings)
            openings = _openings(settings)
            group = stack.enter_context(_runners(settings, runners))
            sources = sources_of(entrants, progress=progress) if entries is None else entries.sources
            names = [entrant.competitor for entrant in entrants]
            return Table(group, dict(zip(names, sources, strict=True)), openings)

        if not resume:
            table()  # whatever is wrong with it: nothing is written yet
        archive = stack.enter_context(_open(settings, entrants, out, resume, progress))
        interrupted = stack.enter_context(interrupts())
        tournament = Tournament(settings, entrants, pairs, schedule, archive, table)
        conclusion = tournament.run(interrupted, observe)
    if conclusion is not None:
        tell(conclusion)
    return out


def check(settings: TournamentSettings, entrants: tuple[Entrant, ...]) -> tuple[Pairs, Schedule]:
    """Refuse what cannot be played with these entrants; how pairs become matches, and who meets whom."""
    check_device(settings.rollout.device)
    assert settings.env is not None, "resolved"
    game = registry.make(settings.env.id, 1, step_limit=settings.rollout.step_limit, **settings.env.options)
    names = [entrant.competitor for entrant in entrants]
    for gate in settings.gates:
        parse_gate(gate).resolve(entrants)
    if game.draw_possible and settings.ratings.draw_probability == 0.0:
        raise Mistake(
            f"ratings.draw_probability is 0, but matches of '{settings.env.id}' can be drawn; raise it"
        )
    sizes = settings.teams or (1,) * game.num_seats
    pairs = Pairs(
        names,
        np.repeat(np.arange(len(sizes)), sizes),
        env=settings.env.id,
        match_type=settings.schedule.kind,
        seed=settings.seed,
    )
    if settings.schedule.pairs > MOST_PAIRS_EACH:
        raise Mistake(
            f"schedule.pairs: found {settings.schedule.pairs}, expected at most {MOST_PAIRS_EACH:,} of any "
            "two"
        )
    schedule = make_schedule(settings.schedule, names, pairs.num_teams)
    most = schedule.total_pairs()
    if most > MOST_PAIRS:
        raise Mistake(
            f"schedule: {settings.schedule.kind} of {len(names)} competitors with these settings plays "
            f"{most:,} pairs, expected at most {MOST_PAIRS:,}; lower pairs, rounds or budget"
        )
    return pairs, schedule


def _openings(settings: TournamentSettings) -> Openings | None:
    """Raises Mistake for a book that is none, and for openings that leave nothing to play."""
    openings = settings.opening.openings()
    if openings is not None:
        assert settings.env is not None, "resolved"
        limit = settings.rollout.step_limit
        openings.check(registry.make(settings.env.id, 1, step_limit=limit, **settings.env.options))
    return openings


def _trust(settings: TournamentSettings) -> None:
    for network in settings.trust:
        trust_network(network)


def _gather(settings: TournamentSettings, progress: Progress | None) -> Entries:
    return gather(
        settings.competitors,
        env=None if settings.env is None else settings.env.model_dump(),
        teams=settings.teams,
        bots=settings.bots,
        step_limit=settings.rollout.step_limit,
        leave_out_damaged=settings.leave_out_damaged,
        progress=progress,
    )


def _resolved(settings: TournamentSettings, entries: Entries) -> TournamentSettings:
    """The settings with what was found in the runs."""
    found = {
        "env": GameSettings(id=entries.env_id, options=dict(entries.env_options)),
        "teams": entries.teams,
        "bots": entries.bots,
        "rollout": settings.rollout.model_copy(update={"step_limit": entries.step_limit}),
        "opening": settings.opening.with_hash(),
    }
    return settings.model_copy(update=found)


def _named(settings: TournamentSettings, entrants: tuple[Entrant, ...]) -> TournamentSettings:
    """The settings with the ids of whoever they name. Raises Mistake for who takes no part."""

    def found(setting: str, name: str | None) -> str | None:
        try:
            return None if name is None else find(name, entrants).competitor
        except Mistake as error:
            raise Mistake(f"{setting}: {error}") from None

    seeds = [found("schedule.seeds", seed) for seed in settings.schedule.seeds]
    for given, seed in zip(settings.schedule.seeds, seeds, strict=True):
        if seeds.count(seed) > 1:
            raise Mistake(f"schedule.seeds: '{given}' is '{seed}', as another one is, expected each once")
    rated = {"anchor": found("ratings.anchor", settings.ratings.anchor)}
    return settings.model_copy(
        update={
            "anchor": found("anchor", settings.anchor),
            "ratings": settings.ratings.model_copy(update=rated),
            "schedule": settings.schedule.model_copy(update={"seeds": tuple(seeds)}),
        }
    )


def _rated(settings: TournamentSettings) -> TournamentSettings:
    """The settings of a new tournament with the anchor of TrueSkill, where none is given. What is recorded
    goes by it, so it stays the same, whatever `anchor` may be when the tournament goes on."""
    anchor = settings.ratings.anchor or settings.anchor
    ratings = settings.ratings.model_copy(update={"anchor": anchor})
    return settings.model_copy(update={"ratings": ratings})


def _number_of_runners(settings: TournamentSettings, games: int) -> int:
    if settings.runners is not None:
        return settings.runners
    return available_cpus() if games > MANY_GAMES else 0


@contextlib.contextmanager
def _runners(settings: TournamentSettings, number: int) -> Iterator[RunnerGroup]:
    """Who plays: this process, or Ray actors."""
    assert settings.env is not None, "resolved"
    playing = (
        settings.env.id,
        settings.env.options,
        settings.rollout,
        settings.resources.threads,
        CacheSettings(),
        settings.bots,
        settings.trust,
    )
    with contextlib.ExitStack() as stack:
        if number:
            stack.enter_context(ray_session(settings.resources, number))
            group: RunnerGroup = RayRunnerGroup(number, *playing)
        else:
            group = LocalRunnerGroup(*playing)
        stack.callback(group.close)
        yield group


def _open(
    settings: TournamentSettings,
    entrants: tuple[Entrant, ...],
    out: Path,
    resume: bool,
    progress: Progress | None,
) -> Archive:
    """The archive in `out`, new or to go on with."""
    assert settings.env is not None, "resolved"
    row = {"name": settings.name, "env": settings.env.id, "seed": settings.seed}
    if not resume:
        return Archive.create(out, settings.to_yaml(), row, progress, entrants=entrants)
    archive = Archive.open(out, progress)
    archive.begin_session(row, settings.to_yaml())
    return archive
