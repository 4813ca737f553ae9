"""Entrants: the competitors of a tournament, from runs, exported folders and bots, in chosen modes.

    named     by an SQL condition, by ids and players, or by folder; duplicates enter once
    agreed    on one game, in which all of them can take every seat
    sound     their weights are present, undamaged, and fit their networks

Blobs are hashed after all cheaper checks, and matches begin after all checks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.gates.names import labels_of, with_runs
from league.arena.agreement import Agreed, agree, alike, require_bot, require_fit
from league.arena.origins import (
    ExportOrigin,
    Origin,
    RunOrigin,
    bot_entrant,
    open_origin,
)
from league.competitors.modes import temperature_of
from league.competitors.names import named_bot
from league.envs.adapters.gymnasium.seats import FollowingEnvs
from league.models.bots.scripted import bots_for
from league.models.bots.settings import BotSettings
from league.rollout.requests import BotSource, MixtureSource, StoredSource
from league.rollout.snapshots import SnapshotSource
from league.tournament.places import ABSENT, Places
from league.tournament.settings import EntrantSource, TournamentSettings
from league.tournament.soundness import DAMAGE, DamagedCompetitors, find_damaged
from storage.disk import Progress
from storage.errors import Mistake
from storage.records import Entrant
from storage.snapshots.manifests import CorruptManifest
from storage.suggestions import did_you_mean

_LEAVE_OUT = "restore them from a copy, or leave them out (leave_out_damaged)"
Stored = SnapshotSource | MixtureSource


@dataclass(frozen=True, slots=True)
class Entries:
    """Entrants, with their game and their sources."""

    agreed: Agreed
    bots: dict[str, BotSettings]  # settings by name: of the entrants, and all that were given
    entrants: tuple[Entrant, ...]  # in the order of the settings
    sources: tuple[StoredSource, ...]  # in the same order
    left_out: tuple[tuple[str, str], ...]  # names and reasons
    seat_envs: dict[str, dict[str, Any]]  # envs that entrants bring to their seats (`id`, `options`)


def gather(
    settings: TournamentSettings,
    beside: Sequence[Entrant] = (),
    known_as: Mapping[str, str] = {},
    progress: Progress | None = None,
) -> Entries:
    """Return all entrants that `settings` name, ready to play; without those that are `beside` already.

    `beside` are the entrants of a tournament that goes on, and `known_as` the recorded addresses of its runs
    that have moved, by the present ones. Settings of the game, its seats, teams and bots take precedence over
    the runs'. With `leave_out_damaged`, entrants that are missing or damaged are listed in `left_out`.

    Raise Mistake for names, conditions, games and seats that do not fit, and for fewer competitors than
    the game has teams; DamagedCompetitors with all that are missing or damaged; CorruptLedger, RemoteFailed.
    """
    sources, leave_out_damaged = settings.competitors, settings.leave_out_damaged
    origins, unreadable = _open(sources, known_as, progress)
    if unreadable and not origins and not leave_out_damaged:  # the game is unknown
        raise DamagedCompetitors(unreadable, _LEAVE_OUT)
    env = None if settings.env is None else settings.env.model_dump()
    agreed = agree(list(origins.values()), env, settings.teams, settings.rollout.step_limit)
    agreed.require_swaps()
    entrants = _beside(beside, _choose(sources, origins, agreed, settings.bots))
    _require_enough([*beside, *entrants], agreed, 0)
    bots = _bot_settings(entrants, origins, agreed, settings.bots)
    found, damaged = _read(entrants, {origin.address: origin for origin in origins.values()})
    given = {name: own.model_dump() for name, own in settings.seat_envs.items()}
    brought = _seat_envs(entrants, origins, given)
    try:
        envs = FollowingEnvs({"id": agreed.env_id, "options": agreed.env_options}, brought)
    except ValueError as error:
        raise Mistake(f"competitors: {error}") from None
    for name, source in found.items():
        require_fit(name, source, agreed.game_of(envs, name))
    damaged |= unreadable | find_damaged(found, progress)
    if damaged and not leave_out_damaged:
        raise DamagedCompetitors(damaged, _LEAVE_OUT)
    entrants = tuple(entrant for entrant in entrants if entrant.competitor not in damaged)
    _require_enough([*beside, *entrants], agreed, len(damaged))
    return Entries(
        agreed=agreed,
        bots=bots,
        entrants=entrants,
        sources=_in_order(entrants, found),
        left_out=tuple(damaged.items()),
        seat_envs={e.competitor: brought[e.competitor] for e in entrants if e.competitor in brought},
    )


def sources_of(
    entrants: Sequence[Entrant], places: Places | None = None, *, progress: Progress | None = None
) -> tuple[StoredSource, ...]:
    """Return the sources of recorded entrants, in the same order, after verifying their weights again.

    They are at their addresses, or at the `places` of those that have moved. Raise DamagedCompetitors with
    all that are missing or changed.
    """
    found: dict[str, Stored] = {}
    damaged: dict[str, str] = {}
    opened = functools.cache(lambda place: open_origin(place, progress))
    for entrant in entrants:
        for place in () if entrant.run is None else places.of(entrant.run) if places else (entrant.run,):
            try:
                found[entrant.competitor] = opened(place).source(entrant)
                break
            except ABSENT as error:
                why = f"{str(error).partition('; ')[0]}, its weights are {str(entrant.blob_hash)[:12]}"
                damaged.setdefault(entrant.competitor, why)
    damaged = {name: why for name, why in damaged.items() if name not in found} | find_damaged(
        found, progress
    )
    if damaged:
        raise DamagedCompetitors(damaged, "restore them from a copy" if places is None else places.remedy())
    return _in_order(entrants, found)


def _open(
    sources: Sequence[EntrantSource], known_as: Mapping[str, str], progress: Progress | None
) -> tuple[dict[str, Origin], dict[str, str]]:
    """Return the origins by address, and the reasons why some exported folders cannot be read."""
    origins: dict[str, Origin] = {}
    unreadable: dict[str, str] = {}
    for source in sources:
        try:
            if source.run is not None and source.run not in origins:
                origins[source.run] = RunOrigin(source.run, progress)
                origins[source.run].address = known_as.get(source.run, origins[source.run].address)
            if source.folder is not None and source.folder not in origins:
                origins[source.folder] = ExportOrigin(source.folder)
        except CorruptManifest as error:
            unreadable[str(source.folder)] = str(error)
    return origins, unreadable


def _choose(
    sources: Sequence[EntrantSource],
    origins: Mapping[str, Origin],
    agreed: Agreed,
    bots: Mapping[str, BotSettings],
) -> list[Entrant]:
    """Return the named entrants, once each, under their names at their origin."""
    known = {*bots_for(agreed.env_id), *bots, *(bot for run in _runs(origins) for bot in run.bots)}
    chosen: list[Entrant] = []
    for source in sources:
        temperatures = [temperature_of(mode) for mode in source.modes]
        match origins.get(source.run or source.folder or ""):
            case RunOrigin() as run:
                chosen += run.chosen(source.select, source.names, temperatures)
            case ExportOrigin() as export:
                chosen += export.chosen(temperatures)
        # an unknown name is an import path, or causes an error when the bot is built
        chosen += [bot_entrant(named_bot(text, known) or text) for text in source.bots]
    return list({(entrant.run, entrant.competitor): entrant for entrant in chosen}.values())


def _beside(beside: Sequence[Entrant], chosen: Sequence[Entrant]) -> tuple[Entrant, ...]:
    """Return those of `chosen` that are not among `beside`, under names that no other has.

    Raise Mistake for one that is there with other weights.
    """
    there = {_identity(entrant): entrant for entrant in beside}
    for entrant in chosen:
        known = there.get(_identity(entrant))
        if known is not None and known.blob_hash != entrant.blob_hash:
            raise Mistake(
                f"{entrant.run}: '{known.competitor}' has other weights than those it has played with in "
                "this tournament; restore them from a copy, or start a new tournament with another --run"
            )
    joining = [entrant for entrant in chosen if _identity(entrant) not in there]
    found = with_runs([*beside, *joining], labels_of(beside))[len(beside) :]
    names = {entrant.competitor for entrant in beside}
    for entrant in found:
        if entrant.competitor in names:
            raise Mistake(
                f"competitors: '{entrant.competitor}' is not the one that has played under this name so far; "
                "name its members instead, or start a new tournament with another --run"
            )
    return found


def _identity(entrant: Entrant) -> tuple[str | None, str | None, float | None]:
    """Return what an entrant is recognised by, whatever its name: a bot by its name."""
    if entrant.run is None:
        return None, entrant.competitor, None
    return entrant.run, entrant.snapshot_id, entrant.temperature


def _bot_settings(
    entrants: Sequence[Entrant],
    origins: Mapping[str, Origin],
    agreed: Agreed,
    bots: Mapping[str, BotSettings],
) -> dict[str, BotSettings]:
    """Return `bots` and the runs' settings of other bots, after checking that bots can take every seat."""
    settings = dict(bots)
    playing = [entrant.competitor for entrant in entrants if entrant.run is None]
    for bot in playing:
        found = [(run.address, run.bots[bot]) for run in _runs(origins) if bot in run.bots]
        if bot not in settings and found:
            settings[bot] = alike(f"bots.{bot}", found)
    for bot in playing:
        require_bot(bot, agreed, settings)
    return settings


