"""The commands `league replay` and `league play`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from league.commands.console import JsonOption, RunArgument, TrustOption, working

if TYPE_CHECKING:
    from league.watching.browser.lobby import Lobby


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

    with working(f"playing matches of {run} again"):
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
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=2**63 - 1, help="Seed of deals and sampled actions; default: 0, in the browser any"
        ),
    ] = None,
    delay: Annotated[float, typer.Option(min=0.0, help="Seconds to wait after each move")] = 0.0,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the probabilities that policies give to their actions")
    ] = False,
    trust: TrustOption = None,
    browser: Annotated[
        bool, typer.Option("--browser", help="Play on a page in the browser, with pictures and hints")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of that page, on this machine only; 0: any free port"),
    ] = None,
) -> None:
    """Watch competitors play, or play against them."""
    from storage.errors import Mistake

    if match is not None and names:
        raise Mistake(f"play: found '{names[0]}' beside --match, expected one of the two")
    if port is not None and not browser:
        raise Mistake(f"--port {port}: expected --browser beside it, which serves a page")
    if browser:
        _play_in_browser(
            run,
            names or [],
            match,
            seed,
            port or 0,
            options={"--games": games != 1, "--delay": bool(delay), "--verbose": verbose},
        )
        return
    from league.watching.play import play as play_games
    from league.watching.play import show_recorded

    if match is not None:
        show_recorded(run, match, delay=delay)
        return
    try:
        play_games(run, names or [], games=games, seed=seed or 0, delay=delay, verbose=verbose)
    except EOFError:  # standard input was closed
        print("\nyou left the table")


def room_of(run: Path, bots: Sequence[str] = ()) -> Lobby:
    """Return the room in which pages play matches of `run`; `bots` are further ones that they may name."""
    import torch

    from league.watching.browser.lobby import Lobby

    torch.set_num_threads(1)  # the run may train on the same machine
    return Lobby(run, bots=bots)


def open_page(address: str) -> None:
    """Open a page in a browser, if there is one that has a window of its own."""
    import webbrowser

    if sys.platform in ("darwin", "win32") or os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}:
        webbrowser.open(address)  # elsewhere it would be a browser in this terminal


def _play_in_browser(
    run: Path, names: list[str], match: int | None, seed: int | None, port: int, options: dict[str, bool]
) -> None:
    """Serve the page of play until Ctrl-C, and open it in a browser if there is one."""
    from analysis.server import serve_play
    from storage.errors import Mistake

    for option, given in options.items():
        if given:
            raise Mistake(f"play: found {option} beside --browser, where the page has its own controls")
    room = room_of(run, names)
    if match is not None:
        room.playback(match)
        query = [("recorded", str(match))]
    else:
        if names:
            room.check(names)
        query = [("seat", name) for name in names] + (
            [("seed", str(seed))] if names and seed is not None else []
        )

    def ready(address: str) -> None:
        page = f"{address}play{'?' if query else ''}{urlencode(query)}"
        print(f"{run}: {page} (Ctrl-C ends it)", flush=True)
        open_page(page)

    serve_play(lambda: room, port, ready=ready)
