"""The command `league rate`: the verdict on games that were played elsewhere."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from league.commands.console import (
    AnchorOption,
    ExportOption,
    GateOption,
    JsonOption,
    named_anchors,
    progress_bars,
    working,
)

if TYPE_CHECKING:
    from analysis.gates.gates import Gate
    from analysis.tournaments.tournament import Verdict
    from storage.records import Entrant, ResultBatch


Anchors = dict[str, dict[str, float]] | None


def rate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            help="Files of games (.csv, .tsv, .jsonl, .json, .parquet, .pgn); or runs of tournaments, whose "
            "games are joined to them",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="ROLE=COLUMN,...",
            help="Columns that are not found by their names, such as home=white,away=black; roles: home, "
            "away, result or winner; or game, seat, competitor, score or rank; and pair, date, count",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run folder to record the games in; if it is there, they are added"),
    ] = None,
    anchors: AnchorOption = None,
    gates: GateOption = None,
    table_file: ExportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rate games that were played elsewhere: ratings with intervals, as in the verdict of a tournament."""
    from analysis.gates.gates import parse_gate
    from analysis.tournaments.exports import check_path, export
    from league.commands.tournaments import print_verdict
    from storage.errors import Mistake

    given = [path.resolve() for path in files or ()]
    if twice := [path for path, whole in zip(files or (), given, strict=True) if given.count(whole) > 1]:
        raise Mistake(f"rate: found {twice[0]} twice, expected each file once: its games would count twice")
    if table_file is not None:
        check_path(table_file)
        if table_file.resolve() in given:
            raise Mistake(f"--export: found {table_file}, whose games are rated, expected another file")
    parsed = [parse_gate(gate) for gate in gates or ()]
    found = _verdict(files or [], _roles(columns), run, named_anchors(anchors), parsed)
    results = [gate.check(found) for gate in parsed]
    if table_file is not None:
        export(found.table, table_file)
    print_verdict(found, results, run, as_json)
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _verdict(
    files: Sequence[Path],
    columns: dict[str, str],
    run: Path | None,
    anchors: Anchors,
    gates: Sequence[Gate],
) -> Verdict:
    """Return the verdict on the games of all files, and those that `run` has already; record them there.

    Names of `gates` are checked before.
    """
    from analysis.gates.names import labels_of, with_runs
    from analysis.tournaments.tournament import judged, verdict
    from league.tournament.rated_games import rated_of, record, stamps
    from storage import query
    from storage.archive import open_reader
    from storage.errors import Mistake
    from storage.layout import RATED

    begun = None if run is None else rated_of(run)
    if not files and begun is None:
        raise Mistake("rate: found no FILE, expected files of games, or --run DIR with games that were rated")
    known: list[Entrant] = []
    first = 0
    sources: dict[int, Path] = {}  # of games with so many seats
    if run is not None and begun is not None:
        known, first = open_reader(run).entrants(), begun["games"]
        sources[query(run, "SELECT num_seats FROM matches LIMIT 1")["num_seats"][0].as_py()] = run
    before = dict(begun[RATED]) if begun is not None else {}
    if run is not None or any(path.is_dir() for path in files):
        before |= stamps(files, before)
    with working("reading games"):
        results, entrants = _read(files, columns, known, first, sources)
    for gate in gates:
        gate.resolve(with_runs(entrants, labels_of(entrants)))
    if run is None:
        with working("rating the competitors"):
            return judged(results, entrants, anchor=_named(anchors, entrants))
    settings: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]", "-", run.name) or RATED,
        RATED: before,
        "games": first + sum(map(len, results)),
        "anchors": _named(anchors, entrants) or (begun or {}).get("anchors") or {},
    }
    if files or settings != begun:
        with progress_bars() as progress:
            tell = functools.partial(typer.echo, err=True)
            record(run, begun, settings, results, entrants, tell=tell, progress=progress)
    with working("rating the competitors"):
        return verdict(run)


def _read(
    files: Sequence[Path],
    columns: dict[str, str],
    known: Sequence[Entrant],
    first: int,
    sources: dict[int, Path],
) -> tuple[list[ResultBatch], list[Entrant]]:
    """Return the games of all files, numbered from `first` on, and their competitors behind the `known`.

    `sources`: where games with so many seats come from. Raise Mistake for games of different numbers.
    """
    from analysis.tournaments.files import read_games
    from analysis.tournaments.tournament import external, games_to_join
    from storage.errors import Mistake

    entrants = {entrant.competitor: entrant for entrant in known}
    results: list[ResultBatch] = []
    for path in files:
        if path.is_dir():
            found, members = games_to_join(path, first)
        else:
            found = [read_games(path, columns, first=first)]
            members = external(found[0].matches.competitors)
        for batch in found:
            sources.setdefault(batch.matches.num_seats, path)
        if len(sources) > 1:
            (seats, one), (others, another) = list(sources.items())[:2]
            raise Mistake(
                f"{another}: games of {others} seats, expected {seats} as in {one}; rate them by themselves"
            )
        results += found
        first += sum(map(len, found))
        for member in members:  # one of ours is known by more than its name
            if member.competitor not in entrants or entrants[member.competitor].kind == "external":
                entrants[member.competitor] = member
    return results, list(entrants.values())


def _roles(columns: str | None) -> dict[str, str]:
    """Return the column of each role that was given. Raise Mistake for another form."""
    from storage.errors import Mistake

    found: dict[str, str] = {}
    for part in (columns or "").split(",") if columns is not None else ():
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not (role and equals and column) or role in found:
            raise Mistake(
                f"--columns: found '{part}', expected ROLE=COLUMN once each, such as home=white,away=black"
            )
        found[role] = column
    return found


def _named(anchors: Anchors, entrants: Sequence[Entrant]) -> Anchors:
    """Return the ratings that are given by entrant. Raise Mistake for an anchor that no game names."""
    from analysis.gates.names import find_recorded
    from storage.errors import Mistake

    try:
        return {find_recorded(name, entrants).competitor: given for name, given in (anchors or {}).items()}
    except Mistake as error:
        raise Mistake(f"--anchor: {error}") from None
