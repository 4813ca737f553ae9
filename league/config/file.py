"""Config files: YAML, with overrides from the command line on top."""

from __future__ import annotations

import copy
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from league.envs import registry
from league.import_paths import is_import_path
from league.mistakes import explain
from league.moved_keys import translated
from storage.errors import Mistake
from storage.layout import CONFIG, FORMAT
from storage.suggestions import or_near

Model = TypeVar("Model", bound=BaseModel)
NAMED = ("loss", "optimizer", "torso", "memory", "builder", "matchmaker", "weighting", "after_update")
"""Groups of settings for which a name is short."""
PLAN, PLANNED = "sweep.json", "configs"
"""File with the plan of a sweep, and the folder beside it with the settings of its runs."""


class ConfigError(Mistake, ValueError):
    """Mistake in a config; the message is for the author of the config."""


class _Loader(yaml.SafeLoader):
    """Loader of YAML 1.2 numbers (PyYAML alone reads 1e-3 as text) that refuses repeated keys."""

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


def read(path: Path) -> dict[str, Any]:
    """Return the settings in a file as they are written. Raise ConfigError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        remedy = or_near(path, registry.ids())
        remedy = "; --resume goes on with a run folder" if path.is_dir() else remedy
        raise ConfigError(f"{path}: cannot be read ({reason}), expected a YAML file{remedy}") from None
    try:
        fields = yaml.load(text, _Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"{path}: {line}not YAML ({getattr(error, 'problem', error)})") from None
    except ValueError as error:  # ConfigError too, or an invalid date
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: found {type(fields).__name__}, expected a mapping of settings")
    return fields


def apply(fields: dict[str, Any], override: str) -> None:
    """Set `a.b=value` in `fields`. Raise ConfigError if `override` is not of that form."""
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
        above, inner = inner, inner.setdefault(parent, {})
        if isinstance(inner, str) and parent in NAMED:
            inner = above[parent] = {"use" if is_import_path(inner) else "kind": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: '{parent}' is a value, expected a group of settings")
    inner[last] = value


def as_read_now(recorded: Mapping[str, Any], name: str = "config") -> dict[str, Any]:
    """Return the settings that a run folder has recorded, as they are written today.

    Messages call them `name`. Raise ConfigError for a value that there is no way to write any more.
    """
    try:
        fields = translated(recorded)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    policy, env = fields.get("policy"), fields.get("env")
    if isinstance(policy, dict) and policy.get("squash") is False and isinstance(env, Mapping):
        game = registry.make(env["id"], 1, **(env.get("options") or {}))
        if not any(action.low for action in game.action_specs):
            del policy["squash"]  # it could be set where it says nothing
    return fields


def fields_of(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    *,
    name: str = "config",
) -> tuple[str, dict[str, Any]]:
    """Return what messages call `source` (a YAML file or a mapping, which is `name`), and its settings.

    On top of them come `changes`, one level deep, then `a.b=value` overrides. A file that gives no `name`
    gets its own. Raise ConfigError for a file that cannot be read and for a malformed override.
    """
    if isinstance(source, Mapping):
        where, fields = name, copy.deepcopy(dict(source))  # overrides must not reach the caller's mapping
    else:
        path = Path(source)
        where, fields, folder = str(source), read(path), path.parent
        of_run = path.name == CONFIG and (folder / FORMAT).exists()
        if of_run or (folder.name == PLANNED and (folder.parent / PLAN).exists()):
            fields = as_read_now(fields, where)  # maybe an older version has written it
        fields.setdefault("name", re.sub(r"[^A-Za-z0-9._-]", "-", path.stem))
    for key, value in (changes or {}).items():
        inner = fields.get(key)
        fields[key] = (
            {**inner, **value} if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
        )
    for override in overrides:
        apply(fields, override)
    return where, fields


def parse(model: type[Model], where: str, fields: Mapping[str, Any]) -> Model:
    """Return `fields` as settings of the class `model`. Raise ConfigError for mistakes, naming `where`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(f"{where}: {explain(error, model)}") from None
    except Mistake as error:
        raise ConfigError(f"{where}: {error}") from None
