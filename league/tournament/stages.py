"""Stages of a tournament: its schedules and fields, one after the other, as its sessions had them.

A tournament that goes on with more pairs, other competitors or another schedule begins a stage. The stage
before it ends where it was then, and what it played counts. All of this is read from the ledger: from the
settings of each session, the entrants that came with it, and the number of requests that were recorded by
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from league.tournament.schedules.schedule import Pairings
from league.tournament.schedules.settings import ScheduleSettings
from storage.layout import LEDGER
from storage.ledger.ledger import read_frames, read_tables
from storage.records import ResultBatch


@dataclass(frozen=True, slots=True)
class Stage:
    """Stretch of a tournament with one schedule and one field."""

    schedule: ScheduleSettings
    field: int  # number of entrants: those that joined by then
    requests: int | None = None  # recorded, earlier stages included, when it ended; None: it is the last


def stages_of(run: Path) -> list[Stage]:
    """Return the stages of the tournament in `run`, in order. Raise CorruptLedger."""
    stages: list[Stage] = []
    field = requests = 0
    for frame in read_frames(run / LEDGER, tables=("runs", "entrants", "matches")):
        if "entrants" in frame.tables:
            field += frame.tables["entrants"].num_rows
        if "runs" in frame.tables:
            schedule = ScheduleSettings(**_settings(frame.tables["runs"].column("config")[-1])["schedule"])
            if not stages or (stages[-1].schedule, stages[-1].field) != (schedule, field):
                if stages:
                    stages[-1] = replace(stages[-1], requests=requests)
                stages.append(Stage(schedule, field))
        requests += "matches" in frame.tables
    return stages


def rounds_of(
    run: Path, results: Sequence[ResultBatch], names: Sequence[str], games: int
) -> dict[int, Pairings]:
    """Return the recorded pairs of each round that went by results, by the round's number.

    `results` are the recorded ones of `run`, `names` those of the entrants. A pair has so many `games`.
    """
    found = read_tables(run / LEDGER, ("drawn_pairs",))
    if not found:
        return {}
    drawn = found["drawn_pairs"]
    round_of = dict(zip(drawn["match_id"].to_pylist(), drawn["round"].to_pylist(), strict=True))
    index = {name: number for number, name in enumerate(names)}
    rows: dict[int, dict[int, list[int]]] = {}
    for batch in results:
        matches = batch.matches
        teams = matches.team_of_seat or range(matches.num_seats)
        _, first_seat = np.unique(teams, return_index=True)
        for at in np.flatnonzero(matches.match_id % games == 0).tolist():
            number = int(matches.match_id[at])
            if number in round_of:
                seated = matches.seat[at, first_seat].tolist()
                pairs = rows.setdefault(round_of[number], {})
                pairs[number] = [index[matches.competitors[who]] for who in seated]
    return {n: np.array([pairs[key] for key in sorted(pairs)], dtype=np.int64) for n, pairs in rows.items()}


def newest_settings(run: Path) -> dict[str, Any] | None:
    """Return the settings of the newest session, as it recorded them; `None` without any."""
    rows = read_tables(run / LEDGER, ("runs",))
    return _settings(rows["runs"].column("config")[-1]) if rows else None


def _settings(text: Any) -> Any:
    return yaml.safe_load(text.as_py() or "")
