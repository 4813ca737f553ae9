"""The command `league evaluate`."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from league.commands.console import (
    JsonOption,
    RunArgument,
    TrustOption,
    forfeits,
    print_rows,
    progress_bars,
)

if TYPE_CHECKING:
    from league.arena.evaluation import Evaluation, Figure

_ENDS = {
    "finished": "by the rules of the game",
    "step_limit": "at the step limit",
    "illegal_action": "by an illegal action",
    "crash": "by a crash of the game",
    "error": "by an error of a competitor",
    "time": "as time was over",
}


def evaluate(
    run: RunArgument,
    snapshot: Annotated[
        str,
        typer.Argument(
            help="A snapshot, player (its newest snapshot), mixture (main-0:average) or bot; name:greedy "
            "plays its likeliest action"
        ),
    ],
    bot: Annotated[
        str | None,
        typer.Option(
            help="A bot or another competitor of the run, which fills all other seats; default: random. A "
            "game of one seat has none"
        ),
    ] = None,
    episodes: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Least number of episodes (matches) to play")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 2, help="Seed of deals and sampled actions")] = 0,
    trust: TrustOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play a snapshot in a game of any number of seats: returns, score, length, and how matches end."""
    from league.arena.evaluation import evaluate as play

    with progress_bars() as progress:
        found = play(run, snapshot, opponent=bot, episodes=episodes, seed=seed, progress=progress)
    if as_json:
        fields = dataclasses.asdict(found)
        for part in (fields, *fields["places"]):
            part["return"] = part.pop("returned")
        print(json.dumps(fields | {"seed": seed}))
    else:
        print("\n".join(lines(found)))
        if len(found.places) > 1:
            header = ("place", "episodes", "return", "score")
            rows = [(own.place, own.episodes, own.returned.mean, own.score) for own in found.places]
            print_rows(header, rows, as_json=False)


def lines(found: Evaluation) -> list[str]:
    """Return the evaluation as lines of text."""
    against = "" if found.opponent is None else f" against {found.opponent}"
    said = [f"{found.competitor} in {found.env}{against}: {found.episodes:,} episodes"]
    if found.score is not None and found.outcomes is not None:
        each = ", ".join(f"{name} {count:,}" for name, count in found.outcomes.items() if count)
        said.append(f"score   {_figure(found.score)}  {each}")
    said.append(f"return  {_figure(found.returned)}  {_range(found.returned)}")
    said.append(f"length  {_figure(found.length)} decisions  {_range(found.length)}")
    ends = ", ".join(f"{count:,} {_ENDS[reason]}" for reason, count in found.ends.items())
    said.append(f"ends    {ends}")
    said += forfeits(found.failures)
    if found.counted < found.episodes:
        left = found.episodes - found.counted
        said.append(f"{left:,} episodes are left out of the figures: the game crashed with their seed")
    if found.alike:
        said.append(
            "every episode from one place is the same, move by move, as nothing in it is drawn at random: "
            "there is no interval"
        )
    return said


def _figure(found: Figure) -> str:
    interval = "" if found.low is None else f" [{found.low:.4g}, {found.high:.4g}] (95 %)"
    return f"{found.mean:.4g}{interval}"


def _range(found: Figure) -> str:
    alike = found.least == found.most
    return "the same in all episodes" if alike else f"from {found.least:.4g} to {found.most:.4g}"
