"""Config files: YAML, with overrides from the command line on top."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from storage.errors import Mistake


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
        raise ConfigError(f"{path}: cannot be read ({reason}), expected a YAML file") from None
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
        inner = inner.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: '{parent}' is a value, expected a group of settings")
    inner[last] = value
