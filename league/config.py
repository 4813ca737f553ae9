"""Settings of a run: assembled from the parts, read from YAML, contradictions refused.

Each part owns its settings class; this file puts them together, and turns every mistake into one
`ConfigError`: where, what was found, what was expected, what to do.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from league.envs import registry
from league.envs.base import BatchedGame
from league.initial import InitFrom, check_players
from league.learning.settings import LearnerSettings, changed, check_precision
from league.loop import LogSettings, StopSettings, StorageSettings
from league.models.networks import check_network, trust_network
from league.models.scripted import make_bot
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.env_runner import RolloutSettings
from league.rules.builder import find_builder
from league.rules.matchmaker import Matchmaker, MatchmakingSettings
from league.rules.presets import LeagueSettings
from league.rules.rating import RatingSettings
from league.runtime import ResourceSettings
from storage.errors import Mistake
from storage.records import MAIN, Role


class ConfigError(Mistake, ValueError):
    """A mistake in a config; the message is meant for whoever wrote it."""


class EnvSettings(BaseModel):
    """The game."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = Field(description="A game of `league envs list`, or module:Class")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the game")


class Settings(BaseModel):
    """Everything a run is made from. A run folder's config.yaml holds all of it, resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(
        default="league", pattern=r"^[A-Za-z0-9._-]+$", description="Name of the run and its folder"
    )
    seed: int = Field(default=0, ge=0, description="Everything random is drawn from it")
    env: EnvSettings
    policy: PolicySettings = PolicySettings()
    league: LeagueSettings = LeagueSettings()
    matchmaking: MatchmakingSettings = MatchmakingSettings()
    ratings: RatingSettings = RatingSettings()
    rollout: RolloutSettings = RolloutSettings()
    learner: LearnerSettings = LearnerSettings()
    init_from: tuple[InitFrom, ...] = Field(
        default=(), description="Players whose first weights are not drawn, and where they come from"
    )
    runners: int = Field(
        default=0, ge=0, description="Ray actors that play; 0: the driver plays, without Ray"
    )
    resources: ResourceSettings = ResourceSettings()
    storage: StorageSettings = StorageSettings()
    stop: StopSettings = StopSettings()
    log: LogSettings = LogSettings()

    @field_validator("env")
    @classmethod
    def _env_exists(cls, env: EnvSettings) -> EnvSettings:
        if "step_limit" in env.options:
            raise ValueError(
                f"options.step_limit: found {env.options['step_limit']!r}, but the limit belongs to the run, "
                "not to the game; set rollout.step_limit"
            )
        registry.make(env.id, 1, **env.options)
        return env

    def make_game(self, num_slots: int = 1) -> BatchedGame:
        return registry.make(self.env.id, num_slots, step_limit=self.rollout.step_limit, **self.env.options)

    def policy_spec(self) -> PolicySpec:
        return PolicySpec.for_game(self.policy, self.make_game())

    def learner_of(self, role: Role) -> LearnerSettings:
        """How players of `role` learn."""
        return changed(self.learner, self.league.resolve()[role].learner)

    def players(self) -> list[str]:
        """The players that the league begins with, in order."""
        return [name for names in self.league.player_names().values() for name in names]

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


class _Loader(yaml.SafeLoader):
    """YAML 1.2 numbers (PyYAML alone reads 1e-3 as text), and no key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, Hashable):
                raise ConfigError(f"line {line}: found {key!r} as a key, expected a word")
            if key in seen:
                raise ConfigError(f"line {line}: key '{key}' is given twice, expected once")
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)


def load(source: str | Path | Mapping[str, Any] | Settings, overrides: Sequence[str] = ()) -> Settings:
    """Settings from a YAML file or a mapping, with `a.b=value` overrides on top.

    Raises ConfigError on anything that is not right.
    """
    if isinstance(source, Settings):
        source = source.model_dump(mode="json")
    if isinstance(source, Mapping):
        where, fields = "config", copy.deepcopy(dict(source))  # overrides must not reach the caller's
    else:
        where, fields = str(source), _read(Path(source))
        fields.setdefault("name", re.sub(r"[^A-Za-z0-9._-]", "-", Path(source).stem))
    for override in overrides:
        _apply(fields, override)
    try:
        settings = Settings.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_explain(error)}") from None
    try:
        return _check(settings)
    except (ValueError, Mistake) as error:
        raise ConfigError(f"{where}: {error}") from None


