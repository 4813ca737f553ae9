"""Settings that were removed: dropped from what older versions recorded, refused in a new config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from league.config.file import ConfigError

REMOVED: Mapping[tuple[str, str], str] = {
    ("opponents", "learning"): "the seats of other live players do not learn: that they did made no "
    "difference that could be measured",
}
"""Section and key of each removed setting, and what the author of a config should know."""
_PARTS = ("league", "learner")  # of a config; the sections of `REMOVED` are in these, at any depth


def without_removed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that an older version recorded, without those that were removed."""
    return {key: _kept(value, (key,)) if key in _PARTS else value for key, value in fields.items()}


def refuse_removed(where: str, fields: Mapping[str, Any]) -> None:
    """Raise ConfigError if the config `where` has a setting that was removed."""
    for part in _PARTS:
        _kept(fields.get(part), (part,), where)


def _kept(value: Any, path: tuple[str, ...], config: str | None = None) -> Any:
    """Return `value`, at `path`, without removed settings. Raise ConfigError for one of a new `config`."""
    if not isinstance(value, Mapping):
        return value
    found = {}
    for key, inner in value.items():
        why = REMOVED.get((path[-1], key))
        if why is None:
            found[key] = _kept(inner, (*path, str(key)), config)
        elif config is not None:
            raise ConfigError(f"{config}: {'.'.join(path)}.{key} was removed; leave it out: {why}")
    return found
