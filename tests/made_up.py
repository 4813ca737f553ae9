"""Builders of made-up matches, results and snapshots, for all tests that need some without playing a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.archive import Archive
from storage.records import MAIN, Decision, MatchBatch, Purpose, ResultBatch, Role, Snapshot
from storage.snapshots.blobs import Tensors


def matches(
    competitors: Sequence[str],
    seat: npt.ArrayLike,
    *,
    env: str = "made-up",
    purpose: Purpose = Purpose.TRAINING,
    match_types: Sequence[str] = ("pfsp",),
    match_type: npt.ArrayLike = 0,
    learning: npt.ArrayLike = False,
    match_id: npt.ArrayLike | None = None,
    seed: npt.ArrayLike | None = None,
    teams: Sequence[int] | None = None,
) -> MatchBatch:
    """Return M matches: `seat` [M, S] holds places in `competitors`.

    `match_type` [M] and `learning` [M, S] may be one value for all; `match_id`, `seed` default to arange(M).
    `teams`: the team of each seat.
    """
    seats = np.asarray(seat, np.int32)
    numbers = np.arange(len(seats))
    return MatchBatch(
        env=env,
        purpose=purpose,
        match_types=tuple(match_types),
        competitors=tuple(competitors),
        match_id=numbers if match_id is None else np.asarray(match_id, np.int64),
        seed=numbers if seed is None else np.asarray(seed, np.int64),
        match_type=_filled(match_type, len(seats), np.int16),
        seat=seats,
        learning=_filled(learning, seats.shape, np.bool_),
        team_of_seat=None if teams is None else tuple(teams),
    )


def results(
    played: MatchBatch,
    outcome: npt.ArrayLike,
    *,
    score: npt.ArrayLike = 0.0,
    rank: npt.ArrayLike | None = None,
    env_steps: npt.ArrayLike = 9,
    reason: npt.ArrayLike = 0,
    started_at: npt.ArrayLike = 0.0,
    seconds: npt.ArrayLike = 1.0,
    digest: npt.ArrayLike | None = None,
) -> ResultBatch:
    """Return the results of M matches with `outcome` [M, S].

    All other columns, [M] or [M, S], may be one value for all; `rank` defaults to 1 for those who lost.
    """
    outcomes, m = np.asarray(outcome, np.int8), len(played)
    return ResultBatch(
        matches=played,
        outcome=outcomes,
        score=_filled(score, outcomes.shape, np.float32),
        rank=_filled((outcomes >= 2) if rank is None else rank, outcomes.shape, np.int8),
        env_steps=_filled(env_steps, m, np.int32),
        reason=_filled(reason, m, np.int8),
        started_at=_filled(started_at, m, np.float64),
        seconds=_filled(seconds, m, np.float32),
        digest=None if digest is None else np.asarray(digest, np.int64),
    )


def add_snapshot(
    archive: Archive,
    env_steps: int,
    tensors: Tensors,
    spec: Mapping[str, Any],
    *,
    player: str = "main-0",
    role: Role = MAIN,
    updates: int = 0,
    parent_id: str | None = None,
    reason: str = "test",
    decisions: Sequence[Decision] = (),
) -> Snapshot:
    """Store `tensors` as `<player>@<env_steps>`, of the architecture that `spec` names, or else "mlp"."""
    architecture = spec.get("settings", {}).get("architecture", "mlp")
    return archive.add_snapshot(
        player, role, env_steps, updates, parent_id, tensors, spec, architecture, reason, decisions=decisions
    )


def _filled(values: npt.ArrayLike, shape: int | tuple[int, ...], kind: Any) -> npt.NDArray[Any]:
    """Return `values` as an array of this shape and kind, repeated where it is one value."""
    return np.array(np.broadcast_to(np.asarray(values, kind), shape))


def memory_of(kind, size=8, **attention):
    """The setting `policy.memory` of a kind, with a size if it has one; `attention` is for a transformer."""
    if kind == "none":
        return "none"
    return {"kind": kind, "size": size, **(attention if kind == "transformer" else {})}
