"""Checks of episodes at the doors of the library: those that a program brings, not those of our runners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from league.episode import Episodes
from league.models.spec import PolicySpec
from storage.errors import Mistake

OF_EACH = {"match_id": np.integer, "seat": np.integer, "version": np.integer, "terminated": np.bool_}
KINDS = {np.integer: "whole numbers", np.bool_: "True or False", np.floating: "floating-point numbers"}

ROUNDING = 1e-4  # of the logarithm of a probability of 1


class MalformedEpisodes(Mistake, ValueError):
    """Episodes that a learner cannot learn from: the first field that is wrong, and what was expected."""


def check_episodes(episodes: Episodes, player: str, spec: PolicySpec, memory_size: Callable[[], int]) -> None:
    """Raise MalformedEpisodes unless a learner of `player` with this policy can learn from the episodes.

    `memory_size` returns that of the network; it is called if episodes have memories.
    """
    if not isinstance(episodes, Episodes):
        raise MalformedEpisodes(
            f"update_from_episodes: found a {type(episodes).__name__} for player '{player}', expected "
            "league.extend.Episodes; tensors go to update_from_batch"
        )
    check = _Check(episodes, player)
    if episodes.player != player:
        check.fail("player", f"'{episodes.player}'", f"'{player}'")
    _check_offsets(check)
    for name, kind in OF_EACH.items():
        check.array(name, (len(episodes),), kind)
    for name in ("seat", "version"):
        check.all(name, getattr(episodes, name) >= 0, "numbers of 0 or more")
    n, k, seen = episodes.num_steps, int(np.count_nonzero(~episodes.terminated)), spec.learned
    floats = np.issubdtype(np.dtype(seen.dtype), np.floating)
    for name, rows in (("observation", n), ("bootstrap", k)):
        why = ", one for each episode that was not terminated" if name == "bootstrap" else ""
        check.array(name, (rows, *seen.shape), np.floating if floats else np.integer, why, exact=seen.dtype)
    for name in ("reward", "log_prob"):
        check.array(name, (n,), np.floating)
    if floats:
        check.finite("observation", "bootstrap")
    check.finite("reward", "log_prob")
    _check_actions(check, spec)
    if episodes.memory is not None:
        check.array("memory", (len(episodes), memory_size()), np.floating)
        check.finite("memory")
    if episodes.goes_on is not None:
        check.array("goes_on", (len(episodes),), np.bool_)
        check.all("goes_on", ~(episodes.goes_on & episodes.terminated), "False where `terminated` is True")


def _check_offsets(check: _Check) -> None:
    """Fail unless `offset` cuts all steps into episodes of one step or more."""
    episodes, n = check.episodes, check.length("action")
    check.array("offset", (check.length("match_id") + 1,), np.integer, ", one more than episodes")
    offset = episodes.offset
    if offset[0] != 0 or offset[-1] != n:
        check.fail("offset", f"from {offset[0]} to {offset[-1]}", f"from 0 to {n}, the number of actions")
    check.all("offset", np.append(np.diff(offset), 1) > 0, "an episode of one step or more from each")


def _check_actions(check: _Check, spec: PolicySpec) -> None:
    """Fail unless masks and actions are those of the policy, and each action is a legal one."""
    episodes, action = check.episodes, spec.action
    n = episodes.num_steps
    check.array("mask", (n, action.mask_width), np.bool_)
    check.array("action", (n, *action.shape), np.floating if action.low else np.integer)
    if action.low:
        check.finite("action")
    else:
        check.all("log_prob", episodes.log_prob <= ROUNDING, "the logarithm of a probability: 0 or less")
    chosen = episodes.action.reshape(n, -1)
    for column, (begin, end) in enumerate(action.columns):
        own, mask = chosen[:, column], episodes.mask[:, begin:end]
        whole = (own >= 0) & (own < end - begin) & (own == np.floor(own))
        check.all("action", whole, f"an action from 0 to {end - begin - 1}")
        check.all("mask", mask.any(axis=1), "at least one legal action")
        check.all("action", mask[np.arange(n), own.astype(np.int64)], "an action that the mask permits")


class _Check:
    """Checks of single arrays of some episodes."""

    def __init__(self, episodes: Episodes, player: str) -> None:
        self.episodes = episodes
        self._player = player

    def fail(self, name: str, found: str, expected: str) -> NoReturn:
        raise MalformedEpisodes(
            f"episodes of player '{self._player}': found {name} {found}, expected {expected}; see "
            "league.extend.Episodes for the arrays and their shapes"
        )

    def length(self, name: str) -> int:
        """Return the length of an array."""
        array = getattr(self.episodes, name)
        if not isinstance(array, np.ndarray) or not array.ndim:
            self.fail(name, _shown(array), "an array")
        return len(array)

    def array(
        self, name: str, shape: tuple[int, ...], kind: Any, why: str = "", exact: npt.DTypeLike | None = None
    ) -> None:
        """Fail unless it is an array of this shape and kind of number, and of the type `exact` if given."""
        array = getattr(self.episodes, name)
        if not isinstance(array, np.ndarray) or array.shape != shape:
            self.fail(name, _shown(array), f"shape {list(shape)}{why}")
        wanted = np.issubdtype(array.dtype, kind) if exact is None else array.dtype == exact
        if not wanted:
            expected = KINDS[kind] if exact is None else str(np.dtype(exact))
            self.fail(name, f"of {array.dtype}", expected)

    def finite(self, *names: str) -> None:
        """Fail unless all numbers of these arrays are finite."""
        for name in names:
            self.all(name, np.isfinite(getattr(self.episodes, name)), "finite numbers")

    def all(self, name: str, passed: npt.ArrayLike, expected: str) -> None:
        """Fail at the first row where `passed` is not True throughout; its rows are those of the array."""
        right = np.asarray(passed)
        if right.all():
            return
        row = int(np.argmin(right.reshape(len(right), -1).all(axis=1)))
        self.fail(f"{name}[{row}]", str(np.asarray(getattr(self.episodes, name))[row]), expected)


def _shown(found: object) -> str:
    return f"of shape {list(found.shape)}" if isinstance(found, np.ndarray) else f"{found!r:.40}"