def _check(settings: Settings) -> Settings:
    """What no part can see alone."""
    if ":" in settings.policy.architecture:
        trust_network(settings.policy.architecture)  # whoever wrote the config named it
    check_network(settings.policy_spec())
    game = settings.make_game()
    if settings.storage.remote is not None:
        from storage.remote import check_url  # needs what a run without a remote does not

        check_url(settings.storage.remote)
    if settings.runners == 0 and settings.resources.address is not None:
        raise ValueError(
            "resources.address is set but runners is 0, expected runners of 1 or more on a cluster"
        )
    _check_learner(settings)
    check_players(settings.init_from, settings.players())
    _check_league(settings, game)
    if game.draw_possible and settings.ratings.draw_probability == 0.0:
        raise ValueError(
            f"ratings.draw_probability is 0, but matches of '{settings.env.id}' can be drawn; raise it"
        )
    _check_anchor(settings)
    if settings.learner.batch_steps > 100 * settings.rollout.matches_per_request * game.num_seats:
        raise ValueError(
            f"learner.batch_steps is {settings.learner.batch_steps}, far more than "
            f"rollout.matches_per_request = {settings.rollout.matches_per_request} matches bring; "
            "raise one, lower the other"
        )
    return settings


def _check_learner(settings: Settings) -> None:
    """What learners ask of the rest of the run."""
    learner, runners, gpus = settings.learner, settings.runners, settings.resources.gpus
    if learner.aggregators > runners:
        raise ValueError(
            f"learner.aggregators is {learner.aggregators}, more than the {runners} runners that they would "
            "serve; lower it, or raise runners"
        )
    if learner.processes > 1 and runners == 0:
        raise ValueError(
            f"learner.processes is {learner.processes}, but runners is 0: without Ray one process learns; "
            "set runners to 1 or more, or processes to 1"
        )
    check_precision(learner, gpus)
    for role in settings.league.resolve():
        try:
            settings.learner_of(role)
        except ValidationError as error:
            found = error.errors()[0]
            where = ".".join(str(part) for part in found["loc"])
            message = found["msg"].removeprefix("Value error, ")
            raise ValueError(f"league.roles.{role}.learner.{where}: {message}") from None
        except ValueError as error:
            raise ValueError(f"league.roles.{role}.learner.{error}") from None


def _check_anchor(settings: Settings) -> None:
    """A competitor that never changes: at the beginning, the first snapshot of a player."""
    anchor = settings.ratings.anchor
    first = [f"{name}@0" for name in settings.players()]
    if anchor is not None and anchor not in first:
        near = difflib.get_close_matches(anchor, first, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"ratings.anchor: found '{anchor}', expected a snapshot of this league that is there from the "
            f"beginning; did you mean '{near}'?"
        )


def _check_league(settings: Settings, game: BatchedGame) -> None:
    """What the rules of the league ask of the game: seats, teams, bots."""
    league, num_seats = settings.league, game.num_seats
    try:
        find_builder(league.builder)
    except ValueError as error:
        raise ValueError(f"league.builder: {error}") from None
    for bot in league.bots():
        try:
            make_bot(bot, settings.env.id, game.action_specs[0])
        except ValueError as error:
            raise ValueError(f"league.roles: bots: {error}") from None
    teams = int(settings.matchmaking.team_of_seat(num_seats)[-1]) + 1
    for role, rules in league.resolve().items():
        # Live mains must fill all teams but one wherever they are asked to. Snapshots may sit twice: they
        # multiply; a player that plays itself fills all seats.
        others = league.players[MAIN] - (role == MAIN)
        needed = teams - 1
        if rules.opponents.share("current_main") > 0 and others < needed:
            raise ValueError(
                f"league.players: the game has {teams} {'seats' if teams == num_seats else 'teams'}, more "
                f"than players can fill: branch 'current_main' of roles.{role} needs {needed} other mains, "
                f"found {others}; set main: {needed + (role == MAIN)} or give that share to another branch"
            )
    Matchmaker(
        league.resolve(), settings.matchmaking, num_seats=num_seats, env=settings.env.id, seed=settings.seed
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason}), expected a YAML file") from None
    try:
        fields = yaml.load(text, _Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"{path}: {line}not YAML ({getattr(error, 'problem', error)})") from None
    except ValueError as error:  # ConfigError too; or a date that is none
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: found {type(fields).__name__}, expected a mapping of settings")
    return fields


