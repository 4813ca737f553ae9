"""Run folder of games that were played elsewhere: the records that a tournament of ours has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from league.config.file import to_yaml
from league.rules.rating.rating import RatingSettings
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage import query
from storage.archive import Archive, open_reader
from storage.disk import Progress
from storage.errors import Mistake
from storage.layout import FORMAT, RATED
from storage.records import Entrant, ResultBatch
from storage.tables.database_file import DatabaseFile

BATCH = 2**16  # games of one frame of the ledger


def rated_of(run: Path) -> dict[str, Any] | None:
    """Return the settings of the rated games in `run`; `None` where nothing is there yet.

    Raise NotARun, and Mistake for a run that was played by us, or whose recording was cut off.
    """
    if not (run / FORMAT).exists():
        return None
    config = open_reader(run).config()
    if not isinstance(config, dict) or RATED not in config:
        raise Mistake(
            f"{run}: found a run that was played here, expected one made by league rate; to join its games: "
            f"league rate FILE {run} --run runs/joined"
        )
    (known,) = query(run, "SELECT coalesce(max(match_id) + 1, 0) AS n FROM matches")["n"].to_pylist()
    if known != config["games"]:
        raise Mistake(
            f"{run}: recording its games was cut off after {known:,} of {config['games']:,}; remove the "
            "folder, and rate all files again"
        )
    return config


def stamps(paths: Sequence[Path], before: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the size and hash of each file of games by its path; nothing of a run folder.

    Raise Mistake for games that are among those rated `before`, or that come twice: a run folder of rated
    games has those of its files.
    """
    found: dict[str, dict[str, Any]] = {}
    known = dict(before)
    for path in sorted(paths, key=Path.is_file):
        if path.is_dir():
            if str(path) in known:
                raise Mistake(f"{path}: its games are there already, expected games that are new")
            config = open_reader(path).config()
            rated = config.get(RATED, {}) if isinstance(config, dict) else {}
            hashes = {of["hash"]: name for name, of in known.items() if of}
            if twice := [hashes[of["hash"]] for of in rated.values() if of and of["hash"] in hashes]:
                raise Mistake(f"{path}: has the games of {twice[0]}, too; expected one of the two")
            known |= {f"{name}, in {path}": of for name, of in rated.items()}
            found[str(path)] = {}
        elif path.exists():
            data = path.read_bytes()
            for name, of in known.items():
                if of and blake3(data[: of["size"]]).hexdigest() == of["hash"]:
                    raise Mistake(
                        f"{path}: begins with the games of {name}, which are there already, expected new "
                        "games; give them in a file of their own, or rate all in a new --run"
                    )
            found[str(path)] = {"size": len(data), "hash": blake3(data).hexdigest()}
        known |= {str(path): found.get(str(path), {})}
    return found


def record(
    run: Path,
    begun: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    results: Sequence[ResultBatch],
    entrants: Sequence[Entrant],
    *,
    tell: Callable[[str], None],
    progress: Progress,
) -> None:
    """Record the games in `run`, a new one or, if `begun` are its settings, behind those that are there.

    Raise RunExists, RunLocked, CorruptLedger, DiskFailed.
    """
    env = results[0].matches.env if results else "games"
    row = {"name": settings["name"], "env": env, "seed": 0}
    text = to_yaml(settings)
    if begun is None:
        archive, known = Archive.create(run, text, row, entrants=entrants), []
    else:
        archive = Archive.open(run)
        known = archive.entrants()
    with archive:
        names = {entrant.competitor for entrant in known}
        joining = [entrant for entrant in entrants if entrant.competitor not in names]
        if begun is not None:
            archive.begin_session(row, text, joining)
        standings = Standings(Roster([*known, *joining]), RatingSettings())
        for batch in archive.results():
            standings.record(batch)
        database = DatabaseFile(run, lambda: archive.num_changes, say=tell)
        total, done = sum(map(len, results)), 0
        for batch in results:
            for start in range(0, len(batch), BATCH):
                part = batch.take(np.arange(start, min(start + BATCH, len(batch))))
                archive.append_results(part, standings.record(part))
                done += len(part)
                progress(f"recording games in {run}", done, total)
        database.finish(progress)