def _seat_envs(
    entrants: Sequence[Entrant], origins: Mapping[str, Origin], given: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the envs that entrants bring to their seats, by entrant: those given, else of their roles.

    Raise Mistake for one that is given for no entrant.
    """
    by_address = {origin.address: origin for origin in origins.values()}
    names = [entrant.competitor for entrant in entrants]
    for name in given:
        if name not in names:
            raise Mistake(f"seat_envs: '{name}' is no entrant; {did_you_mean(name, names)}")
    found = dict(given)
    for entrant in entrants:
        origin = by_address.get(entrant.run or "")
        if isinstance(origin, RunOrigin) and entrant.role in origin.role_envs:
            found.setdefault(entrant.competitor, dict(origin.role_envs[entrant.role]))
    return found


def _runs(origins: Mapping[str, Origin]) -> list[RunOrigin]:
    return [origin for origin in origins.values() if isinstance(origin, RunOrigin)]


def _read(
    entrants: Sequence[Entrant], origins: Mapping[str, Origin]
) -> tuple[dict[str, Stored], dict[str, str]]:
    """Return the sources of snapshots among `entrants`, by name, and the reasons why others have none.

    `origins` are by address.
    """
    found: dict[str, Stored] = {}
    damaged: dict[str, str] = {}
    for entrant in entrants:
        if entrant.run is None:
            continue
        try:
            found[entrant.competitor] = origins[entrant.run].source(entrant)
        except DAMAGE as error:
            damaged[entrant.competitor] = str(error)
    return found, damaged


def _in_order(entrants: Sequence[Entrant], found: Mapping[str, Stored]) -> tuple[StoredSource, ...]:
    return tuple(
        BotSource(entrant.competitor) if entrant.run is None else found[entrant.competitor]
        for entrant in entrants
    )


def _require_enough(entrants: Sequence[Entrant], agreed: Agreed, left_out: int) -> None:
    """Raise Mistake if there are too few entrants for one match."""
    if len(entrants) < agreed.num_teams:
        some = ", ".join(entrant.competitor for entrant in entrants) or "none"
        more = f" ({left_out} were left out as damaged)" if left_out else ""
        raise Mistake(
            f"competitors: found {some}{more}, expected at least {agreed.num_teams}: a match of "
            f"'{agreed.env_id}' has that many different competitors; name more"
        )
