"""Commands about configs: `league config`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from league.commands.console import JsonOption, SetOption, check_page, working, write_page

config_app = typer.Typer(help="Show the keys of configs.", no_args_is_help=True)


@config_app.command()
def schema() -> None:
    """Print all keys with their types, bounds, defaults and meaning, as JSON Schema."""
    from league.config.settings import Settings

    print(json.dumps(Settings.model_json_schema(), indent=2))


@config_app.command("reference")
def config_reference(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file to write instead of stdout")] = None,
) -> None:
    """Print all keys of leagues and tournaments as a Markdown page."""
    from league.commands.reference import page

    if out is None:
        sys.stdout.write(page())
    else:
        check_page(out)
        write_page(out, page())


@config_app.command()
def show(
    config: Annotated[Path, typer.Argument(help="A YAML file")],
    set_: SetOption = None,
    comments: Annotated[
        bool, typer.Option("--comments", help="Say above each key what it means and may be")
    ] = False,
) -> None:
    """Print the config with every default filled in."""
    from league.config.loading import load

    with working(f"checking {config}"):
        text = load(config, set_ or ()).to_yaml()
    if comments:  # the meanings of all keys, those of tournaments too
        from league.commands.reference import with_comments

        text = with_comments(text)
    sys.stdout.write(text)


@config_app.command()
def explain(
    key: Annotated[
        str, typer.Argument(help="A key or a section, such as learner.lr; the last part of it will do")
    ],
    as_json: JsonOption = False,
) -> None:
    """Print what a key of a config means, its type, its bounds and its default."""
    from league.commands.reference import explain as explained

    found = explained(key)
    if as_json:
        print(json.dumps([each._asdict() for each in found]))
        return
    for each in found:
        print(f"{each.path}{f' ({each.choice})' if each.choice else ''}: {each.type}; default {each.default}")
        print(f"    {each.meaning}")


@config_app.command()
def plan(
    config: Annotated[Path, typer.Argument(help="A YAML file")],
    gpus: Annotated[int | None, typer.Option(min=0, help="Number of GPUs; default resources.gpus")] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="N|A+B", help="Number of nodes, or the GPUs of each; default one")
    ] = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print which player would learn where, what is asked of Ray, and how much memory; start nothing."""
    from dataclasses import asdict

    from league.config.loading import load
    from league.config.placement import nodes_of, place

    overrides = [*(set_ or ()), *([] if gpus is None else [f"resources.gpus={gpus}"])]
    settings = load(config, overrides)
    found = place(settings, None if nodes is None else nodes_of(settings.resources.gpus, nodes))
    from league.config.card_memory import of_runner, on_cards  # torch: two seconds of imports

    on_gpus = on_cards(settings, found)
    in_memory = {}
    if settings.rollout.device == "cpu":
        in_memory["a runner" if found.num_runners else "play"] = of_runner(settings)
    if as_json:
        counted = {"total": found.total(), "gpu_bytes": on_gpus, "cpu_bytes": in_memory}
        print(json.dumps(asdict(found) | counted))
        return
    print("\n".join(found.lines()))
    for who, parts in on_gpus.items():
        each = ", ".join(f"{what} {size / 1e9:,.1f}" for what, size in parts.items())
        print(f"{who}: about {sum(parts.values()) / 1e9:,.1f} GB of its GPU ({each})")
    for who, parts in in_memory.items():
        each = ", ".join(f"{what} {size / 1e6:,.0f}" for what, size in parts.items())
        print(f"{who}: about {sum(parts.values()) / 1e6:,.0f} MB of memory, beside what is recorded ({each})")
