"""Entrants: who takes part in a tournament, from any runs, exported folders and bots, each in its modes.

    named     by a condition in SQL, by ids and players, by folder; whoever is named twice enters once
    agreed    one game, in which all of them can take every seat
    sound     their weights there, whole, and fitting their networks

Nobody is hashed before everything that costs less has been looked at, and nothing is played before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from league.competitors.modes import temperature_of
from league.competitors.names import named_bot
from league.models.bots.scripted import bots_for
from league.models.bots.settings import BotSettings
from league.rollout.env_runner import BotSource
from league.rollout.snapshots import SnapshotSource
from league.section import Section
from league.tournament.entry.agreement import Agreed, agree, alike, require_bot, require_fit
from league.tournament.entry.ids import with_ids
from league.tournament.entry.origins import (
    ExportOrigin,
    Origin,
    RunOrigin,
    address_of,
    bot_entrant,
    open_origin,
)
from league.tournament.entry.soundness import DAMAGE, DamagedCompetitors, find_damaged
from storage.disk import Progress
from storage.errors import Mistake, NotARun
from storage.records import Entrant
from storage.snapshots.manifests import CorruptManifest
from storage.upkeep.exports import NotAnExport

_LEAVE_OUT = "restore them from a copy, or leave them out (leave_out_damaged)"
_Address = Annotated[str, Field(min_length=1), AfterValidator(address_of)]
"""Kept whole, so that a tournament that goes on from another folder finds it."""


def _checked(modes: tuple[str, ...]) -> tuple[str, ...]:
    for mode in modes:
        temperature_of(mode)
    return modes


class EntrantSource(Section):
    """Some of those who take part: of a run, in a folder, or bots."""

    run: _Address | None = Field(default=None, description="A run folder, or the address of its remote")
    select: str | None = Field(
        default=None,
        description="Which of the run's snapshots: a condition in SQL on the columns of `snapshots` and mu, "
        "sigma, skill, games, win_rate of the leaderboard; neither this nor `names`: all",
    )
    names: tuple[str, ...] = Field(
        default=(),
        description="Who of the run: ids or unique prefixes, players (their newest snapshot), bots; "
        "`:greedy` or `:t=0.5` behind it: in that mode alone",
    )
    folder: _Address | None = Field(default=None, description="Made by: league snapshots RUN export ID DIR")
    bots: tuple[str, ...] = Field(
        default=(), description="Bots of the game, of the table `bots`, module:Class"
    )
    modes: Annotated[tuple[str, ...], AfterValidator(_checked)] = Field(
        default=("sample",),
        min_length=1,
        description="How snapshots play, in each of these: sample, greedy, t=0.5 (a temperature)",
    )

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        given = [name for name in ("run", "folder", "bots") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"found {' and '.join(given) or 'nothing'}, expected one of: run, folder, bots")
        for name in ("select", "names"):
            if getattr(self, name) and self.run is None:
                raise ValueError(f"{name}: found some beside {given[0]}, expected a run that it is asked of")
        if self.select is not None and self.names:
            raise ValueError("found select and names, expected one of the two; make two entries of it")
        if self.bots and self.modes != ("sample",):
            raise ValueError("modes: found some for bots, which play as they always do; leave modes out")
        return self


@dataclass(frozen=True, slots=True)
class Entries:
    """Who takes part, in what, and where they come from."""

    env_id: str
    env_options: dict[str, Any]
    step_limit: int | None
    teams: tuple[int, ...] | None  # seats of each; None: everyone for itself
    bots: dict[str, BotSettings]  # of those who take part, by name, and whatever else was given
    entrants: tuple[Entrant, ...]  # in the order in which they were named
    sources: tuple[SnapshotSource | BotSource, ...]  # in the same order
    left_out: tuple[tuple[str, str], ...]  # who, and why


def gather(
    sources: Sequence[EntrantSource],
    *,
    env: Mapping[str, Any] | None = None,
    teams: tuple[int, ...] | None = None,
    bots: Mapping[str, BotSettings] = {},
    step_limit: int | None = None,
    leave_out_damaged: bool = False,
    progress: Progress | None = None,
) -> Entries:
    """Everybody whom `sources` name, ready to play.

    `env` (`id`, `options`), `teams`, `step_limit` and `bots`: what is given comes before what the runs say.
    Who is missing or damaged is refused, all at once, or listed in `left_out`.

    Raises Mistake for names, conditions, games and seats that do not fit, and for fewer competitors than
    the game has teams; DamagedCompetitors; CorruptLedger, RemoteFailed.
    """
    if not sources:
        raise Mistake("competitors: found none, expected runs, exported folders or bots")
    origins, unreadable = _open(sources, progress)
    if unreadable and not origins and not leave_out_damaged:  # nobody can tell which game it is
        raise DamagedCompetitors(unreadable, _LEAVE_OUT)
    agreed = agree(list(origins.values()), env, teams, step_limit)
    entrants = with_ids(_choose(sources, origins, agreed, bots))
    _require_enough(entrants, agreed, 0)
    settings = _bot_settings(entrants, origins, agreed, bots)
    found, damaged = _read(entrants, {origin.address: origin for origin in origins.values()})
    for name, source in found.items():
        require_fit(name, source, agreed.game)
    damaged |= unreadable | find_damaged(found, progress)
    if damaged and not leave_out_damaged:
        raise DamagedCompetitors(damaged, _LEAVE_OUT)
    entrants = tuple(entrant for entrant in entrants if entrant.competitor not in damaged)
    _require_enough(entrants, agreed, len(damaged))
    return Entries(
        env_id=agreed.env_id,
        env_options=agreed.env_options,
        step_limit=agreed.step_limit,
        teams=agreed.teams,
        bots=settings,
        entrants=entrants,
        sources=_in_order(entrants, found),
        left_out=tuple(damaged.items()),
    )


def sources_of(
    entrants: Sequence[Entrant], *, progress: Progress | None = None
) -> tuple[SnapshotSource | BotSource, ...]:
    """Where entrants that a tournament remembers come from, in the same order, each looked for where it was
    found and verified again. Raises DamagedCompetitors for those who are not there as they were."""
    origins: dict[str, Origin] = {}
    damaged: dict[str, str] = {}
    for address in dict.fromkeys(entrant.run for entrant in entrants if entrant.run is not None):
        try:
            origins[address] = open_origin(address, progress)
        except (NotARun, NotAnExport, CorruptManifest) as error:
            damaged |= {entrant.competitor: str(error) for entrant in entrants if entrant.run == address}
    found, unread = _read([e for e in entrants if e.competitor not in damaged], origins)
    damaged |= unread | find_damaged(found, progress)
    if damaged:
        raise DamagedCompetitors(damaged, "restore them from a copy")
    return _in_order(entrants, found)


def _open(
    sources: Sequence[EntrantSource], progress: Progress | None
) -> tuple[dict[str, Origin], dict[str, str]]:
    """Each place that is named, by the address it is named by; and why some exported folders tell nothing."""
    origins: dict[str, Origin] = {}
    unreadable: dict[str, str] = {}
    for source in sources:
        try:
            if source.run is not None and source.run not in origins:
                origins[source.run] = RunOrigin(source.run, progress)
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
    """Who is named, once each, as they go by where they come from."""
    known = {*bots_for(agreed.env_id), *bots, *(bot for run in _runs(origins) for bot in run.bots)}
    chosen: list[Entrant] = []
    for source in sources:
        temperatures = [temperature_of(mode) for mode in source.modes]
        match origins.get(source.run or source.folder or ""):
            case RunOrigin() as run:
                chosen += run.chosen(source.select, source.names, temperatures)
            case ExportOrigin() as export:
                chosen += export.chosen(temperatures)
        # what is no known bot is a user's own, or refused when it is made
        chosen += [bot_entrant(named_bot(text, known) or text) for text in source.bots]
    return list({(entrant.run, entrant.competitor): entrant for entrant in chosen}.values())


def _bot_settings(
    entrants: Sequence[Entrant],
    origins: Mapping[str, Origin],
    agreed: Agreed,
    bots: Mapping[str, BotSettings],
) -> dict[str, BotSettings]:
    """`bots`, and what the runs say of others who take part; all who do can take every seat."""
    settings = dict(bots)
    playing = [entrant.competitor for entrant in entrants if entrant.run is None]
    for bot in playing:
        told = [(run.address, run.bots[bot]) for run in _runs(origins) if bot in run.bots]
        if bot not in settings and told:
            settings[bot] = alike(f"bots.{bot}", told)
    for bot in playing:
        require_bot(bot, agreed, settings)
    return settings


def _runs(origins: Mapping[str, Origin]) -> list[RunOrigin]:
    return [origin for origin in origins.values() if isinstance(origin, RunOrigin)]


def _read(
    entrants: Sequence[Entrant], origins: Mapping[str, Origin]
) -> tuple[dict[str, SnapshotSource], dict[str, str]]:
    """Where those of `entrants` lie who are snapshots, by name, and why that cannot be told of others.
    `origins` by their addresses."""
    found: dict[str, SnapshotSource] = {}
    damaged: dict[str, str] = {}
    for entrant in entrants:
        if entrant.run is None:
            continue
        try:
            found[entrant.competitor] = origins[entrant.run].source(entrant)
        except DAMAGE as error:
            damaged[entrant.competitor] = str(error)
    return found, damaged


def _in_order(
    entrants: Sequence[Entrant], found: Mapping[str, SnapshotSource]
) -> tuple[SnapshotSource | BotSource, ...]:
    return tuple(
        BotSource(entrant.competitor) if entrant.run is None else found[entrant.competitor]
        for entrant in entrants
    )


def _require_enough(entrants: Sequence[Entrant], agreed: Agreed, left_out: int) -> None:
    """Raise Mistake where not even one match can be seated."""
    if len(entrants) < agreed.num_teams:
        some = ", ".join(entrant.competitor for entrant in entrants) or "nobody"
        more = f" ({left_out} were left out as damaged)" if left_out else ""
        raise Mistake(
            f"competitors: found {some}{more}, expected at least {agreed.num_teams}: those who meet in "
            f"'{agreed.env_id}' are all different; name more"
        )