def _apply(fields: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    *parents, last = key.strip().split(".")
    if not equals or not all((*parents, last)):
        raise ConfigError(f"--set {override}: expected key=value, such as learner.lr=1e-3")
    try:
        value = yaml.load(text, _Loader)  # a SafeLoader
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: the value is not YAML") from None
    except ValueError as error:
        raise ConfigError(f"--set {override}: {error}") from None
    inner = fields
    for parent in parents:
        inner = inner.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: '{parent}' is a value, expected a group of settings")
    inner[last] = value


def _explain(error: ValidationError) -> str:
    """All mistakes, on one line: where, found, expected."""
    problems = []
    for item, place in _of_the_member_meant(error):
        path, keys = place.path, place.keys
        if item["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(item["loc"][-1]), keys, n=1)
            remedy = f"did you mean '{near[0]}'?" if near else f"expected one of: {', '.join(keys)}"
            problems.append(f"unknown key '{path}'; {remedy}")
        elif item["type"] == "value_error":
            message = str(item["ctx"]["error"])
            inside = re.split(r"[.:]", message, maxsplit=1)[0] in keys
            problems.append(f"{path}.{message}" if inside else f"{path}: {message}" if path else message)
        elif item["type"] == "missing":
            problems.append(f"{path}: missing, expected a value")
        elif item["type"] in ("model_type", "model_attributes_type", "dict_type"):
            problems.append(f"{path}: found {item['input']!r}, expected a group of settings")
        else:
            message = item["msg"]
            problems.append(f"{path}: found {item['input']!r}; {message[0].lower()}{message[1:]}")
    return "; ".join(" ".join(problem.split()) for problem in problems)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the settings a mistake is."""

    path: str
    keys: list[str]  # that the innermost group on the way takes
    choice: str | None = None  # path of the setting on the way that is a value or a group
    as_group: bool = False  # whether the mistake is one only if a group was meant


def _of_the_member_meant(error: ValidationError) -> list[tuple[Any, _Place]]:
    """All mistakes; of a setting that is a value or a group, only those against what was given."""
    found = [(item, _place(item["loc"])) for item in error.errors()]
    group_given = {
        place.choice: isinstance(item["input"], Mapping) for item, place in found if not place.as_group
    }
    return [
        (item, place)
        for item, place in found
        if place.choice is None or place.as_group == group_given.get(place.choice, True)
    ]


def _place(location: tuple[Any, ...]) -> _Place:
    """Follow a location of pydantic's, in which the members of a union have names too, into the settings."""
    model: Any = Settings
    path: list[str] = []
    choice, as_group = None, False
    members: list[Any] = []
    for part in location:
        if members:
            chosen = [member for member in members if member.__name__ == part]
            choice, as_group, members = ".".join(path), bool(chosen), []
            model = chosen[0] if chosen else None
            continue
        path.append(str(part))
        fields = getattr(model, "model_fields", {})
        if part not in fields:  # a key of a mapping, whose values have this model; or unknown
            continue
        annotation: Any = fields[part].annotation
        inner = [arg for arg in get_args(annotation) if arg is not type(None)]
        groups = [arg for arg in inner if hasattr(arg, "model_fields")]
        if groups and len(inner) > 1 and get_origin(annotation) in (Union, UnionType):
            members = groups
        else:
            model = annotation if hasattr(annotation, "model_fields") else (groups or [None])[0]
    keys = sorted(getattr(model, "model_fields", {}))
    return _Place(".".join(path), keys, choice, as_group)
