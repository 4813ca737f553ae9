"""The commands `league replay` and `league play`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from league.commands.console import JsonOption, RunArgument, TrustOption


def replay(
    run: RunArgument,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="Matches to select, such as \"purpose = 'evaluation' AND match_id < 500\""
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Largest number of matches; the first ones are taken")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play recorded matches again, and report whether the results are identical."""
    from league.watching.replay import replay as play_again
    from storage.errors import Failure

    done = play_again(run, where, limit)
    if as_json:
        fields = {name: getattr(done, name) for name in ("matches", "identical", "crashed", "differing")}
        print(json.dumps(fields | {"first": [difference._asdict() for difference in done.first]}))
        raise typer.Exit(1 if done.differing else 0)
    print(f"{done.matches:,} matches played again: {done.identical:,} identical")
    if done.crashed:
        print(f"{done.crashed:,} crashed when they were recorded but not now: identical up to the crash")
    if done.differing:
        found = "; ".join(f"{d.what} {d.replayed}, recorded {d.recorded}" for d in done.first)
        raise Failure(
            f"{run}: {done.differing:,} of {done.matches:,} matches came out otherwise, the first of them "
            f"match {done.first[0].match_id}: {found}"
        )


def play(
    run: RunArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A B",
            help="Competitor of each seat: a snapshot, player, mixture or bot (`name:greedy` plays its "
            "likeliest action), or `human` for yourself",
        ),
    ] = None,
    match: Annotated[int | None, typer.Option(metavar="ID", help="Show this recorded match instead")] = None,
    games: Annotated[int, typer.Option(min=1, help="Games to play")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of deals and sampled actions")] = 0,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds to wait after each move")] = 0.0,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the probabilities that policies give to their actions")
    ] = False,
    trust: TrustOption = None,
) -> None:
    """Watch competitors play, or play against them."""
    from storage.errors import Mistake

    if match is not None and names:
        raise Mistake(f"play: found '{names[0]}' beside --match, expected one of the two")
    from league.models.networks.networks import trust_network
    from league.watching.play import play as play_games
    from league.watching.play import show_recorded

    if match is not None:
        show_recorded(run, match, delay=delay)
        return
    for path in trust or ():
        trust_network(path)
    try:
        play_games(run, names or [], games=games, seed=seed, delay=delay, verbose=verbose)
    except EOFError:  # standard input was closed
        print("\nyou left the table")
