"""Room: the matches that are played in the browser, a few at a time, and the recorded ones.

At most MOST_SITTINGS matches are kept. One that was idle for IDLE_SECONDS is dropped, and the longest idle
one makes place for a new one. All play is in one thread: policies of one shape share a network.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from league.competitors.names import (
    BEST,
    Names,
    known_bots,
    load_snapshot,
    name_of,
    seats_for,
    snapshots_of,
)
from league.envs import registry
from league.mistakes import explain
from league.models.bots.scripted import bots_for
from league.rollout.requests import BotSource
from league.rollout.snapshots import SnapshotSource
from league.section import SettingsGroup
from league.watching.browser.hints import Adviser
from league.watching.browser.pictures import style
from league.watching.browser.playback import playback, recordings
from league.watching.browser.seated_match import Absent, Sitting
from league.watching.seating import HUMAN, Seating, Source, seat_competitors
from league.watching.words import ordinal
from storage import open_reader
from storage.errors import Mistake

MOST_SITTINGS = 16
IDLE_SECONDS = 1800.0
MOST_BYTES = 2**31  # of the weights of all policies
MOST_NAMES = 400  # competitors that are offered by name; any other may be typed
MOST_SEATS = 16

S = TypeVar("S", bound=SettingsGroup)
Name = Annotated[str, Field(min_length=1, max_length=400)]


class Wish(SettingsGroup):
    """Match that a page asks for."""

    seats: Annotated[list[Name], Field(min_length=1, max_length=MOST_SEATS)] = Field(
        description="Competitor of each seat, or `human`"
    )
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1, description="Seed of deals and draws")
    adviser: Name | None = Field(default=None, description="Policy that gives hints; default: an opponent")


class PageMove(SettingsGroup):
    """Action that a page sends; without one, the match goes on by itself."""

    number: int = Field(ge=0, description="Steps that the page has seen, so that none is answered twice")
    action: Annotated[list[float], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Numbers of the action"
    )


@dataclass(slots=True)
class _Kept:
    sitting: Sitting
    bytes: int  # of the weights of its policies
    touched: float


class Lobby:
    """Matches of one run that pages play. Methods may be called by any thread; they take turns."""

    style = property(lambda self: style(), doc="The style sheet of all pictures.")

    def __init__(
        self, run: Path, clock: Callable[[], float] = time.monotonic, bots: Collection[str] = ()
    ) -> None:
        """`bots`: further bots that pages may name, such as one of the user's own."""
        self._run = run
        self._bots = frozenset(bots)
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def about(self) -> dict[str, Any]:
        """Return the run, its game, and the competitors that may be named."""
        with self._lock:
            reader = open_reader(self._run)
            config, env = reader.config(), reader.env()
            snapshots = [snapshot.snapshot_id for snapshot in reader.snapshots()]
            players = list(dict.fromkeys(snapshot.player for snapshot in reader.snapshots()))
            bots = [*bots_for(env["id"]), *config.get("bots", {})]
            names = [*players, "best", *(f"{player}:average" for player in players), *bots, *snapshots[::-1]]
            seats = registry.make(env["id"], 1, **env["options"]).num_seats
            return {
                "run": config.get("name") or self._run.name,
                "game": env["id"],
                "seats": seats,
                "names": list(dict.fromkeys(names))[:MOST_NAMES],
                "person": HUMAN,
                "places": [f"{ordinal(seat).capitalize()} seat" for seat in range(seats)],
            }

    def begin(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a match and return it with its id. Raise Mistake, UnknownCompetitor."""
        wish = _read(Wish, asked)
        if wish.seats.count(HUMAN) > 1:
            raise Mistake(f"found {wish.seats.count(HUMAN)} seats of '{HUMAN}', expected at most one")
        with self._lock:
            wish = self._named(wish)
            size = self._size(wish)
            sitting = self._sit(wish)
            self._drop(1, size)
            key = secrets.token_urlsafe(12)
            self._kept[key] = _Kept(sitting, size, self._clock())
            return {"id": key, **sitting.look()}

    def look(self, key: str) -> dict[str, Any]:
        """Return a match. Raise Mistake if it was dropped."""
        with self._lock:
            return {"id": key, **self._find(key).look()}

    def go_on(self, key: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Play on, with the person's action if there is one. Raise Mistake."""
        move = _read(PageMove, asked)
        with self._lock:
            sitting = self._find(key)
            if move.number != sitting.number:
                raise Mistake(
                    f"this page shows step {move.number} of the match, which is at step {sitting.number}: "
                    "load it again"
                )
            sitting.go_on(move.action)
            return {"id": key, **sitting.look()}

    def hint(self, key: str) -> dict[str, Any]:
        """Return what a policy would do in the person's place. Raise Mistake if none can be given."""
        with self._lock:
            return self._find(key).hint()

    def take_back(self, key: str) -> dict[str, Any]:
        """Go back to the person's last decision. Raise Mistake if there was none."""
        with self._lock:
            sitting = self._find(key)
            sitting.take_back()
            return {"id": key, **sitting.look()}

    def leave(self, key: str) -> dict[str, Any]:
        """End a match."""
        with self._lock:
            self._kept.pop(key, None)
            return {"left": True}

    def recordings(self) -> list[dict[str, Any]]:
        """Return the newest matches that were recorded action by action."""
        return recordings(self._run)

    def playback(self, match_id: int) -> dict[str, Any]:
        """Return all steps of a recorded match. Raise Mistake if it was not recorded."""
        return playback(self._run, match_id)

    def check(self, names: Sequence[str]) -> None:
        """Raise Mistake unless `names` can be seated, one in each seat."""
        wish = _read(Wish, {"seats": list(names)})
        if wish.seats.count(HUMAN) > 1:
            raise Mistake(
                f"play: found {names.count(HUMAN)} seats of '{HUMAN}', expected at most one in a browser"
            )
        with self._lock:
            wish = self._named(wish)
            self._size(wish)
            self._sit(wish)

    def _named(self, wish: Wish) -> Wish:
        """Return the wish with the snapshot that `best` is now, which is looked for once."""
        known = Names(open_reader(self._run))
        best = {name for name in wish.seats if name.partition(":")[0] == BEST}
        found = {name: name_of(known.source(name)) for name in best}
        return wish.model_copy(update={"seats": [found.get(name, name) for name in wish.seats]})

    def _sit(self, wish: Wish) -> Sitting:
        seating = seat_competitors(self._run, wish.seats, lambda game, seat: Absent())
        adviser = None
        if HUMAN in wish.seats:
            adviser = self._adviser(seating, wish.seats.index(HUMAN), wish.adviser)
        seed = secrets.randbelow(2**31) if wish.seed is None else wish.seed
        return Sitting(seating, seed, adviser)

    def _size(self, wish: Wish) -> int:
        """Return the bytes of all weights of a match.

        Raise Mistake if they are too many, and for bots of a user's own that the run does not have: a name
        such as "module:Class" imports code, and a page may only name what the run's config has.
        """
        reader = open_reader(self._run)
        names, bots = Names(reader), {*known_bots(reader.config(), reader.env()["id"]), *self._bots}
        total = 0
        for name in wish.seats:
            if name == HUMAN:
                continue
            source = names.source(name)
            if isinstance(source, BotSource) and source.name not in bots:
                raise Mistake(f"'{name}': a bot of your own must be named in the run's config to play here")
            total += sum(snapshot.bytes or 0 for snapshot in snapshots_of(source))
        if total > MOST_BYTES:
            raise Mistake(
                f"found {total / 1e9:.1f} GB of weights, expected at most {MOST_BYTES / 1e9:.1f} GB"
            )
        return total

    def _adviser(self, seating: Seating, seat: int, name: str | None) -> Adviser | None:
        """Return the policy that gives hints in `seat`: the named one, else an opponent's, else the newest.

        Raise Mistake for one that is named and cannot take this seat.
        """
        reader, game = open_reader(self._run), seating.game
        if game.action_specs[seat].kind != "discrete":
            return None
        known, newest = Names(reader), (snapshot.snapshot_id for snapshot in reversed(reader.snapshots()))
        candidates: Iterable[Source | None] = (
            chain(seating.sources, map(known.source, newest)) if name is None else [known.source(name)]
        )
        for source in candidates:
            if isinstance(source, SnapshotSource) and seat in seats_for(source, game):
                return Adviser(load_snapshot(source), name_of(source), seat)
        if name is not None:
            raise Mistake(
                f"'{name}' gives no hints, expected a snapshot with the spaces of the {ordinal(seat)} seat"
            )
        return None

    def _find(self, key: str) -> Sitting:
        self._drop()
        kept = self._kept.get(key)
        if kept is None:
            raise Mistake("this match is no longer kept: it was left or idle for too long; begin another one")
        kept.touched = self._clock()
        return kept.sitting

    def _drop(self, room_for: int = 0, size: int = 0) -> None:
        """Drop idle matches, and as many of the longest idle ones as leave room for `room_for` more."""
        now = self._clock()
        for key in [k for k, kept in self._kept.items() if now - kept.touched > IDLE_SECONDS]:
            del self._kept[key]
        while self._kept and (
            len(self._kept) + room_for > MOST_SITTINGS
            or size + sum(kept.bytes for kept in self._kept.values()) > MOST_BYTES
        ):
            del self._kept[min(self._kept, key=lambda k: self._kept[k].touched)]


def _read(kind: type[S], asked: Mapping[str, Any]) -> S:
    """Return what a page asks for. Raise Mistake for anything else."""
    try:
        return kind.model_validate(asked)
    except ValidationError as error:
        raise Mistake(explain(error, kind)) from None
