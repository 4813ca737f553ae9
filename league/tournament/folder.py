"""Run folder of a tournament: its settings, and what may change when it goes on.

More pairs, another schedule, more competitors, other gates and another anchor continue a tournament: all that
it played counts. The game, the seed, the openings and the way of playing stay, so that all its games are of
one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from league.section import leaves
from league.tournament.entrants import Entries, gather
from league.tournament.places import Places, present_book
from league.tournament.settings import GameSettings, Resolved, TournamentSettings, load_resolved
from league.tournament.stages import newest_settings
from league.training.resume import ResumeRefused
from storage.archive import open_reader
from storage.disk import Progress
from storage.errors import NotARun
from storage.layout import RATED, require_run
from storage.records import Entrant

DECIDING = (
    "seed",
    "opening.plies",
    "opening.book",
    "rules",
    "limits",
    "ratings",
    "rollout.slots",
    "rollout.matches_per_request",
    "rollout.record",
    "rollout.device",
)
"""Settings that determine the games and their records."""
RESOLVED = ("env", "teams", "rollout.step_limit", "ratings.anchors", "opening.book_hash", "bots", "seat_envs")
"""Settings that were filled in if they were not given."""
OF_ENTRANTS = ("bots", "seat_envs")
"""Settings by the name of an entrant: those of newcomers are free."""


def is_tournament(out: Path) -> bool:
    """Return whether the folder holds a tournament that can go on."""
    try:
        return "competitors" in _settings(out)
    except NotARun:
        return False


def settings_of(out: Path) -> Resolved:
    """Return the settings of the tournament in `out`, without its trusted networks. Raise NotARun.

    Trust is never taken from a folder: only the user can give it.
    """
    config = _settings(out)
    if RATED in config:
        raise NotARun(
            f"{out}: found games that were played elsewhere, whose competitors cannot play here; to add "
            f"games: league rate FILE --run {out}"
        )
    if "competitors" not in config:
        raise NotARun(
            f"{out}: found the run of a league, expected that of a tournament; choose another --run"
        )
    return load_resolved(config, {"trust": ()})


def followed(
    begun: Resolved, settings: TournamentSettings | None, places: Places
) -> tuple[Resolved, TournamentSettings | None]:
    """Return both with the present addresses of runs and of the book that have moved."""
    named = None if settings is None else settings.opening.book
    opening = present_book(begun.opening, places.out, named)
    here = {"competitors": places.follow(begun.competitors), "opening": opening}
    if settings is not None:
        book = opening.book if named == begun.opening.book else named
        now = {
            "competitors": places.follow(settings.competitors),
            "opening": settings.opening.model_copy(update={"book": book}),
        }
        settings = settings.model_copy(update=now)
    return begun.model_copy(update=here), settings


def newcomers(
    settings: TournamentSettings,
    begun: Resolved,
    field: Sequence[Entrant],
    places: Places,
    *,
    again: bool,
    progress: Progress | None = None,
) -> Entries | None:
    """Return the competitors of `settings` that join the `field` of a tournament, whose `places` are known.

    Sources of competitors that the tournament has used already are looked into only if `again` is True: a run
    may have frozen more by now. Return `None` if there is nothing to look into. Raise Mistake for competitors
    of another game or with other weights than they played with, and as `gather` does.
    """
    asked = [
        source
        for source in settings.competitors
        if (again or source not in begun.competitors) and not places.only_holds(source, again=again)
    ]
    if not asked:
        return None
    names = {entrant.competitor for entrant in field}
    from_runs = any(source.run is not None or source.folder is not None for source in asked)
    wanted = {
        "competitors": tuple(asked),
        "env": settings.env if from_runs else begun.env,
        "seat_envs": {name: env for name, env in settings.seat_envs.items() if name not in names},
        "teams": begun.teams,
        "bots": dict(begun.bots) | dict(settings.bots),
        "rollout": begun.rollout,
    }
    entries = gather(settings.model_copy(update=wanted), field, places.runs, progress)
    game = entries.agreed
    if GameSettings(id=game.env_id, options=game.env_options) != begun.env:
        options = f" {game.env_options}" if game.env_options else ""
        raise ResumeRefused(
            f"{places.out}: the competitors that are named play '{game.env_id}'{options}, the tournament "
            f"plays '{begun.env.id}'; name others, or start a new one with another --run"
        )
    return entries


def going_on(
    settings: TournamentSettings,
    begun: Resolved,
    out: Path,
    field: Sequence[Entrant] = (),
    joining: Entries | None = None,
) -> Resolved:
    """Return `settings`, with those that were not given taken from `begun`, of the tournament in `out`.

    `field` are its entrants so far. Raise ResumeRefused for settings that lead to games of another kind.
    """
    now, before = _of_field(settings, field), _of_field(begun, field)
    for name in dict.fromkeys([*now, *before]):
        decides = any(f"{name}.".startswith(f"{deciding}.") for deciding in DECIDING)
        found = any(f"{name}.".startswith(f"{resolved}.") for resolved in RESOLVED)
        if found and now.get(name) in (None, {}):
            continue
        if (decides or found) and now.get(name) != before.get(name):
            raise ResumeRefused(
                f"{out}: {name} is {_to_text(now.get(name))}, the tournament was begun with "
                f"{_to_text(before.get(name))}; give the old settings, or start a new one with another --run"
            )
    rollout = settings.rollout.model_copy(update={"step_limit": begun.rollout.step_limit})
    kept: dict[str, Any] = {name: getattr(begun, name) for name in ("env", "teams", "ratings", "opening")}
    kept["competitors"] = (
        *begun.competitors,
        *(source for source in settings.competitors if source not in begun.competitors),
    )
    kept["bots"] = dict(settings.bots) | (joining.bots if joining else {}) | dict(begun.bots)
    brought = joining.seat_envs if joining else {}
    kept["seat_envs"] = {name: GameSettings(**env) for name, env in brought.items()} | dict(begun.seat_envs)
    return Resolved(**(dict(settings) | kept | {"rollout": rollout}))


def _settings(out: Path) -> dict[str, Any]:
    """Return the settings of the newest session, as the ledger has them. Raise NotARun."""
    require_run(out)
    found = newest_settings(out)
    if not isinstance(found, dict):
        found = open_reader(out).config()
    return found if isinstance(found, dict) else {}


def _of_field(settings: TournamentSettings, field: Sequence[Entrant]) -> dict[str, Any]:
    """Return settings by full names (`schedule.pairs`), without those of bots and seats beyond `field`."""
    names = {entrant.competitor for entrant in field}
    kept = {
        setting: {name: value for name, value in getattr(settings, setting).items() if name in names}
        for setting in OF_ENTRANTS
    }
    return leaves(settings.model_copy(update=kept).model_dump(mode="json"))


def _to_text(value: Any) -> str:
    """Return a value on one line, without entries that are `None` or empty."""
    if isinstance(value, list):
        return f"[{', '.join(map(_to_text, value))}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{name}: {_to_text(v)}' for name, v in value.items() if v not in (None, []))}}}"
        )
    return "none" if value is None else str(value)
