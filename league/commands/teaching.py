"""The commands `league games` and `league clone`: games as a data set, and a policy learned from them."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from league.commands.console import JsonOption, SetOption, print_rows, working

MATCHES = 10_000  # that competitors play
Source = Annotated[
    Path,
    typer.Argument(
        metavar="GAMES",
        help="A run folder, or a file of games: .parquet, .pgn, or histories of OpenSpiel (.txt)",
    ),
]
EnvOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Game of a file that does not say of which one it is")
]


def games(
    source: Source,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[A B]",
            help="Competitors of the run that play these games now: one in all seats, or each in one",
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New Parquet file to write the games to")
    ] = None,
    matches: Annotated[
        int | None,
        typer.Option(min=1, help="Number of matches that competitors play", show_default=f"{MATCHES}"),
    ] = None,
    plies: Annotated[
        int | None,
        typer.Option(min=0, help="Random first moves of each of these; they are left out", show_default="0"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**62, help="Seed of these matches", show_default="0")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Recorded matches to select, such as \"purpose = 'evaluation'\""),
    ] = None,
    env: EnvOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write games to a Parquet file, a row for each decision, or show the card of such a file.

    Those of a run are the matches that it recorded (rollout.record), or new ones of its competitors.
    """
    from league.teaching.games import card_of, write_games
    from league.teaching.played import played_games
    from league.teaching.sources import games_of
    from storage.errors import Mistake

    ours = {"--matches": matches, "--plies": plies, "--seed": seed}  # of competitors that play
    theirs = {"--where": where, "--env": env}
    for option, value in (theirs if names else ours).items():
        if value is not None:
            raise Mistake(
                f"games: found {option} beside competitors, which play new games; expected one of the two"
                if names
                else f"games: found {option} {value}, expected competitors of a run beside it, to play games"
            )
    if to is None:
        shows = source.suffix == ".parquet" and not source.is_dir() and not names and where is None
        card = card_of(source) if shows else None
        if card is None:
            found = f"{source} has no card" if shows else f"games of {source}"
            raise Mistake(f"games: {found}, expected --to FILE to write them to")
    else:
        if to.suffix != ".parquet":
            raise Mistake(f"--to {to}: expected the name of a file .parquet")
        if names:
            matches = MATCHES if matches is None else matches
            spaces, chunks = played_games(source, names, matches, seed=seed or 0, plies=plies or 0)
        else:
            spaces, chunks = games_of(source, None if env is None else (env, {}), where)
        said = f"{source}: {', '.join(names)}" if names else str(source)
        with working(f"writing games to {to}"):
            card = write_games(to, spaces, chunks, said, most=matches if names else None)
    if as_json:
        print(json.dumps(card))
        return
    print_rows(("card", "of games"), [(key, _shown(value)) for key, value in card.items()], as_json=False)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(own)}" for key, own in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def clone(
    source: Source,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A new run folder, with the policy as a snapshot")
    ],
    env: EnvOption = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="CONFIG", help="Config whose policy (and env) it has; default: that of its game alone"
        ),
    ] = None,
    set_: SetOption = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Seats to learn from, by match, seat, player, rating, outcome, score and decisions, such as "
            "\"outcome = 'win' AND rating > 2000\"",
        ),
    ] = None,
    epochs: Annotated[float, typer.Option(min=0.01, max=1000.0, help="Passes over the games, at most")] = 5.0,
    patience: Annotated[
        int, typer.Option(min=1, help="Looks (four in a pass) without a gain, after which it ends")
    ] = 4,
    validation: Annotated[
        float, typer.Option(min=0.001, max=0.9, help="Share of matches that are not learned from")
    ] = 0.05,
    lr: Annotated[float, typer.Option(min=1e-7, max=1.0, help="Step size at first; it falls to 0")] = 2e-3,
    batch: Annotated[int, typer.Option(min=1, help="Decisions in one update, about")] = 1024,
    as_json: JsonOption = False,
) -> None:
    """Learn a policy from stored games by maximum likelihood, for init_from, magnets, play and export."""
    from league.config.loading import load
    from league.teaching.cloning import CloneSettings, clone
    from league.teaching.games import GamesFile, card_of, write_games
    from league.teaching.sources import games_of
    from storage.errors import Mistake
    from storage.layout import require_new

    require_new(run, resumes=False)
    ours = source.suffix == ".parquet" and not source.is_dir() and card_of(source) is not None
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", run.resolve().name) or "clone"
    changes = [f"name={name}", *(set_ or ())]
    with tempfile.TemporaryDirectory(prefix="league-games-") as folder:
        spaces = GamesFile(source).spaces if ours else None
        if spaces is None:
            known = None if policy is None else load(policy, changes).env
            given = (env, {}) if env else None if known is None else (known.id, known.options)
            spaces, chunks = games_of(source, given)
            whole = Path(folder) / "games.parquet"
            with working(f"reading {source}"):
                write_games(whole, spaces, chunks, str(source))
        config = policy if policy is not None else Path(env or spaces.env["id"])
        if policy is None and spaces.env["options"]:
            changes = [f"env.options={json.dumps(spaces.env['options'])}", *changes]
        settings = load(config, changes)
        if env is not None and settings.env.id != env:
            raise Mistake(f"--env {env}: found '{settings.env.id}' in {policy}, expected one of the two")
        how = CloneSettings(epochs, patience, validation, lr, batch, where)
        done = clone(
            GamesFile(source if ours else whole), settings, run, how,
            say=(lambda line: None) if as_json else (lambda line: print(line, flush=True)),
        )  # fmt: skip
    best, name = done.best, done.snapshot.snapshot_id
    if as_json:
        fields = {"snapshot": name, "games": done.games, "decisions": done.decisions, **best._asdict()}
        print(json.dumps(fields))
        return
    print(
        f"{name} of {run}: cloned from {done.games:,} games, {done.decisions:,} decisions; {best.loss:.4f} "
        f"nats a decision, {best.accuracy:.1%} of actions are its likeliest. Next: init_from: "
        f"[{{player: {done.snapshot.player}, run: {run}, snapshot: {name}}}]"
    )
