"""Agreement: the one game of an arena, and the check that all competitors can play it.

It is the game of the runs and exported folders, which must be the same in all of them, with options, step
limit and teams. What is given, as by the settings of a tournament, takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from league.arena.origins import Origin, RunOrigin
from league.competitors.names import seats_for
from league.envs import registry
from league.envs.adapters.gymnasium.seats import FollowingEnvs
from league.envs.base import BatchedGame
from league.models.bots.scripted import seated_bot
from league.models.bots.settings import BotSettings
from league.rollout.requests import BotSource, MixtureSource, StoredSource
from league.rollout.snapshots import SnapshotSource
from storage.arrays import Indices
from storage.errors import Mistake


@dataclass(frozen=True, slots=True)
class Agreed:
    """Game that all competitors play."""

    env_id: str
    env_options: dict[str, Any]
    step_limit: int | None
    teams: tuple[int, ...] | None  # number of seats of each; None: every seat plays for itself
    game: BatchedGame  # with one slot, to read its seats and spaces

    def game_of(self, envs: FollowingEnvs, competitor: str) -> BatchedGame:
        """Return the game, with one slot, as it is if all seats have the env that `competitor` brings."""
        env_id = envs.env_id([competitor] * self.game.num_seats)
        if env_id == self.env_id:
            return self.game
        return registry.make(env_id, 1, step_limit=self.step_limit, **envs.options(env_id))

    @property
    def num_teams(self) -> int:
        """Number of teams; seats without teams count as teams of one."""
        return self.game.num_seats if self.teams is None else len(self.teams)

    @property
    def team_of_seat(self) -> Indices:
        """The team of each seat [S]."""
        return np.repeat(np.arange(self.num_teams), self.teams or (1,) * self.game.num_seats)

    def require_swaps(self) -> None:
        """Raise Mistake for a game in which competitors do not meet, or cannot take one another's seats."""
        if self.num_teams < 2:
            kind = "seat" if self.teams is None else "team"
            raise Mistake(
                f"env '{self.env_id}' has one {kind}, expected a game in which competitors meet; what one of "
                "them scores is shown by: league evaluate RUN SNAPSHOT"
            )
        if not self.game.shared_spaces:
            raise Mistake(
                f"env '{self.env_id}': its seats differ in observations or actions, expected a game in which "
                "every competitor can take every seat, as seats are swapped"
            )


def agree(
    origins: Sequence[Origin],
    env: Mapping[str, Any] | None = None,
    teams: tuple[int, ...] | None = None,
    step_limit: int | None = None,
    *,
    remedy: str | None = None,
) -> Agreed:
    """Return the game of all `origins`; `env` (`id`, `options`), `teams` and `step_limit` take precedence.

    `remedy`: see `alike`. Raise Mistake if origins differ or teams do not make up the seats; UnknownEnv,
    BadOption.
    """
    runs = [origin for origin in origins if isinstance(origin, RunOrigin)]
    if env is None:
        env = alike("env", [(origin.address, origin.env) for origin in origins], remedy)
        if env is None or env["id"] is None:
            raise Mistake(
                "env: no run or exported folder says which game is played, expected its id; set env.id"
            )
    if step_limit is None:
        step_limit = alike("rollout.step_limit", [(run.address, run.step_limit) for run in runs], remedy)
    game = registry.make(env["id"], 1, step_limit=step_limit, **env["options"])
    teams = teams or alike("teams", [(run.address, run.teams) for run in runs], remedy) or game.teams
    if teams is not None and (sum(teams) != game.num_seats or min(teams) < 1):
        raise Mistake(
            f"teams: found {list(teams)}, expected sizes that make up the {game.num_seats} seats of "
            f"'{env['id']}'"
        )
    return Agreed(env["id"], dict(env["options"]), step_limit, teams, game)


def require_fit(name: str, source: SnapshotSource | MixtureSource, game: BatchedGame) -> None:
    """Raise Mistake for a snapshot that cannot take every seat of `game`: competitors swap seats."""
    lacking = set(range(game.num_seats)) - set(seats_for(source, game))
    if lacking:
        raise Mistake(
            f"'{name}' cannot take seat {min(lacking)} of '{game.id}', whose observations or actions differ "
            "from its own; is it of another game?"
        )


def seats_of(
    name: str, source: StoredSource, agreed: Agreed, game: BatchedGame, bots: Mapping[str, BotSettings]
) -> list[int]:
    """Return the seats that a competitor can take in `game`, that of its own env. Raise Mistake without any.

    Raise UnknownBot for a bot that there is not.
    """
    if isinstance(source, BotSource):
        return list(seated_bot(source.name, agreed.env_id, agreed.game, bots).seats)
    found = seats_for(source, game)
    if not found:
        raise Mistake(
            f"'{name}' cannot take any seat of '{agreed.env_id}', whose observations or actions differ from "
            "its own; is it of another game?"
        )
    return found


def require_bot(name: str, agreed: Agreed, settings: Mapping[str, BotSettings]) -> None:
    """Raise UnknownBot if there is no such bot, Mistake for a bot that cannot take every seat."""
    seats = seated_bot(name, agreed.env_id, agreed.game, settings).seats
    if len(seats) < agreed.game.num_seats:
        raise Mistake(
            f"bot '{name}' can take seats {list(seats)} of '{agreed.env_id}' alone, expected all "
            f"{agreed.game.num_seats}, as seats are swapped"
        )


def alike(setting: str, found: Sequence[tuple[str, Any]], remedy: str | None = None) -> Any:
    """Return the common value of all (address, value), or `None` without any.

    Raise Mistake, naming the first that differs, with `remedy`, by default to leave one out.
    """
    for address, value in found[1:]:
        first, expected = found[0]
        if value != expected:
            raise Mistake(
                f"{address}: {setting}: found {_to_text(value)}, expected {_to_text(expected)} as in {first}"
                "; " + (remedy or f"leave one of them out, or set {setting}")
            )
    return found[0][1] if found else None


def _to_text(value: Any) -> str:
    if isinstance(value, Mapping) and "id" in value:
        options = f" {value['options']}" if value["options"] else ""
        return f"'{value['id']}'{options}"
    return "none" if value is None else str(list(value) if isinstance(value, tuple) else value)
