"""Agreement: the one game of a tournament, and the check that all entrants can play it.

It is the game of the runs and exported folders, which must be the same in all of them, with options, step
limit and teams. Settings of the tournament take precedence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from league.envs import registry
from league.envs.adapters.gymnasium.following import FollowingEnvs
from league.envs.base import BatchedGame
from league.models.bots.seated import seated_bot
from league.models.bots.settings import BotSettings
from league.rollout.requests import MixtureSource
from league.rollout.snapshots import SnapshotSource
from league.tournament.entry.origins import Origin, RunOrigin
from storage.errors import Mistake


@dataclass(frozen=True, slots=True)
class Agreed:
    """Game that all entrants play."""

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


def agree(
    origins: Sequence[Origin],
    env: Mapping[str, Any] | None,
    teams: tuple[int, ...] | None,
    step_limit: int | None,
) -> Agreed:
    """Return the game of all `origins`; `env` (`id`, `options`), `teams` and `step_limit` take precedence.

    Raise Mistake if origins differ or the game does not suit a tournament; UnknownEnv, BadOption.
    """
    runs = [origin for origin in origins if isinstance(origin, RunOrigin)]
    if env is None:
        env = alike("env", [(origin.address, origin.env) for origin in origins])
        if env is None or env["id"] is None:
            raise Mistake(
                "env: no run or exported folder says which game is played, expected its id; set env.id"
            )
    if step_limit is None:
        step_limit = alike("rollout.step_limit", [(run.address, run.step_limit) for run in runs])
    game = registry.make(env["id"], 1, step_limit=step_limit, **env["options"])
    teams = teams or alike("teams", [(run.address, run.teams) for run in runs]) or game.teams
    _check(env["id"], game, teams)
    return Agreed(env["id"], dict(env["options"]), step_limit, teams, game)


def require_fit(name: str, source: SnapshotSource | MixtureSource, game: BatchedGame) -> None:
    """Raise Mistake for a snapshot that cannot take every seat of `game`: competitors swap seats."""
    if isinstance(source, MixtureSource):
        for member in source.members:
            require_fit(member.snapshot_id, member, game)
        return
    for seat, spaces in enumerate(zip(game.observation_specs, game.action_specs, strict=True)):
        if spaces != (source.spec.observation, source.spec.action):
            raise Mistake(
                f"'{name}' cannot take seat {seat} of '{game.id}', whose observations or actions differ "
                "from its own; is it of another game?"
            )


def require_bot(name: str, agreed: Agreed, settings: Mapping[str, BotSettings]) -> None:
    """Raise UnknownBot if there is no such bot, Mistake for a bot that cannot take every seat."""
    seats = seated_bot(name, agreed.env_id, agreed.game, settings).seats
    if len(seats) < agreed.game.num_seats:
        raise Mistake(
            f"bot '{name}' can take seats {list(seats)} of '{agreed.env_id}' alone, expected all "
            f"{agreed.game.num_seats}, as seats are swapped"
        )


def alike(setting: str, found: Sequence[tuple[str, Any]]) -> Any:
    """Return the common value of all (address, value), or `None` without any.

    Raise Mistake, naming the first that differs.
    """
    if not found:
        return None
    first, value = found[0]
    for address, other in found[1:]:
        if other != value:
            raise Mistake(
                f"{address}: {setting} is {_to_text(other)}, expected {_to_text(value)} as in {first}; leave "
                f"one of them out, or set {setting}"
            )
    return value


def _to_text(value: Any) -> str:
    if isinstance(value, Mapping):
        options = f" {value['options']}" if value["options"] else ""
        return f"'{value['id']}'{options}"
    return "none" if value is None else str(list(value) if isinstance(value, tuple) else value)


def _check(env_id: str, game: BatchedGame, teams: tuple[int, ...] | None) -> None:
    if teams is not None and (sum(teams) != game.num_seats or min(teams) < 1):
        raise Mistake(
            f"teams: found {list(teams)}, expected sizes that make up the {game.num_seats} seats of "
            f"'{env_id}'"
        )
    number = game.num_seats if teams is None else len(teams)
    if number < 2:
        kind = "seat" if teams is None else "team"
        raise Mistake(
            f"env '{env_id}' has one {kind}, expected a game in which competitors meet; what one of them "
            "scores is shown by: league evaluate RUN SNAPSHOT"
        )
    if not game.shared_spaces:
        raise Mistake(
            f"env '{env_id}': its seats differ in observations or actions, expected a game in which every "
            "competitor can take every seat, as seats are swapped"
        )
