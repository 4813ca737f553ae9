"""Settings that were removed: dropped from what older versions recorded, refused in a new config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REMOVED: Mapping[tuple[str, str], str] = {
    ("opponents", "learning"): "the seats of other live players do not learn: that they did made no "
    "difference that could be measured",
    ("learner", "ring"): "each minibatch is learned from once; set learner.epochs for several passes, or "
    "learner.replay for old experience beside the new",
    ("learner", "compile"): "networks run as they are written",
    ("learner", "stacked"): "the players of a shard learn one after the other; to let them learn in "
    "processes of their own, set learner.shards",
}
"""Section and key of each removed setting, and what the author of a config should know."""
_PARTS = ("league", "learner")  # of a config; the sections of `REMOVED` are in these, at any depth


def without_removed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that an older version recorded, without those that were removed."""
    return {key: _kept(value, (key,)) if key in _PARTS else value for key, value in fields.items()}


def refuse_removed(fields: Mapping[str, Any]) -> None:
    """Raise ValueError if a config has a setting that was removed."""
    for part in _PARTS:
        _kept(fields.get(part), (part,), refused=True)


def _kept(value: Any, path: tuple[str, ...], *, refused: bool = False) -> Any:
    """Return `value`, at `path`, without removed settings. Raise ValueError for one if they are `refused`."""
    if not isinstance(value, Mapping):
        return value
    found = {}
    for key, inner in value.items():
        why = REMOVED.get((path[-1], key))
        if why is None:
            found[key] = _kept(inner, (*path, str(key)), refused=refused)
        elif refused:
            raise ValueError(f"{'.'.join(path)}.{key} was removed; leave it out: {why}")
    return found
