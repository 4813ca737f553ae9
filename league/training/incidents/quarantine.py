"""Matches that were set aside because runners died while they played them, and how to play them here.

They are recorded as crashes, in which every seat forfeits, so no rating follows from them. A file in the
folder `incidents` of the run has all that playing them again needs, and the command for it:

    python -c "from league.training.incidents.quarantine import play; play('runs/x', 'incidents/12.json')"

The command plays one match after the other in its own process and names each before it begins: the last name
is that of the match at which the process died.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from league.config.loading import load
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import PlayRequest, PlaySetup
from league.training.sources import Sources
from league.training.state.under_way import Part
from storage.archive import Archive, open_reader
from storage.layout import CONFIG
from storage.records import EndReason, LivePlayer, MatchBatch, Outcome, Purpose, ResultBatch

MOST_KEPT = 100  # files of one session; further matches are only recorded as crashes


def crashed(matches: MatchBatch) -> ResultBatch:
    """Return results of M matches that crashed: every seat forfeits, with the same rank."""
    m, s = matches.seat.shape
    return ResultBatch(
        matches=matches,
        outcome=np.full((m, s), Outcome.FORFEIT, np.int8),
        score=np.zeros((m, s), np.float32),
        rank=np.zeros((m, s), np.int8),
        env_steps=np.zeros(m, np.int32),
        reason=np.full(m, EndReason.CRASH, np.int8),
        started_at=np.full(m, time.time()),
        seconds=np.zeros(m, np.float32),
    )


def save(archive: Archive, part: Part, cause: str) -> Path:
    """Keep matches that were set aside in the run folder; return the file."""
    matches = part.matches
    name = f"{int(matches.match_id[0])}.json"
    call = f"play({str(archive.run)!r}, 'incidents/{name}')"
    command = f"from league.training.incidents.quarantine import play; {call}"
    fields = {
        "cause": cause,
        "deaths": part.deaths,
        "reproduce": f'python -c "{command}"',
        "env": matches.env,
        "env_options": None if part.env_options is None else dict(part.env_options),
        "purpose": matches.purpose.value,
        "teams": matches.team_of_seat,
        "matches": [
            {
                "match_id": match.match_id,
                "seed": match.seed,
                "match_type": match.match_type,
                "seats": [seat.competitor for seat in match.seats],
            }
            for match in (matches[i] for i in range(len(matches)))
        ],
    }
    return archive.save_set_aside(name, fields)


def play(run: str | Path, file: str) -> None:
    """Play the matches of a file that `save` wrote, one by one, in this process, and print how each goes.

    Where a live player sat, its newest snapshot sits: weights between snapshots are not stored. Openings and
    the moves that are drawn may differ.
    """
    run = Path(run)
    fields = json.loads((run / file).read_text())
    settings = load(run / CONFIG)
    archive = open_reader(run)
    sources = Sources(settings, archive)  # type: ignore[arg-type]  # it reads alone
    newest = {snapshot.player: snapshot for snapshot in archive.snapshots()}
    options = settings.env.options if fields["env_options"] is None else fields["env_options"]
    rollout = settings.rollout_of_runners.model_copy(update={"slots": 1, "record": 0.0})
    cache = settings.storage.cache()
    runner = EnvRunner(PlaySetup(fields["env"], options, rollout, 1, cache, settings.bots))
    for entry in fields["matches"]:
        matches = _one(fields, entry)
        print(f"match {entry['match_id']}: {', '.join(entry['seats'])}", flush=True)
        seated = [archive.find(name) for name in matches.competitors]
        chosen = [newest[each.player] if isinstance(each, LivePlayer) else each for each in seated]
        request = PlayRequest(
            matches, tuple(sources.of(each) for each in chosen if each is not None), (), entry["seed"]
        )
        results, _, _ = runner.play(request, {})
        print(f"  {EndReason(results.reason[0]).name.lower()}, {int(results.env_steps[0])} steps", flush=True)


def _one(fields: Mapping[str, Any], entry: Mapping[str, Any]) -> MatchBatch:
    competitors = tuple(dict.fromkeys(entry["seats"]))
    return MatchBatch(
        env=fields["env"],
        purpose=Purpose(fields["purpose"]),
        match_types=(entry["match_type"],),
        competitors=competitors,
        match_id=np.array([entry["match_id"]], np.int64),
        seed=np.array([entry["seed"]], np.int64),
        match_type=np.zeros(1, np.int16),
        seat=np.array([[competitors.index(name) for name in entry["seats"]]], np.int32),
        learning=np.zeros((1, len(entry["seats"])), np.bool_),
        team_of_seat=None if fields["teams"] is None else tuple(fields["teams"]),
    )
