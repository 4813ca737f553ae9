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
TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"
NUMBERS = {
    "int": r"^[-+]?[0-9][0-9_]*$|^[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+)$",
    "float": r"^[-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$"
    r"|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$",
}
MOST_SHOWN = 40  # characters of text that cannot be read
PLAN, PLANNED = "sweep.json", "configs"
"""File with the plan of a sweep, and the folder beside it with the settings of its runs."""


class ConfigError(Mistake, ValueError):
    """Mistake in a config; the message is for the author of the config."""


class _Loader(yaml.SafeLoader):
    """Loader of YAML 1.2's numbers that refuses repeated keys.

    PyYAML alone reads 1e-3 as text, 010 as 8, and 1:30 as 90.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ConfigError:
            raise
        except (ValueError, LookupError, AttributeError) as error:  # text that is not what its tag says
            why = f" ({error})" if isinstance(error, ValueError) else ""
            found, kind = str(node.value)[:MOST_SHOWN], node.tag.removeprefix(TAG)
            line = node.start_mark.line + 1
            raise ConfigError(f"line {line}: '{found}' cannot be read as {kind}{why}") from None

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        text = str(self.construct_scalar(node)).replace("_", "")
        return int(text, 0 if re.search("[box]", text) else 10)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE:
                continue  # its keys are defaults of those beside it
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, Hashable):
                raise ConfigError(f"line {line}: found {key!r} as a key, expected a word")
            if key in seen:
                raise ConfigError(f"line {line}: key '{key}' is given twice, expected once")
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes text which `_Loader`, or YAML 1.1, would read as a number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag.removeprefix(TAG) not in NUMBERS]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for of_yaml in (_Loader, _Dumper):
    for name, pattern in NUMBERS.items():
        of_yaml.add_implicit_resolver(f"{TAG}{name}", re.compile(pattern), list("-+0123456789."))
_Loader.add_constructor(f"{TAG}int", _Loader.construct_yaml_int)


def _load(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except RecursionError:
        raise ConfigError("groups are nested too deeply") from None


def to_yaml(fields: Mapping[str, Any]) -> str:
    """Return settings as YAML that reads back as the same."""
    return yaml.dump(dict(fields), Dumper=_Dumper, sort_keys=False)


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
        fields = _load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = " ".join(str(getattr(error, "problem", error)).split())
        raise ConfigError(f"{path}: {line}not YAML ({problem})") from None
    except ConfigError as error:
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
        value = _load(text)
    except yaml.YAMLError:
        raise ConfigError(f"--set {override}: the value is not YAML") from None
    except ConfigError as error:
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
