"""Learner connectors: functions of the user's own on the columns of episodes, before they are learned from.

    def clipped(columns, rng):
        return {"reward": np.clip(columns["reward"], -1.0, 1.0), "size": np.abs(columns["reward"])}

`columns` are the arrays of `league.episode.Episodes` by name, read-only: N steps of E episodes, one behind
the other. The function returns columns that take the place of those of the same name, and new ones [N, ...],
which a loss finds under their names. `rng` draws the same numbers whenever a run is repeated. A policy's spec
names such functions (`policy.learner_connectors`), so they travel with its snapshots; they are imported by a
learner alone, and only if they are trusted (`league.import_paths`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from league.episode import Episodes
from league.import_paths import OwnCodeFailed, import_callable, require_trust, running
from league.models.spec import PolicySpec
from league.section import OwnPart
from storage.errors import Mistake

Columns = Mapping[str, npt.NDArray]
Connect = Callable[[Columns, np.random.Generator], Columns]

SETTING = "policy.learner_connectors"
# which steps, and whose
FIXED = ("offset", "match_id", "seat", "version", "terminated", "goes_on", "unbroken")


class LearnerConnectors:
    """The learner connectors of one policy, in order."""

    def __init__(self, parts: Sequence[OwnPart]) -> None:
        """Import the functions. Raise WeightsMismatch for one not trusted, Mistake for one not found."""
        self._functions: list[tuple[str, Connect]] = []
        for part in parts:
            require_trust(SETTING, part.use)
            try:
                function = import_callable(part.use, "a function of columns and rng")
            except ValueError as error:
                raise Mistake(f"{SETTING}: {error}") from None
            self._functions.append((part.use, functools.partial(function, **part.options)))

    def apply(self, episodes: Episodes, rng: np.random.Generator) -> tuple[Episodes, dict[str, npt.NDArray]]:
        """Return the episodes with their columns changed, and the new columns by name, [N, ...] each.

        Raise OwnCodeFailed, with the function's place, for what it raises and for columns of another shape.
        """
        own: dict[str, npt.NDArray] = {}
        for path, function in self._functions:
            columns = {name: column.view() for name, column in (episodes.arrays() | own).items()}
            for view in columns.values():
                view.flags.writeable = False  # the array itself may be kept for replay
            with running(SETTING, path):
                found = function(columns, rng)
            if not isinstance(found, Mapping):
                raise _failed(path, f"returned a {type(found).__name__}, expected columns by name")
            changed: dict[str, Any] = {}
            for name, column in found.items():
                kept = _checked(path, name, column, columns, episodes.num_steps)
                if name in columns and name not in own:
                    changed[name] = kept
                else:
                    own[name] = kept
            episodes = replace(episodes, **changed)
        return episodes, own


def check_learner_connectors(spec: PolicySpec) -> None:
    """Import the learner connectors of `spec`, which must be trusted, and run them on four steps of zeros.

    Raise Mistake for one that does not work.
    """
    if paths := spec.settings.learner_connectors:
        try:
            LearnerConnectors(paths).apply(made_up_steps(spec), np.random.default_rng(0))
        except OwnCodeFailed as error:
            raise Mistake(str(error)) from error


def made_up_steps(spec: PolicySpec) -> Episodes:
    """Return four steps of zeros, of two episodes, by which code of the user's own is tried."""
    seen, action = spec.learned, spec.action
    return Episodes(
        player="player",
        offset=np.array([0, 2, 4]),
        match_id=np.arange(2),
        seat=np.zeros(2, dtype=np.int8),
        version=np.zeros(2, dtype=np.int64),
        terminated=np.array([True, False]),
        observation=np.zeros((4, *seen.shape), dtype=seen.dtype),
        mask=np.ones((4, action.mask_width), dtype=np.bool_),
        action=np.zeros((4, *action.shape), dtype=action.dtype),
        log_prob=np.zeros(4, dtype=np.float32),
        reward=np.zeros(4, dtype=np.float32),
        bootstrap=np.zeros((1, *seen.shape), dtype=seen.dtype),
    )


def _checked(path: str, name: str, column: object, columns: Columns, num_steps: int) -> npt.NDArray:
    """Return a column that a connector returned, as an array of its own. Raise OwnCodeFailed."""
    if not isinstance(name, str) or not name.isidentifier():
        raise _failed(path, f"returned a column named {name!r}, expected a name such as 'weight'")
    if name in FIXED:
        raise _failed(path, f"returned column '{name}', which no connector may change")
    if not isinstance(column, np.ndarray):
        raise _failed(path, f"returned column '{name}' as {type(column).__name__}, expected an array")
    if name in columns:
        before = columns[name]
        if column.shape != before.shape:
            raise _failed(
                path, f"returned column '{name}' of shape {list(column.shape)}, expected {list(before.shape)}"
            )
        column = column.astype(before.dtype, copy=False)
    elif column.shape[:1] != (num_steps,):
        raise _failed(
            path,
            f"returned column '{name}' of shape {list(column.shape)}, expected one row for each of the "
            f"{num_steps} steps",
        )
    if column.dtype == object:
        raise _failed(path, f"returned column '{name}' of objects, expected numbers")
    return column if column.flags.writeable else column.copy()


def _failed(path: str, what: str) -> OwnCodeFailed:
    return OwnCodeFailed(f"{SETTING} {path}: {what}")
