"""The two sides of a comparison: competitors of one run, or of two runs of the same game.

Of two runs every name has its run in front: `a/main-0@1000`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from league.competitors.names import bot_settings, name_of, resolve, role_of
from league.envs.adapters.gymnasium.following import FollowingEnvs, following, role_envs
from league.models.bots.settings import BotSettings
from league.rollout.requests import BotSource, MixtureSource
from league.rollout.snapshots import SnapshotSource
from storage import open_reader
from storage.errors import Mistake, NotARun
from storage.reader import ArchiveReader
from storage.tables.live import names_of

Source = SnapshotSource | BotSource | MixtureSource


@dataclass(frozen=True, slots=True)
class Sides:
    """Competitors `a` and `b`, ready to be seated, and what their runs say of the game."""

    config: Mapping[str, Any]  # of the run of a; the game is the same in that of b
    names: tuple[str, str]  # under which they play; never the same
    sources: tuple[Source, Source]
    roles: tuple[str | None, str | None]
    bots: Mapping[str, BotSettings]
    envs: FollowingEnvs  # that roles bring to their seats


def open_sides(run: Path, a: str, b: str, other: Path | None = None) -> Sides:
    """Return competitor `a` of `run` and `b` of `run`, or of the run `other`.

    Raise UnknownCompetitor for a name that fits nothing, NotARun for the run of a tournament, Mistake for
    runs of different games.
    """
    if other is not None and other.resolve() == run.resolve():
        other = None
    reader = open_reader(run)
    config = _config_of(run, reader, (a, b) if other is None else (a,))
    readers, bots = [reader, reader], bot_settings(config)
    if other is not None:
        readers[1] = open_reader(other)
        its = _config_of(other, readers[1], (b,))
        _require_alike((run, config), (other, its))
        bots |= _bots_of((run, bots), (other, bot_settings(its)))
    first, second = (
        resolve(each, name, config["env"]["id"]) for each, name in zip(readers, (a, b), strict=True)
    )
    names = (name_of(first), name_of(second))
    if other is not None:
        of_a, of_b = names_of((run, other))
        names = (f"{of_a}/{names[0]}", f"{of_b}/{names[1]}")
    elif names[0] == names[1]:
        names = (names[0], f"{names[1]}#2")
    envs = following(config)
    roles = (role_of(readers[0], first), role_of(readers[1], second)) if envs else (None, None)
    return Sides(config, names, (first, second), roles, bots, envs)


def _config_of(run: Path, reader: ArchiveReader, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of the run of a league. Raise NotARun."""
    config = reader.config()
    if "competitors" in config:
        come = "comes" if len(names) == 1 else "come"
        who = " and ".join(f"'{name}'" for name in names)
        raise NotARun(
            f"{run}: found the run of a tournament, expected that of a league; name the one that {who} "
            f"{come} from"
        )
    return config


def _require_alike(one: tuple[Path, Mapping[str, Any]], other: tuple[Path, Mapping[str, Any]]) -> None:
    """Raise Mistake unless two runs play the same game in the same way."""
    (run, ours), (its_run, its) = one, other
    for what, here, there in (
        ("env", _game(ours), _game(its)),
        ("rollout.step_limit", ours["rollout"]["step_limit"], its["rollout"]["step_limit"]),
        ("matchmaking.teams", ours["matchmaking"]["teams"], its["matchmaking"]["teams"]),
        ("the envs of its roles", role_envs(ours), role_envs(its)),
    ):
        if here != there:
            raise Mistake(
                f"{its_run}: {what}: found {there}, expected {here} as in {run}; only runs of one game can "
                "be compared"
            )


def _game(config: Mapping[str, Any]) -> str:
    env = config["env"]
    return f"'{env['id']}' {env['options']}" if env["options"] else f"'{env['id']}'"


def _bots_of(
    one: tuple[Path, Mapping[str, BotSettings]], other: tuple[Path, Mapping[str, BotSettings]]
) -> Mapping[str, BotSettings]:
    """Return the bots of the second run. Raise Mistake if the first has other ones of these names."""
    (run, ours), (its_run, its) = one, other
    for name in ours.keys() & its.keys():
        if ours[name] != its[name]:
            raise Mistake(
                f"{its_run}: bots: found '{name}' with other settings than in {run}, expected the same; "
                "compare competitors of one run"
            )
    return its
