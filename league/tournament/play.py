"""Play of a tournament from its settings: entrants, run folder, runners, and the loop."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis.gates.gates import parse_gate
from analysis.gates.names import SHOWN, find_recorded, labels_of, with_runs
from league.arena.arena import Seated
from league.arena.matches import MeasureTable
from league.cluster.connection import own_modules
from league.cluster.runtime import available_cpus, check_resources, ray_session
from league.envs import registry
from league.envs.adapters.gymnasium.seats import following
from league.envs.base import BatchedGame
from league.import_paths import trust
from league.interrupts import interrupts
from league.rollout.requests import PlaySetup, StoredSource
from league.rollout.runner_group import LocalRunnerGroup, RayRunnerGroup, RunnerGroup, check_play
from league.rollout.snapshots import start_peers
from league.tournament.entrants import Entries, gather, sources_of
from league.tournament.folder import followed, going_on, newcomers, settings_of
from league.tournament.loop import Observer, Tournament
from league.tournament.places import look_for
from league.tournament.schedules import make_schedule
from league.tournament.schedules.schedule import Schedule
from league.tournament.settings import MANY_GAMES, GameSettings, Resolved, TournamentSettings
from league.tournament.stages import stages_of
from storage.archive import Archive, open_reader
from storage.disk import Progress
from storage.errors import Mistake
from storage.layout import FORMAT, require_new
from storage.records import Entrant, Purpose
from storage.tables.database_file import DatabaseFile

MOST_PAIRS_EACH = 10**6  # of any two; more would take years of play and exceed memory
MOST_PAIRS = 10**15  # in all; match numbers stay far below 2**63


def play(
    settings: TournamentSettings | None,
    out: Path,
    *,
    resume: bool = False,
    regather: bool = False,
    observe: Observer = lambda standing: None,
    tell: Callable[[str], None] = lambda sentence: None,
    progress: Progress | None = None,
) -> Path:
    """Play a tournament into the run folder `out`, and return `out`.

    With `resume` go on with the tournament in the folder: what it played counts, and the settings may ask for
    more pairs, another schedule, other gates, and further competitors, who join those of before. Its sources
    of competitors are looked into again only with `regather`. Settings that are not given are taken from it.
    Otherwise the folder must not exist. `tell` receives sentences on entrants that join or were left out, and
    the conclusion of the schedule.

    Raise Mistake for invalid entrants, schedules, gates or openings, before anything is played or written;
    Interrupted at Ctrl-C, when all acknowledged results are saved.
    """
    if resume:
        begun = settings_of(out)
        entrants = field = tuple(open_reader(out).entrants())
        named = (*(() if settings is None else settings.competitors), *begun.competitors)
        places = look_for(field, out, named, progress)
        begun, settings = followed(begun, settings, places)
        resolved = begun
        if settings is not None:
            trust(*settings.trust)
            joining = newcomers(settings, begun, field, places, again=regather, progress=progress)
            if joining is not None:
                _tell_left_out(joining, tell)
                entrants = (*field, *joining.entrants)
            resolved = going_on(_named(settings, entrants), begun, out, field, joining)
        if begun.opening.book is not None and begun.opening.book_per == "tournament":
            tell(
                f"{out}: the lines of its book go by the number of the pair, as when it was begun; in a new "
                "tournament each pairing goes through the whole book"
            )
        sources = functools.partial(sources_of, entrants, places, progress=progress)
        if len(entrants) > len(field):
            tell(
                f"{out}: {len(entrants) - len(field)} join the {len(field)} of before: "
                + ", ".join(entrant.competitor for entrant in entrants[len(field) :][:SHOWN])
                + (", ..." if len(entrants) - len(field) > SHOWN else "")
            )
    else:
        if settings is None:
            raise ValueError("settings: found none, expected some for a new tournament")
        if (out / FORMAT).exists():
            settings_of(out)  # refuses the run of a league, which no --resume would go on with
        require_new(out)
        trust(*settings.trust)
        entries = gather(settings, progress=progress)
        _tell_left_out(entries, tell)
        entrants, field, sources = entries.entrants, (), functools.partial(tuple, entries.sources)
        resolved = _rated(_resolved(_named(settings, entrants), entries))
    table, schedule, game = check(resolved, entrants)
    runners = resolved.runners
    if runners is None:
        runners = available_cpus() if schedule.total_pairs() * table.games > MANY_GAMES else 0
    check_resources(resolved.resources, runners)
    check_play(resolved.rollout.device, resolved.resources, runners)
    if resolved.resources.share_cards:
        raise Mistake(
            "resources.share_cards: found true, but a tournament has no learners whose cards could be "
            "shared; set it to false"
        )
    with contextlib.ExitStack() as stack:
        # a tournament that is over starts nothing, so it can be shown even if its entrants are gone
        start = functools.cache(lambda: _start(stack, resolved, game, runners, entrants, sources))
        if not resume:
            start()  # before anything is written, so that a mistake leaves no run folder
        archive = stack.enter_context(_open(resolved, game, entrants[len(field) :], out, resume))
        database = DatabaseFile(out, lambda: archive.num_changes, say=tell)
        interrupted = stack.enter_context(interrupts())
        tournament = Tournament(resolved, entrants, table, stages_of(out), archive, start, tell)
        conclusion = tournament.run(interrupted, observe)
        database.finish(progress)
    if conclusion is not None:
        tell(conclusion)
    return out


def _start(
    stack: contextlib.ExitStack,
    settings: Resolved,
    game: BatchedGame,
    runners: int,
    entrants: tuple[Entrant, ...],
    sources: Callable[[], tuple[StoredSource, ...]],
) -> tuple[RunnerGroup, Seated]:
    """Start the runners, which `stack` closes; return them, and the entrants with their openings.

    `sources` returns those of the entrants, after it has verified them. Raise Mistake for an opening book
    that cannot be used, DamagedCompetitors for policies that are missing or damaged.
    """
    trust(*settings.trust)
    openings = settings.opening.openings()
    if openings is not None:
        openings.check(game)
    group = stack.enter_context(_start_runners(settings, runners))
    names = [entrant.competitor for entrant in entrants]
    envs, brings = following(settings.model_dump()), {name: name for name in names}
    return group, Seated(dict(zip(names, sources(), strict=True)), envs, brings, openings, fingerprint=True)


def check(settings: Resolved, entrants: tuple[Entrant, ...]) -> tuple[MeasureTable, Schedule, BatchedGame]:
    """Return what makes the matches, the schedule and the game. Raise Mistake for what cannot be played."""
    game = registry.make(settings.env.id, 1, step_limit=settings.rollout.step_limit, **settings.env.options)
    names = [entrant.competitor for entrant in entrants]
    for gate in settings.gates:
        parse_gate(gate).resolve(with_runs(entrants, labels_of(entrants)))
    if game.draw_possible and settings.ratings.draw_probability == 0.0:
        raise Mistake(
            f"ratings.draw_probability is 0, but matches of '{settings.env.id}' can be drawn; raise it"
        )
    sizes = settings.teams or (1,) * game.num_seats
    table = MeasureTable(
        settings.env.id,
        np.repeat(np.arange(len(sizes)), sizes),
        settings.schedule.kind,
        settings.seed,
        Purpose.TOURNAMENT,
    )
    if settings.schedule.pairs > MOST_PAIRS_EACH:
        raise Mistake(
            f"schedule.pairs: found {settings.schedule.pairs}, expected at most {MOST_PAIRS_EACH:,} of any "
            "two"
        )
    schedule = make_schedule(settings.schedule, names, table.num_teams)
    most = schedule.total_pairs()
    if most > MOST_PAIRS:
        raise Mistake(
            f"schedule: {settings.schedule.kind} of {len(names)} competitors with these settings plays "
            f"{most:,} pairs, expected at most {MOST_PAIRS:,}; lower pairs, rounds or budget"
        )
    return table, schedule, game


def _tell_left_out(entries: Entries, tell: Callable[[str], None]) -> None:
    for name, why in entries.left_out:
        tell(f"left out: {name}: {why}")


def _resolved(settings: TournamentSettings, entries: Entries) -> Resolved:
    """Return the settings, filled in with values found in the runs."""
    game = entries.agreed
    found = {
        "env": GameSettings(id=game.env_id, options=game.env_options),
        "seat_envs": {name: GameSettings(**env) for name, env in entries.seat_envs.items()},
        "teams": game.teams,
        "bots": entries.bots,
        "rollout": settings.rollout.model_copy(update={"step_limit": game.step_limit}),
        "opening": settings.opening.with_hash(),
    }
    return Resolved(**(dict(settings) | found))


def _named(settings: TournamentSettings, entrants: tuple[Entrant, ...]) -> TournamentSettings:
    """Return the settings with full ids in place of names. Raise Mistake for names that are no entrants."""

    def found(setting: str, name: str) -> str:
        try:
            return find_recorded(name, entrants).competitor
        except Mistake as error:
            raise Mistake(f"{setting}: {error}") from None

    seeds = [found("schedule.seeds", seed) for seed in settings.schedule.seeds]
    for given, seed in zip(settings.schedule.seeds, seeds, strict=True):
        if seeds.count(seed) > 1:
            raise Mistake(f"schedule.seeds: '{given}' is '{seed}', as another one is, expected each once")
    rated = {found("ratings.anchors", name): given for name, given in settings.ratings.anchors.items()}
    return settings.model_copy(
        update={
            "anchors": {found("anchors", name): given for name, given in settings.anchors.items()},
            "ratings": settings.ratings.model_copy(update={"anchors": rated}),
            "schedule": settings.schedule.model_copy(update={"seeds": tuple(seeds)}),
        }
    )


def _rated(settings: Resolved) -> Resolved:
    """Return the settings of a new tournament with anchors for TrueSkill: by default its own.

    Recorded ratings depend on them, so they stay the same even if `anchors` change at a resume.
    """
    anchors = settings.ratings.anchors or settings.anchors
    ratings = settings.ratings.model_copy(update={"anchors": anchors})
    return settings.model_copy(update={"ratings": ratings})


@contextlib.contextmanager
def _start_runners(settings: Resolved, number: int) -> Iterator[RunnerGroup]:
    """Start the runners and yield their group: this process alone, or `number` Ray actors."""
    setup = PlaySetup(
        settings.env.id,
        settings.env.options,
        settings.rollout,
        settings.resources.threads,
        bots=settings.bots,
        limits=settings.limits,
        trust=settings.trust,
        patience=settings.resources.patience_seconds,
    )
    with contextlib.ExitStack() as stack:
        if number:
            stack.enter_context(
                ray_session(settings.resources, 0, number, own_modules(settings.model_dump()))
            )
            setup = replace(setup, peers=start_peers(settings.resources, setup.cache))
            group: RunnerGroup = RayRunnerGroup(number, setup, settings.resources.of_runner)
        else:
            group = LocalRunnerGroup(setup)
        stack.callback(group.close)
        yield group


def _open(
    settings: Resolved, game: BatchedGame, joining: tuple[Entrant, ...], out: Path, resume: bool
) -> Archive:
    """Return the archive in `out`, a new one or, with `resume`, the existing one, with entrants that join."""
    row = {"name": settings.name, "env": settings.env.id, "seed": settings.seed, "most_lead": game.most_lead}
    if not resume:
        return Archive.create(out, settings.to_yaml(), row, entrants=joining)
    archive = Archive.open(out)
    archive.begin_session(row, settings.to_yaml(), joining)
    return archive
