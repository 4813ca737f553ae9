"""Places: where the entrants of a tournament are now, and the copies that it may hold of them.

An entrant is recorded with the address of its run or exported folder. Where that no longer has it, the
hash of its weights finds it in these places, in this order:

    the tournament's folder `entrants`, which `pack` fills
    runs and exported folders that its settings or the command line name
    runs and exported folders beside the tournament
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from league.arena.origins import Origin, open_origin
from league.models.bots.scripted import bots_for
from league.tournament.settings import EntrantSource, OpeningSettings, Resolved
from league.tournament.soundness import DAMAGE
from storage.archive import open_reader
from storage.disk import Progress, write_whole
from storage.errors import Mistake, NotARun
from storage.layout import FORMAT, OBJECTS, blob_path
from storage.records import Entrant
from storage.remote.remote import is_url
from storage.upkeep.exports import MANIFEST, NotAnExport

PACK = "entrants"  # folder of copies in the run folder of a tournament
BOOK = "book.txt"  # in it
ABSENT = (*DAMAGE, NotARun, NotAnExport)
"""Errors which mean that an entrant is not at a place."""


@dataclass(frozen=True, slots=True)
class Places:
    """Places at which entrants of a tournament were found by their hashes."""

    out: Path  # the tournament
    moved: Mapping[str, tuple[str, ...]]  # places by the address that no longer has all of its entrants

    def of(self, address: str) -> tuple[str, ...]:
        """Return the places of the entrants with this address."""
        return address, *self.moved.get(address, ())

    @property
    def runs(self) -> dict[str, str]:
        """Recorded addresses of the runs that have moved, by their present ones."""
        return {
            place: address
            for address, places in self.moved.items()
            for place in places
            if (Path(place) / FORMAT).exists() and not _is_origin(Path(address))
        }

    def follow(self, sources: Sequence[EntrantSource]) -> tuple[EntrantSource, ...]:
        """Return the sources with the present addresses of runs that have moved."""
        now = {address: place for place, address in reversed(self.runs.items())}
        return tuple(
            source.model_copy(update={"run": now.get(source.run or "", source.run)}) for source in sources
        )

    def only_holds(self, source: EntrantSource, *, again: bool) -> bool:
        """Return whether a source names a place of entrants alone, and none that could join.

        A run without a choice of competitors is such a place too, unless sources are looked into `again`.
        """
        address = source.run or source.folder
        if address in self.moved and not _is_origin(Path(str(address))):
            return True
        chosen = source.select is not None or bool(source.names) or (again and source.run is not None)
        return not chosen and any(address in places for places in self.moved.values())

    def remedy(self) -> str:
        """Return what to do about entrants that are at none of the places."""
        return (
            "no run or exported folder that is named or is in "
            f"{self.out.absolute().parent} has these weights; name one that has: league tournament FOLDER "
            f"--run {self.out} --resume, or restore them from a copy"
        )


def look_for(
    field: Sequence[Entrant], out: Path, sources: Sequence[EntrantSource], progress: Progress | None = None
) -> Places:
    """Return the places of the `field` of the tournament in `out`; `sources` name some of them."""
    missing = [entrant for entrant in field if entrant.run is not None and not _is_at(entrant.run, entrant)]
    found: dict[str, list[str]] = {str(entrant.run): [] for entrant in missing}
    opened = functools.cache(lambda place: open_origin(place, progress))
    for place in _candidates(out, sources) if missing else ():
        for entrant in missing:
            known = found[str(entrant.run)]
            if place not in (entrant.run, *known) and _is_at(place, entrant):
                with contextlib.suppress(*ABSENT):
                    opened(place).source(entrant)
                    known.append(place)
    return Places(out, {address: tuple(places) for address, places in found.items()})


def _candidates(out: Path, sources: Sequence[EntrantSource]) -> list[str]:
    """Return the places to look at, in order."""
    packed = map(str, sorted((out.resolve() / PACK).glob("*/")))
    named = [source.run or source.folder for source in sources]
    beside = map(str, sorted(filter(_is_origin, out.resolve().parent.iterdir())))
    return [place for place in dict.fromkeys([*packed, *named, *beside]) if place and not is_url(place)]


def present_book(opening: OpeningSettings, out: Path, named: str | None) -> OpeningSettings:
    """Return the opening with a book of its hash: where `named`, where it was, packed, or beside `out`."""
    if opening.book is None:
        return opening
    beside = out.resolve().parent / Path(opening.book).name
    for place in (named, opening.book, str((out / PACK / BOOK).resolve()), str(beside)):
        if place is not None and Path(place).is_file():
            there = opening.model_copy(update={"book": place, "book_hash": None}).with_hash()
            if there.book_hash == opening.book_hash:
                return there
    return opening


def pack(out: Path, settings: Resolved, progress: Progress | None = None) -> str:
    """Copy the entrants and the book of the tournament in `out` into its folder; return what was done.

    `settings`: as it recorded them. Raise Mistake for entrants that are missing, and for a changed book.
    """
    field = open_reader(out).entrants()
    places, into = look_for(field, out, settings.competitors, progress), out / PACK
    copied = [entrant for entrant in field if entrant.run is not None]
    opened = functools.cache(lambda place: open_origin(place, progress))
    into.mkdir(exist_ok=True)
    for done, entrant in enumerate(copied, start=1):
        own = into / f"{Path(str(entrant.run)).name}-{blake3(str(entrant.run).encode()).hexdigest()[:8]}"
        own.mkdir(exist_ok=True)
        _origin_of(entrant, places, opened).copy(entrant, own)
        if progress is not None:
            progress("packing competitors", done, len(copied))
    opening = present_book(settings.opening, out, None)
    if opening.book is not None and not (into / BOOK).exists():
        opening.openings()  # refuses a book that was changed
        write_whole(into / BOOK, [Path(opening.book).read_bytes()])
    ours = bots_for(settings.env.id)
    bots = [each.competitor for each in field if each.run is None and each.competitor not in ours]
    needs = f"; its bots are still needed where it goes on: {', '.join(bots)}" if bots else ""
    return f"{into}: copies of {len(copied)} competitors; the folder {out} can be played on anywhere{needs}"


def _origin_of(entrant: Entrant, places: Places, opened: Callable[[str], Origin]) -> Origin:
    for place in places.of(str(entrant.run)):
        with contextlib.suppress(*ABSENT):
            opened(place).source(entrant)
            return opened(place)
    raise Mistake(f"{entrant.competitor}: {entrant.run} no longer has it; {places.remedy()}")


def _is_origin(folder: Path) -> bool:
    return any(os.path.exists(folder / name) for name in (FORMAT, MANIFEST))  # False where none may look


def _is_at(place: str, entrant: Entrant) -> bool:
    """Return whether an entrant may be at a place, to judge by the names of files alone."""
    folder = Path(place)
    if is_url(place) or folder.parent.name == PACK:
        return True
    if entrant.kind == "snapshot" and (folder / FORMAT).exists():
        return blob_path(folder / OBJECTS, str(entrant.blob_hash)).exists()
    return _is_origin(folder)
