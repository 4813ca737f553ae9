"""The command `league diagnose`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from league.commands.console import JsonOption, RunArgument

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
            help="Find between which two snapshots a player forgot, with at most so many pairs of games",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What is wrong in a league: forgetting, cycles, stagnation, regressions, starvation, lag, drift."""
    import analysis
    from analysis.diagnostics import diagnose as find

    with analysis.open_run(run) as history:
        found = find(history)
        if play is not None:
            found = [_located(one, history, run, play) for one in found]
    if as_json:
        print(json.dumps([one.to_json() for one in found]))
        return
    for one in found:
        print(f"{one.severity}: {_printable(one.sentence)}")
    if not found:
        print("nothing found")


def player_of_games(run: Path) -> Play:
    """Plays the run's competitors against each other, as `league compare` does; new games at each call."""
    from league.tournament.comparison import compare

    calls = 0

    def play(a: str, b: str, pairs: int) -> tuple[int, int, int]:
        nonlocal calls
        calls += 1
        return compare(run, a, b, pairs=pairs, seed=calls).wins_draws_losses

    return play


def _located(finding: Finding, history: History, run: Path, most_pairs: int) -> Finding:
    """A forgetting, with the two snapshots that it happened between, as games played now have it."""
    import dataclasses

    from analysis.diagnostics import locate_forgetting

    if finding.kind != "forgetting":
        return finding
    snapshots = _since(history, finding.subject, finding.evidence["best_from"])
    snapshots = [name for name in snapshots if name != finding.evidence["opponent"]]
    if len(snapshots) < 2:
        told, evidence = f"it has no two snapshots since {finding.evidence['best_from']} to play with", None
    else:
        opponent = finding.evidence["opponent"]
        location = locate_forgetting(player_of_games(run), snapshots, opponent, most_pairs=most_pairs)
        if location is None:
            told = (
                f"played now, {snapshots[-1]} scores no worse against {opponent} than {snapshots[0]}, as "
                f"far as {most_pairs // 4:,} pairs can tell"
            )
            evidence = None
        else:
            told, evidence = f"played now: {location.sentence}", dataclasses.asdict(location)
    return dataclasses.replace(
        finding, sentence=f"{finding.sentence}; {told}", evidence=finding.evidence | {"located": evidence}
    )


def _since(history: History, player: str, first: str) -> list[str]:
    """The player's snapshots from `first` on, in order of freezing."""
    rows = history.snapshots()
    own = rows.loc[rows["player"] == player, "snapshot_id"].tolist()
    return own[own.index(first) :] if first in own else []


def _printable(text: str) -> str:
    """Without what could command a terminal: names may come from a stranger's file."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
