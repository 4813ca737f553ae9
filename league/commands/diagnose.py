"""The command `league diagnose`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from league.commands.console import JsonOption, RunArgument, working
from storage.errors import printable

if TYPE_CHECKING:
    from analysis.diagnostics import Finding
    from analysis.diagnostics.bisection import Play
    from analysis.history.history import History


def diagnose(
    run: RunArgument,
    play: Annotated[
        int | None,
        typer.Option(
            min=32,
            metavar="PAIRS",
            help="Play to find the two snapshots between which a player forgot; PAIRS of games at most",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find problems of a league: forgetting, regressions, circling, cycles, stagnation, lag, drift, ..."""
    import analysis
    from analysis.diagnostics import diagnose as find

    with working(f"diagnosing {run}"), analysis.open_run(run) as history:
        found = find(history)
        if play is not None:
            found = [_located(one, history, run, play) for one in found]
    if as_json:
        print(json.dumps([one.to_json() for one in found]))
        return
    for one in found:
        print(f"{one.severity}: {printable(one.sentence)}" + (f" ({one.advice})" if one.advice else ""))
    if not found:
        print("nothing found")


def player_of_games(run: Path) -> Play:
    """Return a function that plays the run's competitors as `league compare` does, new games at each call."""
    from league.arena.comparison import compare

    calls = 0

    def play(a: str, b: str, pairs: int) -> tuple[int, int, int]:
        nonlocal calls
        calls += 1
        return compare(run, a, b, pairs=pairs, seed=calls).wins_draws_losses

    return play


def _located(finding: Finding, history: History, run: Path, most_pairs: int) -> Finding:
    """Locate a forgetting between two snapshots by playing new games; return other findings unchanged."""
    from analysis.diagnostics import locate_forgetting

    if finding.kind != "forgetting":
        return finding
    first, opponent = finding.evidence["best_from"], finding.evidence["opponent"]
    rows, evidence = history.snapshots(), None
    own = rows.loc[rows["player"] == finding.subject, "snapshot_id"].tolist()  # in order of freezing
    since = own[own.index(first) :] if first in own else []
    snapshots = [name for name in since if name != opponent]
    if len(snapshots) < 2:
        located = f"it has no two snapshots since {first} to play with"
    else:
        location = locate_forgetting(player_of_games(run), snapshots, opponent, most_pairs=most_pairs)
        if location is None:
            located = (
                f"played now, {snapshots[-1]} scores no worse against {opponent} than {snapshots[0]}, as "
                f"far as {most_pairs // 4:,} pairs can show"
            )
        else:
            located, evidence = f"played now: {location.sentence}", dataclasses.asdict(location)
    return dataclasses.replace(
        finding, sentence=f"{finding.sentence}; {located}", evidence=finding.evidence | {"located": evidence}
    )
