"""Commands that list and check games: `league envs`."""

from __future__ import annotations

from typing import Annotated

import typer

from league.commands.console import JsonOption, print_rows, working

envs_app = typer.Typer(help="List and check games.", no_args_is_help=True)


@envs_app.command("list")
def list_envs(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Games; by default all native ones")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List games, with their seats, the shapes of observations and actions, and bots.

    Seats that differ have their spaces behind one another. Games of libraries are listed by their ids alone.
    """
    from league.envs import registry
    from league.models.bots.scripted import bots_for

    rows = []
    for env_id in ids or registry.ids():
        game = registry.make(env_id, 1)
        spaces = (game.observation_specs, game.action_specs)
        seen, done = ("; ".join(dict.fromkeys(map(str, specs))) for specs in spaces)
        rows.append((env_id, game.num_seats, seen, done, ", ".join(bots_for(env_id))))
    print_rows(("env", "seats", "observation", "actions", "bots"), rows, as_json)


@envs_app.command("check")
def check_env(
    env_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A native game, openspiel:..., pettingzoo:..., gymnasium:..., or module:Class"
        ),
    ],
    options: Annotated[
        str, typer.Option("--options", metavar="YAML", help="Options of the game, such as '{seats: 2}'")
    ] = "{}",
    matches: Annotated[
        int, typer.Option("--matches", min=1, help="Number of matches that each check plays")
    ] = 256,
    as_json: JsonOption = False,
) -> None:
    """Play a game in every way a league will, and report errors of the game."""
    import yaml

    from league.envs.conformance import check
    from storage.errors import Mistake

    try:
        given = yaml.safe_load(options)
    except yaml.YAMLError:
        given = None
    if not isinstance(given, dict):
        raise Mistake(f"--options {options}: expected a YAML mapping, such as '{{seats: 2}}'")
    with working(f"checking {env_id}"):
        report = check(env_id, given, num_matches=matches)
    rows = [(item.name, "passed" if item.passed else "FAILED", item.message) for item in report.checks]
    print_rows(("check", "result", "message"), rows, as_json)
    if not report.passed:
        raise Mistake(f"env '{env_id}' fails a check, {report.first_cause}")
